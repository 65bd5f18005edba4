"""Steady, not yet, or never: each verdict with its reason."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from grampus.bench.statistics.steadiness import (
    Cause,
    SteadyLimits,
    SteadyWord,
    decide_measuring,
)
from grampus.core.errors import GrampusError, UsageError

LIMITS = SteadyLimits(min_s=30, max_s=240)


def _series(
    seconds: int, shape: Callable[[int], float], share: float = 0.03, seed: int = 1
) -> list[float]:
    source = random.Random(seed)  # noqa: S311
    return [1000 * shape(i) * max(0.0, 1 + share * source.gauss(0, 1)) for i in range(seconds)]


def _stalls(*seconds: int) -> Callable[[int], float]:
    return lambda second: 0.05 if second in seconds else 1.0


@pytest.mark.parametrize(
    ("values", "word", "cause", "said"),
    [
        ([], "extend", "short", "0 s are too short to judge."),
        ([1000.0] * 29, "extend", "short", "29 s are too short to judge."),
        ([1000.0] * 60, "steady", "none", "differ by 0% at most"),
        ([0.0] * 60, "unsteady", "idle", "nothing was done"),
        ([0.0] * 40 + [1.0] * 20, "unsteady", "idle", "nothing was done"),
        (_series(60, lambda _: 1.0), "steady", "none", "No trend"),
        # A trend of 2% is significant here, and harms nobody.
        (_series(120, lambda i: 1 + 0.02 * i / 120, share=0.002), "steady", "none", "No trend"),
        # As is a step of 3%.
        (_series(120, lambda i: 1 if i < 90 else 0.97, share=0.01), "steady", "none", "No trend"),
        (_series(120, lambda i: 1 - 0.3 * i / 120), "extend", "trend", "fell by 1"),
        (_series(240, lambda i: 1 + 0.4 * i / 240), "unsteady", "trend", "rose by 1"),
        (_series(240, lambda i: 1 if i < 160 else 0.7), "unsteady", "step", "fell by 30% at once"),
        (_series(240, lambda i: 1 if i < 150 else 1.3), "unsteady", "step", "about 62% into"),
        # Twelve stalls of a second are a rhythm; one of ten seconds is an accident, or is it?
        (_series(240, _stalls(*range(3, 240, 20))), "steady", "none", "No trend"),
        (_series(60, _stalls(*range(30, 40))), "extend", "stalls", "1 stall took 1"),
        (_series(240, _stalls(*range(90, 120))), "unsteady", "stalls", "longest allowed"),
        (_series(60, lambda _: 1.0, share=0.3), "extend", "noise", "cannot be ruled out"),
        (_series(240, lambda _: 1.0, share=0.9), "unsteady", "noise", "cannot be ruled out"),
        (_series(120, lambda i: 0.2 if i < 50 else 1), "extend", "warm-up", "50 of 120 s"),
        (_series(60, lambda i: 0.1 + i / 60), "extend", "trend", "rose by 8"),
        (
            _series(60, lambda i: 1 - 0.08 * math.exp(-i / 40), share=0.004),
            "extend",
            "warm-up",
            "not seen to end",
        ),
        (_series(240, lambda i: 0.2 if i < 20 else 1), "steady", "none", "No trend"),
        # An outlier of a second is no stall, no step and no trend.
        ([1000.0 + i % 3 for i in range(59)] + [1e12], "steady", "none", "No trend"),
    ],
)
def test_verdict(values: list[float], word: SteadyWord, cause: Cause, said: str) -> None:
    found = decide_measuring(values, LIMITS)
    assert (found.word, found.cause) == (word, cause), found.reason
    assert said in found.reason
    assert (found.extend_s > 0) == (word == "extend")
    assert len(values) + found.extend_s <= LIMITS.max_s


def test_the_warm_up_is_left_out() -> None:
    found = decide_measuring(_series(240, lambda i: 0.2 if i < 20 else 1), LIMITS)
    assert found.leave_out_s == 20
    assert found.drift == pytest.approx(0, abs=0.02)


def test_extending_ends() -> None:
    """Whatever the series does, so many seconds more lead to a verdict by the longest time."""
    shapes: list[Callable[[int], float]] = [
        lambda i: 1 + i / 100,
        lambda i: 1 + 0.5 * math.sin(i / 20),
        lambda i: 0.05 if i % 50 < 20 else 1.0,
        lambda i: 2.0 ** -(i / 60),
    ]
    for shape in shapes:
        values = _series(LIMITS.max_s, shape, share=0.2)
        measured_s, looks = 0, 0
        found = decide_measuring(values[:0], LIMITS)
        while found.word == "extend":
            measured_s += found.extend_s
            looks += 1
            assert measured_s <= LIMITS.max_s
            found = decide_measuring(values[:measured_s], LIMITS)
        assert looks <= 22  # at least ten seconds each
        assert found.word == "unsteady"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -0.001, 1e101])
def test_what_is_no_figure_is_refused(bad: float) -> None:
    with pytest.raises(GrampusError) as raised:
        decide_measuring([1.0, bad], LIMITS)
    assert raised.value.code == "not-a-figure"
    assert "figure 2 of 2" in raised.value.problem
    assert raised.value.remedy


@pytest.mark.parametrize(
    "limits",
    [
        {"tolerance": 0.0},
        {"hidden": 1.0},
        {"error": 0.0},
        {"min_s": 9},
        {"min_s": 50, "max_s": 40},
    ],
)
def test_limits_that_contradict_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        SteadyLimits(**limits)  # type: ignore[arg-type]
