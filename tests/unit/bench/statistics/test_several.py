"""Many comparisons at once."""

from __future__ import annotations

import math

import pytest

from grampus.bench.statistics.several import (
    Several,
    decide_several,
    p_over_looks,
    render_several,
)
from grampus.bench.statistics.stopping import StoppingLimits
from grampus.core.errors import GrampusError


@pytest.mark.parametrize(
    ("p_values", "adjusted", "remains"),
    [
        ((), (), ()),
        ((0.04,), (0.04,), (True,)),
        ((0.06,), (0.06,), (False,)),
        # Two of 0.04: each alone would have to be below 0.025, both together below 0.05.
        ((0.04, 0.04), (0.04, 0.04), (True, True)),
        ((0.04, 0.9), (0.08, 0.9), (False, False)),
        # 4 * 0.01 / 1, 4 * 0.02 / 2, 4 * 0.03 / 3, 0.9; in any order.
        ((0.9, 0.03, 0.01, 0.02), (0.9, 0.04, 0.04, 0.04), (False, True, True, True)),
        ((0.0, 1.0), (0.0, 1.0), (True, False)),
    ],
)
def test_discoveries(
    p_values: tuple[float, ...], adjusted: tuple[float, ...], remains: tuple[bool, ...]
) -> None:
    found = decide_several(p_values)
    assert found.adjusted_p == pytest.approx(adjusted)
    assert found.remains == remains
    assert found.expected_by_chance == pytest.approx(0.05 * len(p_values))


def test_the_example_of_benjamini_and_hochberg() -> None:
    """Their fifteen p-values of 1995: four remain at 5%, where Bonferroni leaves three."""
    p_values = (
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000),
    )
    assert decide_several(p_values).remains == (True,) * 4 + (False,) * 11


@pytest.mark.parametrize("p", [math.nan, math.inf, -0.1, 1.1])
def test_a_p_that_is_none_is_refused(p: float) -> None:
    with pytest.raises(GrampusError, match="not a probability"):
        decide_several([0.5, p])


@pytest.mark.parametrize(
    ("p", "rounds", "expected"),
    [
        (0.015, 6, 0.05),  # the first look has 6 of 20 rounds' share
        (0.001, 8, 0.01),  # the next ones 2 of 20
        (0.001, 20, 0.01),
        (0.9, 8, 1.0),
        (0.001, 7, 0.02),  # a look that the end of the time forced
    ],
)
def test_p_over_looks(p: float, rounds: int, expected: float) -> None:
    assert p_over_looks(p, rounds, StoppingLimits()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("p_values", "different", "remaining", "sentence"),
    [
        ((), 0, 0, ""),
        ((0.01,), 1, 1, ""),
        (
            (0.001, 0.04, 0.5, 0.6),
            2,
            1,
            "2 of 4 comparisons are better or worse; if nothing differed, chance alone would give "
            "up to 0.2. 1 remain when at most 5% of those that remain may be false.",
        ),
        # One that its look leaves undecided does not count, though its p-value would let it remain.
        (
            (0.001, 0.014),
            1,
            1,
            "1 of 2 comparisons are better or worse; if nothing differed, chance alone would give "
            "up to 0.1. 1 remain when at most 5% of those that remain may be false.",
        ),
    ],
)
def test_the_sentence(
    p_values: tuple[float, ...], different: int, remaining: int, sentence: str
) -> None:
    several: Several = decide_several(p_values)
    shown = render_several(several, different=different, remaining=remaining)
    assert shown == sentence
