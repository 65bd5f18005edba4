"""What would decide a comparison, from the noise of the rounds that were made."""

from __future__ import annotations

import math
import random

import pytest

from grampus.bench.findings.conclusions import decide_truth
from grampus.bench.statistics.effect import decide_effect
from grampus.bench.statistics.planning import (
    MOST_ROUNDS,
    Needed,
    decide_margin,
    decide_needed,
    relative_error,
)

PILOT = [(1.10, 1.0), (1.20, 1.0), (1.02, 1.0), (1.15, 1.0)]


@pytest.mark.parametrize(
    ("ratio", "at_least", "at_most", "apart"),
    [
        (1.2, 1.0, None, 1.2),
        (0.8, 1.0, None, 1.25),
        (0.95, None, 1.0, 1 / 0.95),
        (1.0, 0.9, 1.2, 1 / 0.9),  # both limits count: the nearer one
        (1.3, 0.9, 1.2, 1.3 / 1.2),
        (0.6, 0.9, 1.2, 1.5),
        (1.0, 1.0, None, 1.0),
    ],
)
def test_the_margin_is_that_to_the_limit_that_decides(
    ratio: float, at_least: float | None, at_most: float | None, apart: float
) -> None:
    assert decide_margin(ratio, at_least, at_most) == pytest.approx(math.log(apart))


def test_the_error_of_a_trial_is_that_of_a_mean_of_seconds_that_depend_on_each_other() -> None:
    source = random.Random(7)  # noqa: S311 - a simulation, not a secret
    independent = [source.gauss(100, 10) for _ in range(400)]
    assert relative_error(independent) == pytest.approx(0.1 / math.sqrt(400), rel=0.2)
    state, dependent = 0.0, []
    for _ in range(4000):
        state = 0.8 * state + source.gauss(0, 0.6)
        dependent.append(100 + 10 * state)
    # (1 + c) / (1 - c) of c = 0.8 is 9 times the variance.
    assert relative_error(dependent) == pytest.approx(3 * 0.1 / math.sqrt(4000), rel=0.25)
    assert relative_error([5.0] * 20) == 0.0
    assert relative_error([5.0] * 4) is None
    assert relative_error([0.0] * 20) is None


@pytest.mark.parametrize("ratio", [1.04, 1.08, 1.2])
def test_so_many_rounds_decide_it_four_times_in_five(ratio: float) -> None:
    noise = 0.06
    spread = noise * math.sqrt(3) / 2  # the standard deviation of four values, two on each side
    pilot = [(ratio * math.exp(sign * spread), 1.0) for sign in (-1, 1, -1, 1)]
    needed = decide_needed(pilot, math.log(ratio), level=0.05, errors=(), measure_s=6, beside_s=12)
    assert needed is not None
    assert needed.measure_s == 6
    source = random.Random(3)  # noqa: S311 - a simulation, not a secret
    tries = 400
    decided = 0
    for _ in range(tries):
        pairs = [(ratio * math.exp(source.gauss(0, noise)), 1.0) for _ in range(needed.rounds)]
        effect = decide_effect(pairs, better="more")
        decided += decide_truth(effect, 1.0, None) == "yes"
    assert 0.74 <= decided / tries <= 0.97, needed


def test_trials_are_planned_longer_only_where_that_takes_noise_away() -> None:
    def plan(errors: tuple[float, ...]) -> Needed:
        found = decide_needed(PILOT, 0.03, level=0.05, errors=errors, measure_s=6, beside_s=12)
        assert found is not None
        return found

    unknown, steady, short = plan(()), plan((0.001, 0.001)), plan((0.05, 0.05))
    assert (unknown.measure_s, steady.measure_s) == (6, 6)
    assert unknown.short_share is None
    assert steady.short_share == pytest.approx(0, abs=0.01)
    assert unknown.rounds == steady.rounds > short.rounds
    assert short.measure_s > 6
    assert 0.5 < (short.short_share or 0) <= 1
    total = short.rounds * (12 + short.measure_s)
    assert total < steady.rounds * (12 + 6), "or more rounds would do"


@pytest.mark.parametrize(
    ("pairs", "margin"),
    [([], 0.1), (PILOT[:1], 0.1), (PILOT, 0.0), (PILOT, 0.001)],
)
def test_what_no_number_of_rounds_decides_has_no_plan(
    pairs: list[tuple[float, float]], margin: float
) -> None:
    assert decide_needed(pairs, margin, level=0.05, errors=(), measure_s=6, beside_s=12) is None


def test_no_plan_has_more_rounds_than_a_suite_can_have() -> None:
    for margin in (0.01, 0.02, 0.03, 0.1, 1.0):
        found = decide_needed(PILOT, margin, level=0.05, errors=(), measure_s=6, beside_s=12)
        assert found is None or 2 <= found.rounds <= MOST_ROUNDS
