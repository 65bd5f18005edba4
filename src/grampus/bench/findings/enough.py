"""Whether a run has measured enough before its last round. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.findings.conclusions import decide_conclusions
from grampus.bench.findings.looks import is_look
from grampus.bench.matrix.loading import parse_matrix_suite
from grampus.state.matrix_runs import MatrixRun, PlannedTrial, Trial

_ANSWERS = frozenset({"holds", "does-not-hold"})


def decide_enough(
    run: MatrixRun, trials: Sequence[Trial], missing: Sequence[PlannedTrial]
) -> str | None:
    """Why none of the trials still `missing` is needed, as a sentence; None: go on.

    That is where each conclusion that can be tested has its answer. What could not be tested in all
    these rounds keeps none from ending, unless it is all there is. Ending because no further round
    is likely to decide was refused here: suites have few rounds more than their first look.
    Raises GrampusError with code `latency-document` for a latency that cannot be read.
    """
    if not is_look(run, trials, missing):
        return None
    suite = parse_matrix_suite(run.suite_text, source=f"the suite of the run {run.run_id}")
    words = {one.word for one in decide_conclusions(suite, run, trials)}
    if "undecided" in words or not words & _ANSWERS:
        return None
    made = max(trial.round for trial in trials)
    return (
        f"After {made} of at most {run.rounds} rounds each conclusion that could be tested had its "
        "answer, so no further one was made."
    )
