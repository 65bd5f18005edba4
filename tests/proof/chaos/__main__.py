"""`make chaos`: faults at random, the answer as JSON in the last line.

Exit codes: 0 all runs are done and no promise is broken; 1 one is broken, or a run could not be
carried out; 2 wrong use; 130 interrupted. Run again with the same seed, it goes on; with
`CONTINUE=1`, after the runs that are in docs/proof.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter

from grampus.cli.composition.checkout import observe_commit
from tests.proof.chaos.draws import Fault, PlaceKind, draw_faults
from tests.proof.chaos.summary import TrialResult, is_broken, render_page, summarise
from tests.proof.chaos.trial import ChaosTrials
from tests.proof.proof_lab import observe_versions, own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.places import LabPlace, Place, site_place
from tests.system.site_machines import joined_machine, new_home

LAB, SITE = "chaos", "chaotic"
DIRECTORY = CHECKOUT / "build" / "chaos"
DOCS = CHECKOUT / "docs" / "proof"
_PAGES: Mapping[PlaceKind, Path] = {"lab": DOCS / "chaos.md", "site": DOCS / "chaos-site.md"}
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
        kind = _kind()
    except ValueError as error:
        say(str(error))
        return EXIT_USAGE
    page = _PAGES[kind]
    file = DIRECTORY / f"{page.stem}-seed-{seed}.jsonl"
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    faults = draw_faults(seed, runs, kind)
    try:
        if os.environ.get("CONTINUE") and not file.exists():
            done = load_published(page.with_suffix(".json"), seed, faults)
            file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in done))
    except ValueError as error:
        say(str(error))
        return EXIT_USAGE
    done = _load(file)[:runs]
    is_new = len(done) < runs
    failed = 0
    if is_new:
        with _own_place(kind) as (place, standby):
            commit = (observe_commit(CHECKOUT) or "unknown")[:8]
            facts = {"commit": commit, **observe_versions(LabMachine(place.cluster, "h1"))}
            trials = ChaosTrials(place, kind, file.with_suffix(""), standby)
            failed = _provoke_all(trials, faults, done, file, facts)
    summary = summarise(done)
    if len(done) >= PUBLISHED_RUNS and is_new:
        page.write_text(render_page(done, seed, kind))
        figures = {"seed": seed, "trials": [asdict(one) for one in done]}
        page.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n")
    say(json.dumps(summary))
    return EXIT_BROKEN if failed or is_broken(summary) else 0


def load_published(page: Path, seed: int, faults: Sequence[Fault]) -> list[TrialResult]:
    """The trials in docs/proof, which further ones follow.

    Raises ValueError if there are none, or if they are not the first ones that the seed draws.
    """
    if not page.exists():
        raise ValueError(f"No runs are published: {page.name} does not exist.")
    published = json.loads(page.read_text())
    trials = [_TRIAL.validate_python(one) for one in published["trials"]][: len(faults)]
    if published["seed"] != seed:
        raise ValueError(f"{page.name} has runs of seed {published['seed']}, not {seed}.")
    if [one.fault for one in trials] != [one.name for one in faults[: len(trials)]]:
        raise ValueError(f"{page.name} has other faults than seed {seed} draws now.")
    return trials


def _provoke_all(
    trials: ChaosTrials,
    faults: list[Fault],
    done: list[TrialResult],
    file: Path,
    facts: Mapping[str, str],
) -> int:
    """Every fault after those that are done; how many could not be provoked: 0, or 1 at the end."""
    trials.prepare()
    for number, fault in enumerate(faults, 1):
        if number <= len(done):
            continue
        try:
            trial = replace(trials.carry_out(number, fault), facts=facts)
        except TROUBLE as error:
            say(f"{number:4} {fault.name:22} could not be carried out: {error}")
            return 1
        done.append(trial)
        with file.open("a") as lines:
            lines.write(json.dumps(asdict(trial)) + "\n")
        say(_line(trial))
    return 0


@contextmanager
def _own_place(kind: PlaceKind) -> Iterator[tuple[Place, CommandLine | None]]:
    """The place, and a second machine of a site."""
    with own_lab(LAB, DIRECTORY) as lab:
        if kind == "lab":
            yield LabPlace(lab), None
            return
        line = CommandLine(SITE, new_home(lab.home))
        with (
            tempfile.TemporaryDirectory() as files,
            site_place(lab, line, Path(files)) as place,
            joined_machine(place.site) as second,
        ):
            yield place, second.line


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


def _kind() -> PlaceKind:
    text = os.environ.get("GRAMPUS_CHAOS_ON") or "lab"
    if text not in _PAGES:
        raise ValueError(f"GRAMPUS_CHAOS_ON is '{text}': give {' or '.join(_PAGES)}.")
    return text  # type: ignore[return-value]


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
