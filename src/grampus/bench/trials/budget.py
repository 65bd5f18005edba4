"""How the time of a run goes: what was spent, what a trial takes, and when to end early."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from grampus.bench.matrix.expansion import CELL_OVERHEAD_S
from grampus.state.matrix_runs import MatrixRun, Moment, PlannedTrial, Trial


def decide_spent_s(moments: Sequence[Moment], trials: Sequence[Trial]) -> float:
    """What processes that are gone have spent on a run, up to the last thing that each of them
    wrote. The time in which none worked on it does not count."""
    # Where two fall on one moment, what ends a stretch stands before what begins one.
    events = [(moment.at_s, moment.what == "began") for moment in moments]
    events += [(at_s, False) for trial in trials for at_s in (trial.started_at_s, trial.ended_at_s)]
    return sum(
        later_s - earlier_s
        for (earlier_s, _), (later_s, begins) in pairwise(sorted(events))
        if not begins
    )


def decide_all_s(run: MatrixRun, planned: Sequence[PlannedTrial], trials: Sequence[Trial]) -> float:
    """What all of `planned` take: each as the trials of its cell so far did on average, else as all
    did, else as declared.

    Those without figures do not count: they ended before their time, or waited.
    """
    took_s: dict[str, list[float]] = {}
    for trial in trials:
        if trial.figures is not None:
            took_s.setdefault(trial.cell_id, []).append(trial.ended_at_s - trial.started_at_s)
    all_s = [one_s for own_s in took_s.values() for one_s in own_s]
    otherwise_s = fmean(all_s) if all_s else run.warmup_s + run.measure_s + CELL_OVERHEAD_S
    typical_s = {cell_id: fmean(own_s) for cell_id, own_s in took_s.items()}
    return math.fsum(typical_s.get(one.cell_id, otherwise_s) for one in planned)


def fits(
    run: MatrixRun,
    missing: Sequence[PlannedTrial],
    trials: Sequence[Trial],
    left_s: float | None,
) -> bool:
    """Whether there is time for the first of `missing`; always when `left_s` is None.

    A further round is begun only when there is time for all of it: half of one would give some
    cells more rounds than others. The first is begun in any case, and goes as far as it comes.
    `missing` is not empty.
    """
    if left_s is None:
        return True
    begun = {trial.round for trial in trials}
    number = missing[0].round
    whole = number > 1 and number not in begun
    needed = [one for one in missing if one.round == number] if whole else missing[:1]
    return decide_all_s(run, needed, trials) <= left_s


def describe_cut(run: MatrixRun, missing: Sequence[PlannedTrial], trials: Sequence[Trial]) -> str:
    """Why `missing` were not measured, as a sentence."""
    whole = min(one.round for one in missing) - 1
    return (
        f"The budget of {describe_time(run.budget_s or 0)} was spent after {len(trials)} of "
        f"{len(run.visits)} trials: {whole} of {run.rounds} rounds are whole."
    )


def describe_time(time_s: float) -> str:
    """Seconds up to two minutes, then whole minutes."""
    return f"{time_s:.0f} s" if time_s < 120 else f"{time_s / 60:.0f} min"
