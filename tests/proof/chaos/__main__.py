"""`make chaos`: faults at random, the answer as JSON in the last line.

Exit codes: 0 all runs are done and no promise is broken; 1 one is broken, or a run could not be
carried out; 2 wrong use; 130 interrupted. Run again with the same seed, it goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from tests.proof.chaos.draws import Fault, draw_faults
from tests.proof.chaos.summary import TrialResult, is_broken, render_page, summarise
from tests.proof.chaos.trial import ChaosLab
from tests.proof.proof_lab import observe_versions, own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine

LAB = "chaos"
DIRECTORY = CHECKOUT / "build" / "chaos"
DOCS = CHECKOUT / "docs" / "proof"
DEFAULT_RUNS, DEFAULT_SEED = 20, 1
# With fewer, the page of docs/proof stays as it is.
PUBLISHED_RUNS = 20
EXIT_BROKEN, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
TROUBLE = (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError)
_TRIAL = TypeAdapter(TrialResult)


def main() -> int:
    """Provoke what is left of the runs."""
    try:
        runs = _number("RUNS", DEFAULT_RUNS)
        seed = _number("SEED", DEFAULT_SEED)
    except ValueError as error:
        say(str(error))
        return EXIT_USAGE
    file = DIRECTORY / f"seed-{seed}.jsonl"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    done = _load(file)[:runs]
    faults = draw_faults(seed, runs)
    facts: dict[str, str] = {}
    failed = 0
    if len(done) < runs:
        with own_lab(LAB, DIRECTORY) as command_line:
            facts = observe_versions(LabMachine(command_line, "h1"))
            failed = _provoke_all(command_line, faults, done, file)
    summary = summarise(done)
    if len(done) >= PUBLISHED_RUNS and facts:
        facts["date"] = f"{datetime.now(UTC):%Y-%m-%d} (UTC)"
        (DOCS / "chaos.md").write_text(render_page(done, seed, facts))
        (DOCS / "chaos.json").write_text(json.dumps([asdict(one) for one in done], indent=1) + "\n")
    say(json.dumps(summary))
    return EXIT_BROKEN if failed or is_broken(summary) else 0


def _provoke_all(
    command_line: CommandLine, faults: list[Fault], done: list[TrialResult], file: Path
) -> int:
    """Every fault after those that are done; how many could not be provoked: 0, or 1 at the end."""
    lab = ChaosLab(command_line)
    lab.prepare()
    for number, fault in enumerate(faults, 1):
        if number <= len(done):
            continue
        try:
            trial = lab.carry_out(number, fault)
        except TROUBLE as error:
            say(f"{number:4} {fault.name:22} could not be carried out: {error}")
            return 1
        done.append(trial)
        with file.open("a") as lines:
            lines.write(json.dumps(asdict(trial)) + "\n")
        say(_line(trial))
    return 0


def say(text: str) -> None:
    """A line that is seen at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(trial: TrialResult) -> str:
    outage = "not again" if trial.outage_s is None else f"{trial.outage_s:.1f} s"
    moved = "moved" if trial.moved else "stayed"
    faults = f"lost {trial.lost}, errors elsewhere {trial.neighbour_errors}"
    return f"{trial.number:4} {trial.fault:22} {moved:6} outage {outage:9} {faults}"


def _load(file: Path) -> list[TrialResult]:
    if not file.exists():
        return []
    return [_TRIAL.validate_json(line) for line in file.read_text().splitlines()]


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{variable} is '{text}': give a whole number from 1 on.")
    return int(text)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
