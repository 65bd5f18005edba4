"""What would decide a conclusion that a run leaves open. Loaded only where there is one. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.findings.quantities import Pairs
from grampus.bench.findings.rounds import CellRounds
from grampus.bench.matrix.conclusions import Quantity
from grampus.bench.statistics.planning import (
    MOST_ROUNDS,
    Needed,
    decide_margin,
    decide_needed,
    relative_error,
)

# Quantities that follow from the operations of each second; in a closed loop the average latency
# does, too.
OF_SECONDS = frozenset(
    {
        *("tps", "qps", "tps-per-database", "qps-per-database"),
        *("iops", "mb-per-s", "latency-avg"),
    }
)


def decide_needed_rounds(
    quantity: Quantity,
    cells: tuple[CellRounds, CellRounds],
    pairs: Pairs,
    limits: tuple[float | None, float | None],
    *,
    ratio: float,
    level: float,
    beside_s: float,
) -> Needed | None:
    """The rounds that would tell on which side of its `limits` (at least, at most) a `ratio` is.

    `pairs` are those of `cells`. None: none that a suite can have.
    """
    figures = [one.figures for rounds in cells for one in rounds.measured.values()]
    errors = []
    # Seconds tell how exact a mean is, and nothing of a percentile.
    if quantity in OF_SECONDS:
        found = [relative_error([each.operations for each in one.seconds]) for one in figures]
        errors = [one for one in found if one is not None]
    return decide_needed(
        pairs.figures,
        decide_margin(ratio, *limits),
        level=level,
        errors=errors if len(errors) == len(figures) else (),
        measure_s=max(one.measured_s for one in figures),
        beside_s=beside_s,
    )


def render_needed(needed: Sequence[Needed | None]) -> str:
    """What all open claims of a conclusion need, as a sentence; `needed` is not empty."""
    known = [one for one in needed if one is not None]
    if len(known) < len(needed):
        return f"With such noise and such a ratio, {MOST_ROUNDS} rounds would not decide it."
    most = max(known, key=lambda one: one.rounds * one.measure_s)
    share = most.short_share
    short = "" if share is None else f"; {share:.0%} of the noise is that trials were short"
    return (
        f"With such noise and such a ratio, {most.rounds} rounds of {most.measure_s} s would "
        f"decide it four times in five{short}."
    )
