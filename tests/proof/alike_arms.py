"""How often rounds of two arms that are alike say that one is better: each such answer is wrong.

A run of many rounds is one comparison. Fewer of its rounds, drawn at random, are a comparison of
a shorter run, with the same noise. Pure, seeded.
"""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass

from grampus.bench.statistics.distributions import binomial_interval
from grampus.bench.statistics.effect import decide_effect

# Rounds of a comparison: those of the looks of most scales.
SIZES = (4, 6, 8, 10)
DRAWS = 1000
PROMISED = 0.05
SEED = 20261201


@dataclass(frozen=True)
class Answers:
    """Of `tries` comparisons of so many rounds, `wrong` left out 1 of their 95% interval."""

    rounds: int
    tries: int
    wrong: int

    @property
    def share(self) -> float:
        return self.wrong / self.tries


def read_pairs(trials: str, first: str, second: str) -> list[tuple[float, float]]:
    """The rounds' throughputs (second, first) from the CSV of `bench export --as csv`.

    A round that lacks an arm is left out.
    """
    by_round: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO(trials)):
        if row["operations_per_s"]:
            by_round.setdefault(row["round"], {})[row["arm"]] = float(row["operations_per_s"])
    return [(one[second], one[first]) for one in by_round.values() if {first, second} <= set(one)]


def try_draws(pairs: list[tuple[float, float]], sizes: tuple[int, ...] = SIZES) -> list[Answers]:
    """Comparisons of rounds drawn without replacement, DRAWS for each size below all."""
    source = random.Random(SEED)  # noqa: S311
    return [
        Answers(size, DRAWS, sum(is_answer(source.sample(pairs, size)) for _ in range(DRAWS)))
        for size in sizes
        if size < len(pairs)
    ]


def try_in_turn(pairs: list[tuple[float, float]], size: int) -> Answers:
    """Comparisons that share no round: the first `size` rounds, the next ones, and so on."""
    starts = range(0, len(pairs) - size + 1, size)
    return Answers(
        size, len(starts), sum(is_answer(pairs[start : start + size]) for start in starts)
    )


def is_answer(pairs: list[tuple[float, float]]) -> bool:
    """Whether the rounds say that an arm is better."""
    effect = decide_effect(pairs, better="more")
    assert effect.low is not None
    assert effect.high is not None
    return not effect.low <= 1 <= effect.high


def is_kept(pairs: list[tuple[float, float]]) -> bool:
    """Whether the promise was kept: by all rounds, and by comparisons that share none.

    Ten comparisons may by chance have a wrong answer, so their exact 95% interval is what must
    reach down to PROMISED. The draws share rounds, hence chance, and do not decide.
    """
    in_turn = try_in_turn(pairs, SIZES[0])
    low, _ = binomial_interval(in_turn.wrong, in_turn.tries)
    return not is_answer(pairs) and low <= PROMISED


def render_answers(pairs: list[tuple[float, float]]) -> str:
    """The section of the page."""
    whole = decide_effect(pairs, better="more")
    assert whole.ratio is not None
    assert whole.low is not None
    assert whole.high is not None
    said = "an answer, which is wrong" if is_answer(pairs) else "no answer, which is right"
    in_turn = try_in_turn(pairs, SIZES[0])
    rows = [f"| {one.rounds} | {one.tries:,} | {one.share:.1%} |" for one in try_draws(pairs)]
    return "\n".join(
        [
            "## Wrong answers",
            "",
            f"Both arms are alike, so *better* or *worse* is wrong; at most {PROMISED:.0%} of "
            "comparisons may say so. "
            f"All {len(pairs)} pairs of environments: {whole.ratio:.3f} "
            f"({whole.low:.3f} to {whole.high:.3f}), {said}. "
            f"Of {in_turn.tries} comparisons of {in_turn.rounds} rounds each that share no round, "
            f"{in_turn.wrong} had a wrong answer. "
            "Shorter runs, drawn at random from these rounds, share rounds, so chance moves their "
            "shares together:",
            "",
            "| rounds | comparisons | wrong answers |",
            "| ---: | ---: | ---: |",
            *rows,
            "",
        ]
    )
