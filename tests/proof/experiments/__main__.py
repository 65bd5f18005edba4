"""`make experiments`: each published experiment on a lab, into docs/experiments."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from grampus.bench.matrix.loading import load_matrix_suites
from grampus.bench.matrix.suite import MatrixSuite
from tests.proof.experiments.labs import KINDS, decide_lab
from tests.proof.experiments.measuring import measure
from tests.proof.experiments.pages import Line, render_index
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT, CommandLine

DIRECTORY = CHECKOUT / "build" / "experiments"
PAGES = CHECKOUT / "docs" / "experiments"
TRIALS = PAGES / "trials"
LINES = PAGES / "index.json"
SUITES = CHECKOUT / "suites" / "sources"
SCALE = "tiny"


def main() -> int:
    """Measure what is not measured yet, and write the pages; 1 when a suite ended in an error."""
    wanted = os.environ.get("GRAMPUS_EXPERIMENTS", "")
    suites = load_matrix_suites(SUITES)
    chosen = [one for one in suites if not wanted or one.name in wanted.split(",")]
    failed = []
    for kind in KINDS:
        on_it = [one for one in chosen if decide_lab(one) == kind]
        if on_it:
            with own_lab(kind.name, DIRECTORY, kind.arguments) as command_line:
                failed += [one.name for one in on_it if not is_written(command_line, one, suites)]
    say(f"The pages are in {PAGES}.")
    return 1 if failed else 0


def is_written(
    command_line: CommandLine, suite: MatrixSuite, suites: Sequence[MatrixSuite]
) -> bool:
    """Measure a suite, and write its page and the index anew."""
    say(f"{suite.name} ...")
    try:
        measured = measure(command_line, suite, suite.name, SCALE)
    except AssertionError as error:
        say(f"  {error}")
        return False
    line = measured.line
    TRIALS.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{suite.name}.md").write_text(measured.page)
    if measured.trials is not None:
        (TRIALS / f"{suite.name}.csv").write_text(measured.trials)
    lines = read_lines() | {suite.name: line}
    LINES.write_text(json.dumps({name: asdict(lines[name]) for name in sorted(lines)}, indent=1))
    (PAGES / "README.md").write_text(render_index([one.name for one in suites], lines))
    say(f"  {'; '.join(f'{name}: {word}' for name, word in line.verdicts.items())}")
    return True


def read_lines() -> dict[str, Line]:
    """The index as it is: what earlier calls measured stays in it."""
    kept = json.loads(LINES.read_text()) if LINES.exists() else {}
    return {name: Line(**line) for name, line in kept.items()}


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
