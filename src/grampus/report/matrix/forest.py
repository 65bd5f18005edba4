"""The arms' differences with their intervals, one below the other on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.report.drawing import Axis, Tick
from grampus.report.figures import MISSING
from grampus.report.matrix.findings import FoundComparison, FoundEffect
from grampus.report.matrix.words import format_ratio

FOREST_WIDTH = 220
_MARGIN = 12.0
# At least this far to both sides, so that noise does not look like a finding.
_LEAST_SPAN = 1.25
# Intervals that go further than this beyond all ratios are cut, or they would leave no room.
_ROOM = 4.0
_TITLES = {
    "qps": "Queries a second, more is better",
    "iops": "Operations a second, more is better",
    "latency-p99": "99th percentile of the latencies, less is better",
}


@dataclass(frozen=True)
class ForestRow:
    """One comparison. The places are None where there is nothing to draw: without a ratio all,
    without an interval `low` and `high`. `is_cut_*` say that the interval goes on there."""

    title: str
    where: str
    ratio: str
    interval: str
    rounds: str
    verdict: str
    side: str
    low: float | None
    middle: float | None
    high: float | None
    is_cut_low: bool
    is_cut_high: bool
    alternative: str


@dataclass(frozen=True)
class Forest:
    """The comparisons of one quantity; `one` is where the ratio 1 lies."""

    title: str
    one: float
    ticks: tuple[Tick, ...]
    rows: tuple[ForestRow, ...]


def decide_forests(comparisons: Sequence[FoundComparison]) -> tuple[Forest, ...]:
    """A forest for each quantity, in the order in which they come."""
    quantities = dict.fromkeys(one.quantity for one in comparisons)
    return tuple(
        _forest(quantity, [one for one in comparisons if one.quantity == quantity])
        for quantity in quantities
    )


def decide_forest_axis(effects: Sequence[FoundEffect]) -> Axis:
    """A logarithmic axis on which all ratios lie, and 1, and as much of the intervals as fits."""
    ratios = [one.ratio for one in effects if _is_drawable(one.ratio)]
    inner = (
        min([1 / _LEAST_SPAN, *(r for r in ratios if r is not None)]),
        max([_LEAST_SPAN, *(r for r in ratios if r is not None)]),
    )
    ends = [end for one in effects for end in (one.low, one.high) if end is not None]
    known = [end for end in ends if _is_drawable(end)]
    lowest = max(min([inner[0], *known]), inner[0] / _ROOM)
    highest = min(max([inner[1], *known]), inner[1] * _ROOM)
    return Axis(lowest, highest, _MARGIN, FOREST_WIDTH - _MARGIN, is_logarithmic=True)


def describe_verdict(comparison: FoundComparison) -> str:
    """The verdict in words, with what limits the trust in it."""
    word = comparison.word.replace("-", " ")
    effect = comparison.effect
    if effect is None:
        return f"{word}: {comparison.reason}"
    if comparison.word == "undecided" and effect.low is None:
        return f"{word} ({_rounds(effect.rounds)}, no interval)"
    if comparison.word == "undecided" and effect.detectable is not None:
        if effect.detectable >= 1:
            return f"{word} (so many rounds would not show a doubling)"
        return f"{word} (so many rounds show {100 * effect.detectable:.2g}% or more)"
    if comparison.remains is False:
        return f"{word} (may be chance among so many)"
    return word


def _forest(quantity: str, comparisons: Sequence[FoundComparison]) -> Forest:
    axis = decide_forest_axis([one.effect for one in comparisons if one.effect is not None])
    return Forest(
        title=_TITLES.get(quantity, quantity),
        one=axis.place(1.0),
        ticks=axis.ticks(),
        rows=tuple(_row(one, axis) for one in comparisons),
    )


def _row(comparison: FoundComparison, axis: Axis) -> ForestRow:
    effect = comparison.effect or FoundEffect(ratio=None, low=None, high=None, rounds=0)
    title = f"{comparison.arm} ÷ {comparison.baseline}"
    has_interval = effect.low is not None and effect.high is not None
    low, high = effect.low or 0.0, effect.high or 0.0
    interval = f"{format_ratio(low)} to {format_ratio(high)}" if has_interval else MISSING
    verdict = describe_verdict(comparison)
    said = ", ".join(part for part in (title, comparison.name) if part)
    drawn = _is_drawable(effect.ratio) and effect.ratio is not None
    return ForestRow(
        title=title,
        where=comparison.name,
        ratio=format_ratio(effect.ratio),
        interval=interval,
        rounds=str(effect.rounds) if effect.rounds else MISSING,
        verdict=verdict,
        side=comparison.word if comparison.word in ("better", "worse") else "either",
        low=axis.place(low) if drawn and has_interval else None,
        middle=axis.place(effect.ratio) if drawn and effect.ratio is not None else None,
        high=axis.place(high) if drawn and has_interval else None,
        is_cut_low=has_interval and low < axis.lowest,
        is_cut_high=has_interval and high > axis.highest,
        alternative=f"{said}: {format_ratio(effect.ratio)}, 95% interval {interval}"
        if drawn
        else f"{said}: {verdict}",
    )


def _is_drawable(ratio: float | None) -> bool:
    return ratio is not None and math.isfinite(ratio) and ratio > 0


def _rounds(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds} rounds"
