"""The directories of runs: one a run, with a `run.json` that says of which kind it is.

Runs of all kinds share one directory; each kind has an archive that sees its own alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from grampus.core.errors import not_found
from grampus.core.models import Model

RUN_FILE = "run.json"


class _AnyKind(Model):
    model_config = ConfigDict(extra="ignore")

    kind: object = None


class RunDirectories:
    """The runs under `directory` whose kind `is_ours`. No kind (None) was once one, too."""

    def __init__(self, directory: Path, is_ours: Callable[[object], bool]) -> None:
        self._directory = directory
        self._is_ours = is_ours

    def run_dir(self, run_id: str) -> Path:
        """Where the run is, or will be."""
        return self._directory / run_id

    def run_file(self, run_id: str) -> Path:
        """Its `run.json`."""
        return self.run_dir(run_id) / RUN_FILE

    def run_ids(self) -> list[str]:
        """The runs that have a `run.json`, oldest first."""
        files = self._directory.glob(f"*/{RUN_FILE}")
        return sorted(file.parent.name for file in files if self._is_ours(_kind_in(file)))

    def resolve(self, run_id: str) -> str:
        """The id itself, or the newest run's for `latest`. Raises NotFoundError."""
        # Not by listing all of them: whoever loads each run in turn would read each so often.
        if Path(run_id).name == run_id and run_id not in ("", ".."):
            file = self.run_file(run_id)
            if file.exists() and self._is_ours(_kind_in(file)):
                return run_id
        known = self.run_ids()
        if run_id == "latest" and known:
            return known[-1]
        raise not_found("run", run_id, known, list_command="grampus bench list")


def _kind_in(file: Path) -> object:
    """What a `run.json` says of its kind; None when it is no such document at all."""
    try:
        return _AnyKind.model_validate_json(file.read_bytes()).kind
    except ValidationError:
        return None
