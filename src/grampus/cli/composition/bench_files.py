"""Where suites, the catalog and the runs of benchmarks are: all that showing a run needs."""

from __future__ import annotations

from grampus.core.installation import INSTALLATION
from grampus.state.home import Home
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.runs import RunArchive

SUITES = INSTALLATION.data / "suites"
SOURCE_SUITES = SUITES / "sources"
CLUSTER_SUITES = SUITES / "clusters"
LAB_SUITES = SUITES / "labs"
CATALOG = INSTALLATION.data / "catalog"


def run_archive(home: Home) -> RunArchive:
    """Runs of the suites `quick` and `paths`."""
    return RunArchive(home.runs_dir)


def matrix_archive(home: Home) -> MatrixArchive:
    """Runs of all other suites."""
    return MatrixArchive(home.runs_dir)
