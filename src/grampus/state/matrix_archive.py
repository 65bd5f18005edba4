"""Reading and writing runs of matrix suites; their documents are in `matrix_runs.py`.

Whatever is written is whole or not there: `run.json` is replaced at once, and a line of the others
counts when its end is there. Errors of the disk are GrampusErrors, after which a run can be gone on
with: code `no-space` for a full one, `archive-unusable` otherwise.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from grampus.core.errors import GrampusError, RefusedError
from grampus.state.home import write_atomically
from grampus.state.matrix_layers import SeriesPoint
from grampus.state.matrix_runs import MatrixRun, Moment, Trial
from grampus.state.run_directories import RunDirectories
from grampus.state.runs import MATRIX_KIND

LineT = TypeVar("LineT", bound=BaseModel)


class MatrixArchive:
    """The runs of matrix suites under one directory, which those of `RunArchive` share."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs = RunDirectories(directory, lambda kind: kind == MATRIX_KIND)

    def run_dir(self, run_id: str) -> Path:
        return self._runs.run_dir(run_id)

    def run_ids(self) -> list[str]:
        """Runs that have begun, finished or not, oldest first."""
        return self._runs.run_ids()

    def resolve(self, run_id: str) -> str:
        """The id itself, or the newest run's for `latest`. Raises NotFoundError."""
        return self._runs.resolve(run_id)

    def load(self, run_id: str) -> MatrixRun:
        """The run named `run_id` (or `latest`). Raises NotFoundError."""
        file = self._runs.run_file(self.resolve(run_id))
        return MatrixRun.model_validate_json(file.read_bytes())

    def trials(self, run_id: str) -> list[Trial]:
        """What has been measured so far, in order; without one that was cut off while written."""
        return _read_whole_lines(self._trials_file(run_id), Trial)

    def moments(self, run_id: str) -> list[Moment]:
        """When processes worked on the run, in order."""
        return _read_whole_lines(self._moments_file(run_id), Moment)

    def latest_unfinished(self, suite: str, scale: str) -> MatrixRun | None:
        """The newest run of `suite` at `scale` that can be gone on with."""
        for run_id in reversed(self.run_ids()):
            run = self.load(run_id)
            if run.suite == suite and run.scale == scale and run.ended_at_s is None:
                return run
        return None

    def begin(self, run: MatrixRun) -> None:
        """Write a new run down. Raises RefusedError (`exists`) when there is one of its id."""
        if self._runs.run_file(run.run_id).exists():
            raise RefusedError(
                f"A run named '{run.run_id}' already exists.",
                "Continue it (--resume), or start a new one a second later.",
                code="exists",
            )
        self._write(run)

    def end(self, run: MatrixRun) -> None:
        """Replace what is written of a run by `run`, which has its `ended_at_s`."""
        self._write(run)

    def append(self, run_id: str, trial: Trial) -> None:
        """Add a trial, durably: it is there when this returns, and not at all before."""
        with self._explained():
            _append_line(self._trials_file(run_id), trial)

    def append_moment(self, run_id: str, moment: Moment) -> None:
        """Add a moment, durably."""
        with self._explained():
            _append_line(self._moments_file(run_id), moment)

    def write_raw(self, run_id: str, cell_id: str, round_: int, name: str, text: str) -> None:
        """Keep what a driver printed; what a trial that is made again left there is replaced."""
        if Path(name).name != name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a valid file name")
        file = self.run_dir(run_id) / "raw" / cell_id / str(round_) / name
        with self._explained():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def write_series(
        self, run_id: str, cell_id: str, round_: int, points: Iterable[SeriesPoint]
    ) -> None:
        """Keep what monitors saw of a trial, in place of what is there of one made before."""
        lines = [point.model_dump_json().encode() + b"\n" for point in points]
        file = self._series_file(run_id, cell_id, round_)
        with self._explained():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, b"".join(lines))

    def series(self, run_id: str, cell_id: str, round_: int) -> list[SeriesPoint]:
        """What monitors saw of a trial, in the order of time; nothing where none ran."""
        return _read_whole_lines(self._series_file(run_id, cell_id, round_), SeriesPoint)

    def _series_file(self, run_id: str, cell_id: str, round_: int) -> Path:
        return self.run_dir(run_id) / "series" / cell_id / f"{round_}.jsonl"

    def _write(self, run: MatrixRun) -> None:
        document = run.model_dump_json(indent=2).encode()
        # JSON has no NaN: what cannot be read back is refused before it replaces anything.
        MatrixRun.model_validate_json(document)
        with self._explained():
            write_atomically(self._runs.run_file(run.run_id), document)

    def _trials_file(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "visits.jsonl"

    def _moments_file(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "moments.jsonl"

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise explain_archive_error(error, str(self._directory)) from error


def explain_archive_error(error: OSError, place: str) -> GrampusError:
    """What to tell the user when runs cannot be written to the directory `place`."""
    said = f"({error.strerror or type(error).__name__})"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return GrampusError(
            f"There is no space left for the run in {place} {said}.",
            "Free space there, then continue the run (--resume). Measured trials are kept.",
            code="no-space",
        )
    return GrampusError(
        f"The run cannot be written to {place} {said}.",
        "Make the directory writable, then continue the run (--resume).",
        code="archive-unusable",
    )


def _append_line(file: Path, content: BaseModel) -> None:
    """One write, then fsync. What an earlier append left without its end is cut off first."""
    line = content.model_dump_json(exclude_none=True).encode() + b"\n"
    type(content).model_validate_json(line)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        end = os.fstat(descriptor).st_size
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            end = _whole_bytes(file.read_bytes())
            os.ftruncate(descriptor, end)
        written = os.pwrite(descriptor, line, end)
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole_bytes(content: bytes) -> int:
    """The length of `content` up to the end of its last whole line."""
    return content.rfind(b"\n") + 1


def _read_whole_lines(file: Path, model: type[LineT]) -> list[LineT]:
    if not file.exists():
        return []
    content = file.read_bytes()
    lines = content[: _whole_bytes(content)].splitlines()
    return [model.model_validate_json(line) for line in lines]
