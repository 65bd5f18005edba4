"""Conclusions along a dimension: the best value, a knee, a trend."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.findings.conclusions import decide_conclusions
from tests.unit.bench.findings.made_conclusions import (
    BEST,
    BEST_OF_FOUR,
    KNEE,
    NOISE,
    TREND,
    found_along,
)
from tests.unit.bench.findings.made_matrix import Seen, made_figures, made_matrix_run, made_text


def test_an_interval_is_told_with_the_confidence_that_it_has() -> None:
    """One of three others would be enough against the best one: each has a third of the error."""
    found = found_along({**BEST, "better": "most", "expected": [4]}, BEST_OF_FOUR, along="threads")
    assert [claim.confidence for claim in found.claims] == [pytest.approx(1 - 0.05 / 3)] * 3
    assert found.sentence.count("(98.3% interval") == 3


@pytest.mark.parametrize(
    ("better", "expected", "tps", "word"),
    [
        ("most", [4], {1: 100, 2: 150, 4: 200, 8: 120}, "holds"),
        ("most", [2, 4], {1: 100, 2: 150, 4: 200, 8: 120}, "holds"),
        # Two expected ones need not be told apart.
        ("most", [2, 4], {1: 100, 2: 200, 4: 200, 8: 120}, "holds"),
        ("most", [2], {1: 100, 2: 150, 4: 200, 8: 120}, "does-not-hold"),
        ("most", [1, 2], {1: 100, 2: 150, 4: 200, 8: 120}, "does-not-hold"),
        ("least", [1], {1: 100, 2: 150, 4: 200, 8: 120}, "holds"),
        ("least", [4], {1: 100, 2: 150, 4: 200, 8: 120}, "does-not-hold"),
        ("most", [4], {1: 100, 2: 200, 4: 200.2, 8: 120}, "undecided"),
        # What is missing might be better still; what is worse than one that is there is not best.
        ("most", [4], {1: 100, 2: 150, 4: 200, 8: "Down."}, "undecided"),
        ("most", [2], {1: 100, 2: 150, 4: 200, 8: "Down."}, "does-not-hold"),
        ("most", [4], {1: 100, 2: 150, 4: "Down.", 8: 120}, "not-tested"),
    ],
)
def test_the_best_value(
    better: str, expected: list[int], tps: dict[Any, Seen | float], word: str
) -> None:
    conclusion = {**BEST, "better": better, "expected": expected}
    assert found_along(conclusion, tps, along="threads").word == word


@pytest.mark.parametrize(
    ("expected", "tps", "word"),
    [
        ([2], {1: 100, 2: 190, 4: 200, 8: 205}, "holds"),
        ([1], {1: 100, 2: 190, 4: 200, 8: 205}, "does-not-hold"),
        ([1, 2], {1: 100, 2: 190, 4: 200, 8: 205}, "holds"),
        ([], {1: 100, 2: 190, 4: 200, 8: 205}, "holds"),
        ([], {1: 100, 2: 190, 4: 380, 8: 700}, "does-not-hold"),
        ([2], {1: 100, 2: 100, 4: 110.1, 8: 111}, "undecided"),
        # All steps past the expected value count, and none before.
        ([2], {1: "Down.", 2: 190, 4: 200, 8: 205}, "holds"),
        ([2], {1: 100, 2: 190, 4: 200, 8: 400}, "does-not-hold"),
        ([2], {1: 100, 2: 190, 4: 200, 8: "Down."}, "undecided"),
        ([2], {1: 100, 2: 190, 4: "Down.", 8: 205}, "not-tested"),
        # A flat step before a steep one is none.
        ([], {1: 100, 2: 101, 4: 200, 8: 400}, "does-not-hold"),
        ([], {1: 100, 2: 200, 4: 400, 8: 401}, "holds"),
        ([], {1: 100, 2: 190, 4: "Down.", 8: 205}, "not-tested"),
        ([8], {1: 100, 2: 190, 4: 380, 8: 700}, "not-tested"),
    ],
)
def test_the_knee(expected: list[int], tps: dict[Any, Seen | float], word: str) -> None:
    conclusion = {**KNEE, "gain_below": 0.1, "expected": expected}
    assert found_along(conclusion, tps, along="threads").word == word


@pytest.mark.parametrize(("expected", "word"), [([], "undecided"), ([1], "does-not-hold")])
def test_a_run_that_ends_early_cannot_refute_a_knee_somewhere(
    expected: list[int], word: str
) -> None:
    conclusion = {**KNEE, "gain_below": 0.1, "expected": expected}
    text = made_text(
        dimensions={"threads": [1, 2, 4]},
        arms=None,
        baseline=None,
        conclusions=[conclusion],
        scales={
            scale: {
                **{"warmup_s": 2, "measure_s": 6, "rounds": 5},
                **{"dataset_bytes": "64M", "environment_s": 9},
                "only": {} if scale == "full" else {"threads": [1, 2]},
            }
            for scale in ("tiny", "small", "full")
        },
    )
    suite, run, trials = made_matrix_run(
        lambda cell, number: made_figures(cell.point.threads * 100 * NOISE[number - 1]),
        text=text,
        rounds=6,
    )
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == word
    ends = "The run ends at threads 2: beyond, there may be such a step."
    assert found.sentence.endswith(ends) == (word == "undecided")


@pytest.mark.parametrize(
    ("direction", "tolerance", "tps", "word"),
    [
        ("rises", 0.5, {1: 100, 4: 50, 8: 200}, "holds"),
        ("rises", 0.5, {1: 100, 4: 500, 8: 120}, "does-not-hold"),
        ("rises", 0.5, {1: 100, 4: 100, 8: 150.1}, "undecided"),
        ("falls", 0.5, {1: 200, 4: 300, 8: 100}, "holds"),
        ("falls", 0.5, {1: 100, 4: 100, 8: 90}, "does-not-hold"),
        ("level", 0.5, {1: 100, 4: 120, 8: 90}, "holds"),
        # The largest over the smallest, wherever they are.
        ("level", 0.5, {1: 100, 4: 200, 8: 100}, "does-not-hold"),
        ("level", 0.5, {1: 100, 4: "Down.", 8: 100}, "undecided"),
        ("rises", 0.5, {1: 100, 4: "Down.", 8: 200}, "holds"),
        ("rises", 0.5, {1: "Down.", 4: 100, 8: 200}, "not-tested"),
    ],
)
def test_the_trend(
    direction: str, tolerance: float, tps: dict[Any, Seen | float], word: str
) -> None:
    conclusion = {**TREND, "direction": direction, "tolerance": tolerance}
    assert found_along(conclusion, tps, along="threads").word == word


def test_where_any_of_several_claims_would_decide_they_share_the_error() -> None:
    """The step from 4 to 8 is the same in both; only where it is one of three it is less sure."""
    tps: dict[Any, Seen | float] = {1: 100, 2: 200, 4: 400, 8: 800}
    alone = found_along({**KNEE, "gain_below": 0.1, "expected": []}, tps, along="threads").claims
    shared = found_along({**KNEE, "gain_below": 0.1, "expected": [1]}, tps, along="threads").claims
    (one,) = alone
    (*_, same) = shared
    assert len(shared) == 3
    assert one.ratio == same.ratio
    assert one.high is not None
    assert same.high is not None
    assert same.high > one.high
