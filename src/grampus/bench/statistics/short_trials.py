"""Whether trials that are too short to be judged one by one were in a steady state together.

A series of eight seconds shows no trend: its noise is larger than any. Eight of them do: if the
warm-up was too short, the second half of each is above the first, whatever the noise of a single
one. So each trial is a pair, its second half over its first, and the pairs are compared as arms of
a comparison are (`effect`, ADR 23). What only happens later than a trial lasts (a checkpoint, a
compaction) cannot be seen in this way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.bench.statistics.effect import decide_effect
from grampus.bench.statistics.steadiness import SteadyLimits

MIN_TRIALS = 3
MIN_SECONDS = 4


@dataclass(frozen=True)
class TogetherSteady:
    """`steady` is None where the trials leave it open; `reason` is a sentence."""

    steady: bool | None
    reason: str


def decide_together(
    trials: Sequence[Sequence[float]], limits: SteadyLimits | None = None
) -> TogetherSteady | None:
    """Judge series of one figure a second of trials of the same cell; None: too few to judge.

    - steady: the whole interval of the second halves over the first lies within `hidden`;
    - not steady: the interval leaves out 1, and the difference exceeds `tolerance`.
    """
    limits = limits or SteadyLimits()
    pairs = [halves for one in trials if (halves := _halves(one)) is not None]
    if len(pairs) < MIN_TRIALS:
        return None
    effect = decide_effect(pairs, better="more", level=limits.error)
    if effect.ratio is None or effect.low is None or effect.high is None:
        return None
    could_be = max(effect.high, 1 / effect.low) - 1
    said = f"Over {len(pairs)} trials, the second half is {_change(effect.ratio)} the first"
    if not effect.low <= 1 <= effect.high and abs(effect.ratio - 1) > limits.tolerance:
        return TogetherSteady(
            False,
            f"{said} (95% interval {effect.low - 1:+.0%} to {effect.high - 1:+.0%}): a longer "
            "warm-up, or longer trials, would give other figures.",
        )
    if could_be <= limits.hidden:
        return TogetherSteady(True, f"{said}, and could differ by {could_be:.0%} at most.")
    shown = f"{could_be:.0%}" if could_be < 1 else "100% or more"
    return TogetherSteady(
        None,
        f"Each trial is too short to judge, and over {len(pairs)} trials the halves may differ by "
        f"up to {shown}.",
    )


def _halves(seconds: Sequence[float]) -> tuple[float, float] | None:
    """The sums of the second and of the first half; the second in the middle belongs to neither."""
    half = len(seconds) // 2
    if len(seconds) < MIN_SECONDS:
        return None
    first, second = math.fsum(seconds[:half]), math.fsum(seconds[-half:])
    return (second, first) if first > 0 and second > 0 else None


def _change(ratio: float) -> str:
    share = abs(ratio - 1)
    return f"{share:.0%} {'above' if ratio > 1 else 'below'}"
