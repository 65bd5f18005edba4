"""`make experiments`: each published experiment on a lab, into docs/experiments.

With the argument `index` it only writes the index and the change log again,
from index.json and changes.json.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from grampus.bench.matrix.loading import load_matrix_suites
from grampus.bench.matrix.suite import MatrixSuite
from tests.proof.experiments.changes import Change, find_changes, render_changes
from tests.proof.experiments.labs import KINDS, decide_lab
from tests.proof.experiments.measuring import measure
from tests.proof.experiments.pages import USUAL_SCALE, Line, render_index
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT, CommandLine

DIRECTORY = CHECKOUT / "build" / "experiments"
PAGES = CHECKOUT / "docs" / "experiments"
TRIALS = PAGES / "trials"
LINES = PAGES / "index.json"
CHANGES = PAGES / "changes.json"
SUITES = CHECKOUT / "suites" / "sources"
# Of the suites whose `tiny` leaves out what a conclusion compares.
SCALES = {"redhat-hci-2-read-layout": "small"}


def main(*arguments: str) -> int:
    """Measure what is not measured yet, and write the pages; 1 when a suite ended in an error."""
    wanted = os.environ.get("GRAMPUS_EXPERIMENTS", "")
    suites = load_matrix_suites(SUITES)
    if arguments == ("index",):
        write_index(suites)
        return 0
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
    """Measure a suite, and write its page, the index and the change log."""
    say(f"{suite.name} ...")
    try:
        measured = measure(
            command_line,
            suite,
            SUITES / f"{suite.name}.yaml",
            SCALES.get(suite.name, USUAL_SCALE),
        )
    except AssertionError as error:
        say(f"  {error}")
        return False
    line = measured.line
    TRIALS.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{suite.name}.md").write_text(measured.page)
    if measured.trials is not None:
        (TRIALS / f"{suite.name}.csv").write_text(measured.trials)
    publish_line(line, suites)
    say(f"  {'; '.join(f'{name}: {word}' for name, word in line.verdicts.items())}")
    return True


def publish_line(line: Line, suites: Sequence[MatrixSuite]) -> None:
    """The line into the index, and each verdict that it changes into the change log."""
    lines = read_lines()
    changes = [*read_changes(), *find_changes(lines.get(line.suite), line)]
    lines[line.suite] = line
    LINES.write_text(dump({name: asdict(lines[name]) for name in sorted(lines)}))
    CHANGES.write_text(dump([asdict(change) for change in changes]))
    write_index(suites)


def write_index(suites: Sequence[MatrixSuite]) -> None:
    """The pages that name all others, from what is kept."""
    untestable = {
        (suite.name, one.name)
        for suite in suites
        for one in suite.conclusions
        if one.not_in_labs is not None
    }
    index = render_index([one.name for one in suites], read_lines(), untestable)
    (PAGES / "README.md").write_text(index)
    (PAGES / "changes.md").write_text(render_changes(read_changes()))


def read_changes() -> list[Change]:
    """The change log as it is, the oldest first."""
    return [Change(**one) for one in json.loads(CHANGES.read_text())]


def dump(document: object) -> str:
    """As the files have it, for few lines of difference."""
    return json.dumps(document, indent=1) + "\n"


def read_lines() -> dict[str, Line]:
    """The index as it is: what earlier calls measured stays in it."""
    kept = json.loads(LINES.read_text()) if LINES.exists() else {}
    return {name: Line(**line) for name, line in kept.items()}


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
