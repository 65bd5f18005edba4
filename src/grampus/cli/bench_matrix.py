"""`grampus bench run NAME` for suites that are matrices, and what is shown of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grampus.bench.catalog import load_catalog
from grampus.bench.findings.documents import (
    compare_matrix_document,
    matrix_document,
    suite_document,
)
from grampus.bench.matrix.loading import (
    load_matrix_suites,
    parse_matrix_suite,
)
from grampus.bench.matrix.suite import SCALES, ScaleName
from grampus.cli.bench_matrix_tables import show_findings
from grampus.cli.bench_tables import format_times, show_comparison
from grampus.cli.composition.bench_files import CATALOG, CLUSTER_SUITES, LAB_SUITES, SOURCE_SUITES
from grampus.cli.options import FORMAT_DEFAULT, FormatOption
from grampus.cli.output import make_output
from grampus.core.errors import UsageError, closest_name
from grampus.report.build import build_matrix_report
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_runs import MatrixRun, Trial

SUITE_ENDING = ".yaml"
SUITE_DIRECTORIES = (SOURCE_SUITES, CLUSTER_SUITES, LAB_SUITES)
# The page of a run, in the run's directory.
REPORT_FILE = "report.html"


@dataclass(frozen=True)
class MatrixOptions:
    """What the user asks for beside the suite; None is what the suite's scale says."""

    scale: ScaleName = "tiny"
    rounds: int | None = None
    budget_s: float | None = None
    seed: int | None = None
    resume: bool = False
    keep_data: bool = False


def parse_scale(text: str | None) -> ScaleName:
    """The scale, tiny unless told. Raises UsageError with a suggestion."""
    for scale in SCALES:
        if scale == (text or SCALES[0]):
            return scale
    suggestion = closest_name(text or "", SCALES)
    hint = f"Did you mean '{suggestion}'? " if suggestion else ""
    raise UsageError(
        f"There is no scale '{text}' of a suite of this kind.",
        f"{hint}The scales are {', '.join(SCALES)}.",
    )


def list_matrix_suites() -> list[dict[str, Any]]:
    """What `bench list` tells of each suite: those of the sources, of a cluster alone, of labs."""
    return [
        suite_document(suite)
        for directory in SUITE_DIRECTORIES
        for suite in load_matrix_suites(directory)
    ]


def matrix_suite_names() -> list[str]:
    """The names of those suites."""
    return sorted(_matrix_files())


def find_matrix_file(suite: str) -> Path | None:
    """The file of Grampus's own suite of the name `suite`, or the user's at that path."""
    if suite.endswith(SUITE_ENDING):
        return Path(suite)
    return _matrix_files().get(suite)


def show_matrix(run: MatrixRun, archive: MatrixArchive, output_format: FormatOption) -> None:
    """One run: cells, comparisons, conclusions, what the source published, and where its page
    is."""
    document = _document(run, archive.trials(run.run_id), archive)
    report = archive.run_dir(run.run_id) / REPORT_FILE
    document["report"] = str(report) if report.exists() else None
    output = make_output(output_format)
    if output_format is not FORMAT_DEFAULT:
        output.text(document, "")
        return
    show_findings(output, document)


def write_matrix_page(run: MatrixRun, archive: MatrixArchive) -> None:
    """Write the page of a run to where `show_matrix` says that it is."""
    build_matrix_page(run, archive, archive.run_dir(run.run_id) / REPORT_FILE)


def build_matrix_page(run: MatrixRun, archive: MatrixArchive, target: Path) -> None:
    """Write the page of a run to `target`."""
    trials = archive.trials(run.run_id)
    build_matrix_report(run, trials, _document(run, trials, archive), target)


def compare_matrices(
    first: MatrixRun, second: MatrixRun, archive: MatrixArchive, output_format: FormatOption
) -> None:
    """Two runs of one suite side by side: the second over the first."""
    if first.suite != second.suite:
        raise UsageError(
            f"{first.run_id} is a run of {first.suite}, and {second.run_id} one of "
            f"{second.suite}: they have nothing in common.",
            "Compare two runs of the same suite; `grampus bench list` shows them.",
        )
    document = compare_matrix_document(
        first, archive.trials(first.run_id), second, archive.trials(second.run_id)
    )
    show_comparison(
        make_output(output_format),
        output_format,
        document,
        ["cell", "first/s", "second/s", "ratio x", "spread", "remark"],
        _comparison_rows(document["results"]),
        "The two runs have no cell in common: what was measured, or for how long, differs.",
    )


def _document(run: MatrixRun, trials: Sequence[Trial], archive: MatrixArchive) -> dict[str, Any]:
    suite = parse_matrix_suite(run.suite_text, source=f"the suite of the run {run.run_id}")
    directory = str(archive.run_dir(run.run_id))
    return matrix_document(run, suite, trials, load_catalog(CATALOG), directory)


def _matrix_files() -> dict[str, Path]:
    directories = SUITE_DIRECTORIES
    files = [file for one in directories for file in one.glob(f"*{SUITE_ENDING}")]
    return {file.stem: file for file in files}


def _comparison_rows(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for row in results:
        means = [row[side]["operations_per_s"] for side in ("first", "second")]
        spread = (
            "-"
            if row["ratio_low"] is None or row["ratio_high"] is None
            else f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        )
        rows.append(
            [
                row["name"],
                *("-" if mean is None else f"{mean['mean']:,.0f}" for mean in means),
                format_times(row["ratio"]),
                spread,
                row["reason"] or "",
            ]
        )
    return rows
