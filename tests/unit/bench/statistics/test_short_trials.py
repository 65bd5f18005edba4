"""Trials that are too short one by one, judged together."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from grampus.bench.statistics.short_trials import decide_together

FLAT = [100, 101, 99, 100, 100, 99, 101, 100]


def simulate(source: random.Random, second: Callable[[int], float]) -> list[list[float]]:
    """Eight trials of eight seconds, 10% noise that depends on the second before (0.5)."""
    trials = []
    for _ in range(8):
        noise, seconds = 0.0, []
        for place in range(8):
            noise = 0.5 * noise + source.gauss(0, 0.1)
            seconds.append(max(1.0, 100 * second(place) * (1 + noise)))
        trials.append(seconds)
    return trials


@pytest.mark.parametrize(
    ("trials", "steady", "said"),
    [
        ([FLAT] * 8, True, "0% below the first"),
        ([FLAT, FLAT[::-1], [102, *FLAT[1:]]], True, "Over 3 trials"),
        # A warm-up that is too short, or a cache of writes that fills.
        ([[60, 70, 80, 90, 100, 100, 101, 100]] * 4, False, "34% above the first"),
        ([[200, 190, 150, 110, 100, 100, 101, 100]] * 4, False, "below the first"),
        # Too noisy to say.
        (
            [[50, 150, 50, 150, 150, 150, 150, 50], [150, 150, 150, 90, 50, 150, 50, 50], FLAT],
            None,
            "Each trial is too short to judge, and over 3 trials",
        ),
    ],
)
def test_halves_of_all_trials_are_compared(
    trials: Sequence[Sequence[float]], steady: bool | None, said: str
) -> None:
    found = decide_together(trials)
    assert found is not None
    assert found.steady is steady
    assert said in found.reason


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [FLAT, FLAT],
        [FLAT[:3]] * 8,
        # Without an operation in a half there is no ratio.
        [[0, 0, 0, 0, 1, 1, 1, 1]] * 8,
    ],
)
def test_too_little_is_not_judged(trials: Sequence[Sequence[float]]) -> None:
    assert decide_together(trials) is None


def test_a_steady_cell_is_hardly_called_otherwise_and_a_short_warm_up_is_found() -> None:
    source = random.Random(20261201)  # noqa: S311
    runs = 1000
    flat = [decide_together(simulate(source, lambda _: 1.0)) for _ in range(runs)]
    rising = [decide_together(simulate(source, lambda at: 0.7 + 0.05 * at)) for _ in range(runs)]
    assert sum(one is not None and one.steady is False for one in flat) <= 0.05 * runs
    assert sum(one is not None and one.steady is False for one in rising) >= 0.9 * runs
    assert sum(one is not None and one.steady is True for one in rising) == 0
