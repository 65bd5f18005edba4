"""Effects from paired rounds, worked out by hand and attacked."""

from __future__ import annotations

import math

import pytest

from grampus.bench.statistics.effect import (
    Better,
    Word,
    decide_effect,
    permutation_test,
    render_effect,
)
from grampus.core.errors import GrampusError, UsageError


def _pairs(*ratios: float) -> list[tuple[float, float]]:
    """Rounds whose machine is ever faster, with these ratios."""
    return [(ratio * 1000 * 1.1**i, 1000 * 1.1**i) for i, ratio in enumerate(ratios)]


@pytest.mark.parametrize(
    ("ratios", "better", "word"),
    [
        ((1.10, 1.11, 1.09, 1.10, 1.12, 1.10), "more", "better"),
        ((1.10, 1.11, 1.09, 1.10, 1.12, 1.10), "less", "worse"),
        ((0.90, 0.91, 0.89, 0.90, 0.92, 0.90), "more", "worse"),
        ((0.90, 0.91, 0.89, 0.90, 0.92, 0.90), "less", "better"),
        # Clearly not 3% better, but worse it may be.
        ((0.90, 1.00, 0.95, 1.02, 0.93, 1.01), "more", "undecided"),
        ((1.10, 1.00, 1.05, 0.98, 1.07, 0.99), "more", "undecided"),
        # Better, though by less than what counts.
        ((1.010, 1.011, 1.009, 1.010, 1.012, 1.010), "more", "better"),
        ((1.001, 0.999, 1.002, 0.998, 1.001, 0.999), "more", "no-difference"),
        ((1.1, 0.9, 1.2, 0.8, 1.1, 0.9), "more", "undecided"),
        ((), "more", "undecided"),
        ((1.5,), "more", "undecided"),
        # The same ratio in all rounds: with six it is a fact, with two a coarse figure.
        ((1.1,) * 6, "more", "better"),
        ((1.0,) * 6, "more", "no-difference"),
        ((1.1, 1.1), "more", "undecided"),
        ((1.0, 1.0), "more", "undecided"),
        # One round that stalled for good neither makes nor hides the sign of the others' effect.
        ((1.00, 1.01, 0.99, 1.00, 1.01, 1e-6), "more", "undecided"),
        ((1.00, 1.01, 0.99, 1.00, 1.01, 1e9), "more", "undecided"),
    ],
)
def test_word(ratios: tuple[float, ...], better: Better, word: Word) -> None:
    assert decide_effect(_pairs(*ratios), better=better).word == word


def test_the_interval_is_students_on_the_log_scale() -> None:
    # Logs of 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt(3), t with two degrees 4.302653.
    effect = decide_effect(_pairs(math.exp(0.1), math.exp(0.2), math.exp(0.3)), better="more")
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert effect.ratio == pytest.approx(math.exp(0.2))
    assert effect.low == pytest.approx(math.exp(0.2 - half), rel=1e-6)
    assert effect.high == pytest.approx(math.exp(0.2 + half), rel=1e-6)
    assert effect.half_width == pytest.approx(math.expm1(half), rel=1e-6)
    # t is 0.2 / 0.057735 = 3.4641; with two degrees p is 1 - t / sqrt(2 + t²) = 0.0742.
    assert effect.p == pytest.approx(1 - math.sqrt(12 / 14), rel=1e-6)
    assert effect.permutation_p == 0.25
    # And 80% power takes the quantile 1.0607 more.
    assert effect.detectable == pytest.approx(
        math.expm1((4.302653 + 1.060660) * 0.1 / math.sqrt(3)), rel=1e-5
    )


def test_exchanging_the_arms_exchanges_the_answer() -> None:
    pairs = _pairs(1.1, 1.2, 1.05, 1.3, 1.1, 1.15)
    effect = decide_effect(pairs, better="more")
    other = decide_effect([(b, a) for a, b in pairs], better="more")
    assert (effect.word, other.word) == ("better", "worse")
    assert effect.low is not None
    assert other.high == pytest.approx(1 / effect.low)


