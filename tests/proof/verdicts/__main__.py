"""`make verdicts`: whether the verdicts of benchmarks hold, on simulated machines, into docs/proof.

GRAMPUS_VERDICTS=N tries each A/A machine N times (4,000 unless given; fewer go to build/verdicts),
GRAMPUS_VERDICTS_SEED=N draws other noise. Exit codes: 0 all promises were kept; 1 one was not;
2 wrong use.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.proof.verdicts.render_page import Tried, decide_broken, render_page
from tests.proof.verdicts.simulated_machine import ENVIRONMENTS, NOISES, SERIES
from tests.proof.verdicts.trials import (
    FIXED_ROUNDS,
    ComparisonTrial,
    EnvironmentTrial,
    SeriesTrial,
    SeveralTrial,
    try_comparisons,
    try_environments,
    try_series,
    try_several,
)

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = CHECKOUT / "docs" / "proof" / "verdicts.md"
DIRECTORY = CHECKOUT / "build" / "verdicts"
FULL_TRIES = 4000
SEED = 20261122
CHANGE = 1.03
COMPARISONS = 20
# How many differ truly, by how much, and the error that each comparison may make.
SEVERAL = (
    *((0, 1.0, 0.05), (5, 1.02, 0.05), (5, 1.05, 0.05)),
    *((0, 1.0, 0.01), (5, 1.02, 0.01), (5, 1.05, 0.01)),
)


def main() -> int:
    """Try everything, write the page; the exit code."""
    try:
        tries = int(os.environ.get("GRAMPUS_VERDICTS", FULL_TRIES))
        seed = int(os.environ.get("GRAMPUS_VERDICTS_SEED", SEED))
        if tries < 10:
            raise ValueError(f"{tries} tries show nothing")
    except ValueError as error:
        say(f"error: GRAMPUS_VERDICTS (10 or more) and its seed are whole numbers: {error}")
        return 2
    began_s = time.monotonic()
    tried = try_all(seed, tries)
    facts = {
        "commit": commit(),
        "Python": platform.python_version(),
        "kernel": platform.release(),
        "seed": str(seed),
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} (UTC)",
        "took": f"{time.monotonic() - began_s:.0f} s on one core",
    }
    repeat = f"GRAMPUS_VERDICTS_SEED={seed} GRAMPUS_VERDICTS={tries} make verdicts"
    page = render_page(tried, facts, repeat=repeat)
    file = PAGE if tries >= FULL_TRIES else DIRECTORY / PAGE.name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page)
    broken = decide_broken(tried)
    for one in broken:
        say(f"NOT KEPT: {one}")
    say(f"{'Not all promises were kept' if broken else 'Done'}: {file.relative_to(CHECKOUT)}")
    return 1 if broken else 0


def try_all(seed: int, tries: int) -> Tried:
    """A/A takes `tries`; power, whose figures need be less exact, and series a few less."""
    return Tried(
        alike=[try_alike(seed, number, tries) for number in range(len(NOISES))],
        different=[
            try_different(seed, number, max(1, tries * 2 // 5)) for number in range(len(NOISES))
        ],
        series=[try_one_series(seed, number, max(1, tries // 5)) for number in range(len(SERIES))],
        several=[try_many(seed, number, max(10, tries // 25)) for number in range(len(SEVERAL))],
        environments=[try_apart(seed, number, tries) for number in range(len(ENVIRONMENTS))],
    )


def try_alike(seed: int, number: int, tries: int) -> ComparisonTrial:
    """A/A on one machine."""
    say(f"A/A: {NOISES[number].name} ...")
    return try_comparisons(seed + number, NOISES[number], 1.0, tries, fixed_rounds=())


def try_different(seed: int, number: int, tries: int) -> ComparisonTrial:
    """A change of 3% on one machine."""
    say(f"3%: {NOISES[number].name} ...")
    return try_comparisons(seed + 100 + number, NOISES[number], CHANGE, tries, FIXED_ROUNDS)


def try_one_series(seed: int, number: int, tries: int) -> SeriesTrial:
    """Series of one kind."""
    say(f"series: {SERIES[number].name} ...")
    return try_series(seed + 200 + number, SERIES[number], tries)


def try_apart(seed: int, number: int, tries: int) -> EnvironmentTrial:
    """A/A over environments that differ by so much."""
    share = ENVIRONMENTS[number]
    say(f"environments: {share:.0%} ...")
    return try_environments(seed + 400 + number, NOISES[1], share, tries)


def try_many(seed: int, number: int, runs: int) -> SeveralTrial:
    """Runs with many comparisons."""
    different, ratio, error = SEVERAL[number]
    say(f"several: {different} of {COMPARISONS} differ ...")
    return try_several(
        seed + 300 + number,
        NOISES[0],
        runs=runs,
        comparisons=COMPARISONS,
        different=different,
        ratio=ratio,
        error=error,
    )


def commit() -> str:
    """The checkout's commit; with `+` when something in it has changed since."""
    argv = ("git", "-C", str(CHECKOUT), "describe", "--always", "--dirty=+")
    described = subprocess.run(argv, capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def say(line: str) -> None:
    """A line of progress."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
