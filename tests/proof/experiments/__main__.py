"""`make experiments`: each published experiment on a lab, into docs/experiments."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.proof.experiments.pages import Line, decide_line, render_index, render_unmeasured
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT, CommandLine

LAB = "experiments"
DIRECTORY = CHECKOUT / "build" / "experiments"
PAGES = CHECKOUT / "docs" / "experiments"
SCALE = "tiny"
# Beside ten minutes of measuring, what cells stand on is made and removed.
TIMEOUT_S = 3600
NOT_FOUND = 3


def main() -> int:
    """Measure what is not measured yet, and write the pages; 1 when a suite ended in an error."""
    wanted = os.environ.get("GRAMPUS_EXPERIMENTS", "")
    failed = []
    with own_lab(LAB, DIRECTORY) as command_line:
        listed = command_line.json("bench", "list")
        suites = [one for one in listed["suites"] if one["source"] is not None]
        chosen = [one for one in suites if not wanted or one["name"] in wanted.split(",")]
        pages = PAGES if len(chosen) == len(suites) else DIRECTORY / "pages"
        pages.mkdir(parents=True, exist_ok=True)
        lines: list[Line] = []
        for entry in chosen:
            say(f"{entry['name']} ...")
            try:
                line, page = measure(command_line, entry)
            except AssertionError as error:
                failed.append(entry["name"])
                say(f"  {error}")
                continue
            (pages / f"{entry['name']}.md").write_text(page)
            lines.append(line)
            say(f"  {'; '.join(f'{name}: {word}' for name, word in line.verdicts.items())}")
        (pages / "README.md").write_text(render_index(lines))
    say(f"The pages are in {pages}.")
    return 1 if failed else 0


def measure(command_line: CommandLine, entry: Mapping[str, Any]) -> tuple[Line, str]:
    """The suite's line and page, from a run that is kept, gone on with, or made now."""
    name = entry["name"]
    plan = command_line.json("bench", "run", name, "--scale", SCALE, "--dry-run")
    cells = len(plan["cells"])
    if all(cell["not_runnable"] is not None for cell in plan["cells"]):
        return decide_line(name, None, cells, ""), render_unmeasured(entry, plan)
    shown = find_finished(command_line, name) or run(command_line, name)
    when = f"{datetime.fromtimestamp(shown['started_at_s'], UTC):%Y-%m-%d %H:%M}"
    page = command_line.ok("bench", "export", shown["run_id"]).stdout
    return decide_line(name, shown, cells, when), page


def find_finished(command_line: CommandLine, suite: str) -> dict[str, Any] | None:
    """The newest finished run of the suite that is kept, as `bench show` tells it."""
    for one in reversed(command_line.json("bench", "list")["runs"]):
        if one["suite"] == suite:
            shown: dict[str, Any] = command_line.json("bench", "show", one["run_id"])
            if shown["ended_at_s"] is not None and shown["scale"] == SCALE:
                return shown
    return None


def run(command_line: CommandLine, suite: str) -> dict[str, Any]:
    """Go on with the suite's unfinished run, or make one, to its end."""
    arguments = ("bench", "run", suite, "--scale", SCALE, "--format", "json")
    resumed = command_line.run(*arguments, "--resume", timeout_s=TIMEOUT_S)
    if resumed.code == NOT_FOUND:
        resumed = command_line.ok(*arguments, timeout_s=TIMEOUT_S)
    assert resumed.code == 0, f"{suite}: {resumed.stderr[-500:]}"
    document: dict[str, Any] = resumed.document
    return document


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
