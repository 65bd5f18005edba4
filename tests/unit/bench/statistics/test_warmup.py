"""Warm-ups: what is left out, and what must not be."""

from __future__ import annotations

import math
import random

import pytest

from grampus.bench.statistics.warmup import decide_warm_up
from grampus.core.errors import GrampusError


def _noise(seconds: int, seed: int = 1, share: float = 0.05) -> list[float]:
    source = random.Random(seed)  # noqa: S311
    return [1000 * (1 + share * source.gauss(0, 1)) for _ in range(seconds)]


@pytest.mark.parametrize(
    ("values", "leave_out_s"),
    [
        ([], 0),
        ([5.0], 0),
        ([0.0] * 60, 0),
        ([1000.0] * 60, 0),
        ([1000.0] * 29, 0),  # too short to tell
        ([100.0] * 10 + [1000.0] * 19, 0),
        ([100.0] * 10 + [1000.0] * 50, 10),
        ([100.0] * 11 + [1000.0] * 49, 15),  # a multiple of five
        ([9000.0] * 10 + [1000.0] * 50, 10),  # a burst into an empty cache is none of it either
        ([0.0] * 10 + [1000.0] * 50, 10),
        # A stall is not a warm-up, wherever it is, and be it all but the first seconds.
        ([1000.0] * 20 + [0.0] * 5 + [1000.0] * 35, 0),
        ([1000.0] * 55 + [0.0] * 5, 0),
        ([1000.0] * 10 + [1e12] + [1000.0] * 49, 0),
    ],
)
def test_constant_but_for_one_thing(values: list[float], leave_out_s: int) -> None:
    found = decide_warm_up(values)
    assert (found.leave_out_s, found.ended) == (leave_out_s, True)


def test_noise_is_no_warm_up_but_seldom() -> None:
    left_out_s = [decide_warm_up(_noise(120, seed)).leave_out_s for seed in range(100)]
    assert sum(seconds > 0 for seconds in left_out_s) <= 4


def test_a_warm_up_in_noise_is_found() -> None:
    # After 10 s 23% are missing, after 20 s 7%, after 40 s 0.5%.
    left_out_s = [
        decide_warm_up(
            [
                value * (1 - 0.8 * math.exp(-second / 8))
                for second, value in enumerate(_noise(120, seed))
            ]
        ).leave_out_s
        for seed in range(100)
    ]
    assert min(left_out_s) >= 15
    assert 20 <= sum(left_out_s) / 100 <= 35


def test_a_stall_prolongs_the_warm_up_less_often() -> None:
    left_out_s = []
    for seed in range(100):
        values = _noise(100, seed)
        values[:10] = [value * 0.3 for value in values[:10]]
        values[40:45] = [0.0] * 5
        left_out_s.append(decide_warm_up(values).leave_out_s)
    assert min(left_out_s) >= 10
    # Without clipping the stall is left out each time, with all that came before it.
    assert sum(seconds >= 45 for seconds in left_out_s) <= 65


def test_what_does_not_end_in_the_first_half_has_not_ended() -> None:
    found = decide_warm_up([10.0 * second for second in range(60)])
    assert not found.ended
    assert found.leave_out_s == 30


@pytest.mark.parametrize(("most_s", "leave_out_s"), [(0, 0), (4, 0), (12, 10), (100, 20)])
def test_the_bound_of_the_caller_holds(most_s: int, leave_out_s: int) -> None:
    values = [100.0] * 20 + [1000.0] * 60
    found = decide_warm_up(values, max_leave_out_s=most_s)
    assert found.leave_out_s == leave_out_s
    assert found.ended == (most_s >= 25 or most_s < 5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_what_is_no_figure_is_refused(bad: float) -> None:
    with pytest.raises(GrampusError, match="figure 31 of 60") as raised:
        decide_warm_up([1.0] * 30 + [bad] + [1.0] * 29)
    assert raised.value.code == "not-a-figure"
