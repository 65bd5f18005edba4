"""One suite measured on a lab of a proof, as a user would: its line in an index, its page, and the
figures of each trial."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grampus.bench.matrix.suite import MatrixSuite
from tests.proof.experiments.pages import Line, decide_line, render_measured, render_unmeasured
from tests.system.command_line import CommandLine

# Beside the measuring, what cells stand on is made and removed.
TIMEOUT_S = 3 * 3600
NOT_FOUND = 3


@dataclass(frozen=True)
class Measured:
    """`trials` is CSV, a row for each trial, so that anybody can compute the page's figures again;
    None where nothing could be measured."""

    line: Line
    page: str
    trials: str | None = None


def measure(command_line: CommandLine, suite: MatrixSuite, file: Path, scale: str) -> Measured:
    """A run of the suite in `file`: a finished one that is kept, an unfinished one continued, or a
    new one.

    Raises AssertionError when a command fails.
    """
    name, place = suite.name, str(file)
    plan = command_line.json("bench", "run", place, "--scale", scale, "--dry-run")
    cells = len(plan["cells"])
    if all(cell["not_runnable"] is not None for cell in plan["cells"]):
        return Measured(decide_line(name, None, cells, ""), render_unmeasured(suite.title, plan))
    shown = find_finished(command_line, name, scale, file.read_text()) or run(
        command_line, place, scale
    )
    when = f"{datetime.fromtimestamp(shown['started_at_s'], UTC):%Y-%m-%d %H:%M}"
    page = command_line.ok("bench", "export", shown["run_id"]).stdout
    trials = command_line.ok("bench", "export", shown["run_id"], "--as", "csv").stdout
    line = decide_line(name, shown, cells, when, has_remarks=bool(suite.remarks))
    return Measured(line, render_measured(page, suite.remarks), trials)


def find_finished(
    command_line: CommandLine, suite: str, scale: str, text: str
) -> dict[str, Any] | None:
    """The newest finished run of the suite with that text, as `bench show` tells it."""
    for one in reversed(command_line.json("bench", "list")["runs"]):
        if one["suite"] == suite:
            shown: dict[str, Any] = command_line.json("bench", "show", one["run_id"])
            is_of_it = (shown["scale"], shown["suite_text"]) == (scale, text)
            if shown["ended_at_s"] is not None and is_of_it:
                return shown
    return None


def run(command_line: CommandLine, place: str, scale: str) -> dict[str, Any]:
    """Go on with the suite's unfinished run, or make one, to its end."""
    arguments = ("bench", "run", place, "--scale", scale, "--format", "json")
    resumed = command_line.run(*arguments, "--resume", timeout_s=TIMEOUT_S)
    if resumed.code == NOT_FOUND:
        resumed = command_line.ok(*arguments, timeout_s=TIMEOUT_S)
    assert resumed.code == 0, f"{place}: {resumed.stderr[-500:]}"
    document: dict[str, Any] = resumed.document
    return document
