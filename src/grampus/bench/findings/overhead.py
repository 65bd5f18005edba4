"""How long visits took besides what they measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from grampus.state.matrix_runs import MatrixRun, Visit


@dataclass(frozen=True)
class Overhead:
    """Seconds of a visit beside its warm-up and measuring: what is prepared, started, gathered."""

    median_s: float
    longest_s: float
    visits: int


def decide_overhead(run: MatrixRun, visits: Sequence[Visit]) -> Overhead | None:
    """Of the visits with figures, None without one.

    A visit that measured longer, to become steady, is left out: what it measured first is not
    recorded.
    """
    planned_s = run.warmup_s + run.measure_s
    found = [
        one.ended_at_s - one.started_at_s - planned_s
        for one in visits
        if one.figures is not None and one.figures.measured_s <= planned_s
    ]
    return Overhead(median(found), max(found), len(found)) if found else None
