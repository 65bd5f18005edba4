"""What looking at a run before its last round costs each of its intervals (ADR 23). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.statistics.stopping import StoppingLimits, level_of_look, look_rounds
from grampus.state.matrix_runs import MatrixRun, PlannedTrial, Trial

ERROR = 0.05
# Those of a balanced block of two arms. Of more arms a look may come within their block: every
# cell has as many rounds by then, and the orders favour none of them by much.
ROUNDS_BETWEEN_LOOKS = 2


def stopping_limits(run: MatrixRun) -> StoppingLimits | None:
    """After which rounds `run` is looked at; None: it makes all of them, and is looked at then."""
    if run.first_look is None or run.first_look >= run.rounds:
        return None
    return StoppingLimits(
        min_rounds=run.first_look,
        max_rounds=run.rounds,
        rounds_between_looks=ROUNDS_BETWEEN_LOOKS,
        error=ERROR,
    )


def decide_level(run: MatrixRun, trials: Sequence[Trial]) -> float:
    """The error of each interval over the rounds made so far: all looks' together is 5%.

    A run that was never to be looked at before its end has all of it, also where its time ended
    first: that does not depend on what was found.
    """
    limits = stopping_limits(run)
    begun = max((trial.round for trial in trials), default=0)
    if limits is None or not 2 <= begun <= run.rounds:
        return ERROR
    return level_of_look(begun, limits)


def is_look(run: MatrixRun, trials: Sequence[Trial], missing: Sequence[PlannedTrial]) -> bool:
    """Whether the rounds made so far are whole, and a look before the last round is due.

    `missing` are the trials that are still to be made, in their order: none of cells that could not
    be prepared.
    """
    limits = stopping_limits(run)
    if limits is None or not missing:
        return False
    whole = missing[0].round - 1
    return whole in look_rounds(limits) and all(trial.round <= whole for trial in trials)
