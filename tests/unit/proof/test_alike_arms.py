"""How often alike arms get an answer."""

from __future__ import annotations

import random

import pytest

from tests.proof.alike_arms import (
    PROMISED,
    is_answer,
    is_kept,
    read_pairs,
    render_answers,
    try_draws,
    try_in_turn,
)


def simulate(*, offset: float, seed: int = 3) -> list[tuple[float, float]]:
    """Forty rounds whose ratio is noisy by 5%, around one plus `offset`."""
    source = random.Random(seed)  # noqa: S311
    return [(100 * (1 + offset) * source.lognormvariate(0, 0.05), 100.0) for _ in range(40)]


def test_alike_arms_get_hardly_an_answer() -> None:
    pairs = simulate(offset=0)
    assert not is_answer(pairs)
    assert is_kept(pairs)
    assert "no answer, which is right" in render_answers(pairs)


def test_arms_on_kept_environments_that_differ_get_wrong_answers() -> None:
    pairs = simulate(offset=0.1)
    assert is_answer(pairs)
    assert not is_kept(pairs)
    assert [one.rounds for one in try_draws(pairs)] == [4, 6, 8, 10]
    assert all(one.share > PROMISED for one in try_draws(pairs))
    assert "an answer, which is wrong" in render_answers(pairs)


@pytest.mark.parametrize(("size", "tries"), [(4, 10), (6, 6), (40, 1)])
def test_comparisons_in_turn_share_no_round(size: int, tries: int) -> None:
    assert try_in_turn(simulate(offset=0), size).tries == tries


def test_a_round_without_an_arm_is_left_out() -> None:
    trials = (
        "round,arm,operations_per_s\n1,first,10\n1,second,20\n2,second,5\n2,first,\n"
        "3,second,9\n3,first,3\n"
    )
    assert read_pairs(trials, "first", "second") == [(20.0, 10.0), (9.0, 3.0)]
