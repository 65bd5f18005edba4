"""Going on, or stopping for a reason."""

from __future__ import annotations

import math

import pytest

from grampus.bench.statistics.stopping import (
    Continue,
    Stop,
    StoppingLimits,
    StopReason,
    decide_next,
    level_of_look,
    look_rounds,
)
from grampus.core.errors import GrampusError, UsageError

LIMITS = StoppingLimits()


def _pairs(rounds: int, shift: float, spread: float) -> list[tuple[float, float]]:
    """Log ratios shift + spread, shift - spread, ..."""
    return [(1000 * math.exp(shift + spread * (-1) ** i), 1000.0) for i in range(rounds)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (LIMITS, (6, 8, 10, 12, 14, 16, 18, 20)),
        (StoppingLimits(min_rounds=5, max_rounds=8, rounds_between_looks=2), (5, 7, 8)),
        (StoppingLimits(min_rounds=4, max_rounds=4), (4,)),
        (StoppingLimits(min_rounds=6, max_rounds=13, rounds_between_looks=6), (6, 12, 13)),
    ],
)
def test_looks(limits: StoppingLimits, expected: tuple[int, ...]) -> None:
    assert look_rounds(limits) == expected


@pytest.mark.parametrize("rounds", [0, 1, 5, 6, 8, 19])
def test_it_goes_on_to_the_next_look(rounds: int) -> None:
    # Neither clear nor hopeless.
    decision = decide_next(_pairs(rounds, 0.035, 0.05), LIMITS, better="more")
    assert isinstance(decision, Continue)
    assert rounds + decision.rounds == min(one for one in look_rounds(LIMITS) if one > rounds)


@pytest.mark.parametrize(
    ("pairs", "reason", "word"),
    [
        (_pairs(6, 0.10, 0.01), "decided", "better"),
        (_pairs(6, -0.10, 0.01), "decided", "worse"),
        (_pairs(6, 0.0, 0.002), "decided", "no-difference"),
        (_pairs(8, 0.0, 0.5), "futile", "undecided"),
        (_pairs(20, 0.02, 0.05), "rounds-spent", "undecided"),
    ],
)
def test_it_stops_for_a_reason(
    pairs: list[tuple[float, float]], reason: StopReason, word: str
) -> None:
    decision = decide_next(pairs, LIMITS, better="more")
    assert isinstance(decision, Stop)
    assert (decision.reason, decision.effect.word) == (reason, word)
    assert decision.sentence.endswith(".")


def test_a_clear_result_between_looks_waits_for_the_look() -> None:
    decision = decide_next(_pairs(7, 0.5, 0.01), LIMITS, better="more")
    assert isinstance(decision, Continue)
    assert decision.rounds == 1


def test_a_wanted_width_goes_on_beyond_a_verdict() -> None:
    limits = StoppingLimits(wanted_half_width=0.01)
    wide = decide_next(_pairs(8, 0.2, 0.02), limits, better="more")
    assert isinstance(wide, Continue)
    assert wide.effect.word == "better"
    narrow = decide_next(_pairs(8, 0.2, 0.004), limits, better="more")
    assert isinstance(narrow, Stop)
    assert narrow.reason == "narrow-enough"
    assert narrow.effect.half_width is not None
    assert narrow.effect.half_width <= 0.01


@pytest.mark.parametrize(
    ("rounds", "elapsed_s", "stops"),
    [
        (0, 0.0, False),  # nothing is known of how long a round takes
        (2, 100.0, False),  # 200 s more, to 300 of 300
        (2, 101.0, True),
        (7, 262.0, False),
        (7, 263.0, True),
        (7, 1000.0, True),
    ],
)
def test_the_budget_of_time_holds(rounds: int, elapsed_s: float, stops: bool) -> None:
    limits = StoppingLimits(budget_s=300)
    decision = decide_next(_pairs(rounds, 0.035, 0.05), limits, better="more", elapsed_s=elapsed_s)
    assert isinstance(decision, Stop) == stops
    if isinstance(decision, Stop):
        assert decision.reason == "time-spent"


def test_a_look_that_time_forced_has_a_level_of_its_own() -> None:
    limits = StoppingLimits(budget_s=300)
    decision = decide_next(_pairs(7, 0.5, 0.01), limits, better="more", elapsed_s=400)
    assert isinstance(decision, Stop)
    assert decision.effect.word == "better"
    # One round's share, after the six of the first look.
    assert level_of_look(6, limits) == pytest.approx(0.8 * 0.05 * 6 / 20)
    assert 0.8 * 0.05 / 20 <= decision.effect.level < level_of_look(8, limits)


def test_a_single_look_spends_it_all() -> None:
    assert level_of_look(8, StoppingLimits(min_rounds=8, max_rounds=8)) == 0.05


@pytest.mark.parametrize("rounds", [0, 1, 21])
def test_no_look_without_a_plan(rounds: int) -> None:
    with pytest.raises(UsageError):
        level_of_look(rounds, LIMITS)


def test_more_rounds_than_planned_are_refused() -> None:
    with pytest.raises(UsageError, match="21 of at most 20"):
        decide_next(_pairs(21, 0.0, 0.1), LIMITS, better="more")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0])
def test_what_is_no_figure_is_refused(bad: float) -> None:
    with pytest.raises(GrampusError):
        decide_next([(bad, 1.0)], LIMITS, better="more")


@pytest.mark.parametrize(
    "limits",
    [
        {"min_rounds": 1},
        {"min_rounds": 9, "max_rounds": 8},
        {"rounds_between_looks": 0},
    ],
)
def test_limits_that_contradict_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        StoppingLimits(**limits)
