"""How long visits took besides their load. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from grampus.state.matrix_runs import MatrixRun, Visit


@dataclass(frozen=True)
class Overhead:
    """Seconds of a visit beside its load: what is prepared, started, gathered.

    Of them, in medians: `change_s` until all was as the cell asks, `calm_s` until nothing was
    written any more of what came before. None: a run that did not record it.
    """

    median_s: float
    longest_s: float
    visits: int
    change_s: float | None = None
    calm_s: float | None = None


def decide_overhead(run: MatrixRun, visits: Sequence[Visit]) -> Overhead | None:
    """Of the visits with figures, None without one.

    Of older visits, which did not record their load, all counts that is not of the planned
    warm-up and measuring; those that measured longer, to become steady, are left out.
    """
    planned_s = run.warmup_s + run.measure_s
    found: list[float] = []
    spent = []
    for one in visits:
        if one.figures is None:
            continue
        took_s = one.ended_at_s - one.started_at_s
        if one.figures.spent is not None:
            spent.append(one.figures.spent)
            found.append(took_s - one.figures.spent.load_s)
        elif one.figures.measured_s <= planned_s:
            found.append(took_s - planned_s)
    if not found:
        return None
    return Overhead(
        median(found),
        max(found),
        len(found),
        change_s=median(one.change_s for one in spent) if spent else None,
        calm_s=median(one.calm_s for one in spent) if spent else None,
    )