def test_the_permutation_test_has_a_say_once_it_can_pass() -> None:
    # Student's t calls these five a difference; five signs alone (2/32) could never.
    five = decide_effect(_pairs(1.10, 1.11, 1.09, 1.10, 1.12), better="more")
    assert five.word == "better"
    assert five.permutation_p == pytest.approx(2 / 32)
    # At a level of 1% six rounds (2/64) cannot pass, and eight (2/256) can.
    ratios = (1.10, 1.11, 1.09, 1.10, 1.12, 1.10, 1.11, 1.09)
    assert decide_effect(_pairs(*ratios[:6]), better="more", level=0.01).word == "better"
    assert decide_effect(_pairs(*ratios), better="more", level=0.01).word == "better"
    # Here Student's t passes at 5% (p = 0.049) and the signs (p = 0.0625) do not.
    logs = (0.10, 0.02, 0.06, 0.09, 0.05, -0.011)
    vetoed = decide_effect(_pairs(*(math.exp(x) for x in logs)), better="more", level=0.05)
    assert vetoed.p is not None
    assert vetoed.p < 0.05
    assert vetoed.permutation_p is not None
    assert vetoed.permutation_p > 0.05
    assert vetoed.word == "undecided"


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ((), 1.0),
        ((0.0,), 1.0),
        ((1.0,), 1.0),
        ((1.0, 1.0), 0.5),
        ((1.0, 2.0, 3.0), 0.25),
        # Sums: 6 and -6 of eight are as far; -1 flipped: +-(1+2-3=0), ...
        ((3.0, 2.0, -1.0), 0.5),
        ((0.1,) * 10, 2 / 1024),
    ],
)
def test_permutations(logs: tuple[float, ...], expected: float) -> None:
    assert permutation_test(logs) == expected


def test_coarse_figures_widen_the_interval() -> None:
    pairs = _pairs(*(1.018,) * 8)  # the next bucket of sysbench's histogram, in each round
    assert decide_effect(pairs, better="less").word == "worse"
    coarse = decide_effect(pairs, better="less", resolution=0.02)
    assert coarse.word == "undecided"
    assert coarse.low == pytest.approx(1.018 / 1.02)


@pytest.mark.parametrize(
    ("arm", "baseline", "code", "words"),
    [
        (math.nan, 1.0, "not-a-figure", "The arm holds nan as figure 2 of 2"),
        (math.inf, 1.0, "not-a-figure", "The arm holds inf"),
        (1.0, -math.inf, "not-a-figure", "The baseline holds -inf"),
        (-1.0, 1.0, "not-a-figure", "The arm holds -1.0"),
        (1e300, 1.0, "not-a-figure", "The arm holds 1e+300"),
        (0.0, 1.0, "no-throughput", "The arm is 0 in round 2 of 2"),
        (5e-324, 1.0, "no-throughput", "The arm is 0 in round 2 of 2"),
        (1.0, 0.0, "no-throughput", "The baseline is 0 in round 2 of 2"),
    ],
)
def test_what_is_no_figure_is_refused(arm: float, baseline: float, code: str, words: str) -> None:
    with pytest.raises(GrampusError) as raised:
        decide_effect([(1.0, 1.0), (arm, baseline)], better="more")
    assert raised.value.code == code
    assert words in raised.value.problem
    assert raised.value.remedy


@pytest.mark.parametrize(
    "shares",
    [{"level": 0.0}, {"level": 1.0}, {"smallest_relevant": 0.0}, {"resolution": -0.1}],
)
def test_shares_out_of_range_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        decide_effect([], better="more", **shares)


@pytest.mark.parametrize(
    ("ratios", "better", "sentence"),
    [
        ((), "more", "undecided: no round measured both."),
        ((1.5,), "more", "undecided: 50.0% more in 1 round, which has no interval."),
        (
            (1.1,) * 6,
            "more",
            "better: 10.0% more (95% interval 10.0% more to 10.0% more, 6 rounds).",
        ),
        (
            (0.9,) * 6,
            "less",
            "better: 10.0% less as wanted (95% interval 10.0% less to 10.0% less, 6 rounds).",
        ),
        (
            (3.0,) * 6,
            "less",
            "worse: 3 times as much (95% interval 3 times as much to 3 times as much, 6 rounds).",
        ),
        (
            (1.0,) * 6,
            "more",
            "no difference larger than 3%: the same (95% interval the same to the same, 6 rounds).",
        ),
    ],
)
def test_sentences(ratios: tuple[float, ...], better: Better, sentence: str) -> None:
    assert render_effect(decide_effect(_pairs(*ratios), better=better), better=better) == sentence


def test_the_sentence_names_the_error_over_all_looks() -> None:
    effect = decide_effect(_pairs(*(1.1,) * 8), better="more", level=0.004)
    assert "(99% interval " in render_effect(effect, better="more", error=0.01)


def test_undecided_says_what_could_have_been_seen() -> None:
    effect = decide_effect(_pairs(1.1, 0.9, 1.2, 0.8, 1.1, 0.9), better="more")
    said = render_effect(effect, better="more")
    assert said.startswith(
        "undecided: 1.0% less (95% interval 16.0% less to 16.7% more, 6 rounds)."
    )
    assert said.endswith("% or more, four times in five.")
