"""One trial: wait until the place is fit, measure, measure longer where that may help, say what
came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grampus.bench.drivers.outcome import DriverFailure
from grampus.bench.drivers.together import JointSample
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.expansion import CELL_OVERHEAD_S
from grampus.bench.trials.budget import describe_time
from grampus.bench.trials.place import PLACE_ERRORS, CellPlace, Measured, tell_problem
from grampus.bench.trials.trial_figures import (
    EXTENDED_TIMES,
    SHORT_SCALE,
    SteadyState,
    add_spent,
    decide_figures,
    decide_steady_state,
    why_no_figure,
)
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_runs import Figures, MatrixRun, PlannedTrial, Trial

# An OSD that was restarted is back within it; what takes longer is told instead of waited for.
FIT_TIMEOUT_S = 120.0
FIT_INTERVAL_S = 2.0


@dataclass(frozen=True)
class _Sampled:
    measured: Measured
    sample: JointSample
    state: SteadyState


def decide_outcome(measured: Figures | str, unfit: str | None) -> Figures | str:
    """What was measured, or a reason; `unfit` is why the place is not fit behind it, None: it is.

    What came upon the place while it was measured leaves no figures. Beside what a client said it
    is most likely the cause: OSDs that are full hold a client up, which then complains of the time.
    """
    if unfit is None:
        return measured
    if isinstance(measured, str):
        return measured if unfit in measured else f"{measured} {unfit}"
    return f"{unfit} That came while it was measured, so its figures do not count."


class TrialRunner:
    """Measures cells of one run. `left_s` says how much of its budget is left; None: no budget."""

    def __init__(
        self,
        place: CellPlace,
        archive: MatrixArchive,
        clock: Clock,
        progress: Progress,
        run: MatrixRun,
        left_s: Callable[[], float | None],
    ) -> None:
        self._place = place
        self._archive = archive
        self._clock = clock
        self._progress = progress
        self._run = run
        self._left_s = left_s

    def run(self, cell: Cell, planned: PlannedTrial) -> Trial:
        """Measure `cell` once; what fails at the place is the reason of a marked trial.

        Raises GrampusError when what the drivers printed cannot be kept.
        """
        started_at_s = self._now_s()
        outcome: Figures | str | None = self._why_never_fit()
        if outcome is None:
            # The waiting before it says nothing of how long a trial takes.
            started_at_s = self._now_s()
            measured = self._measure(cell, planned)
            outcome = decide_outcome(measured, self._why_unfit())
        return Trial(
            cell_id=planned.cell_id,
            round=planned.round,
            started_at_s=started_at_s,
            ended_at_s=self._now_s(),
            figures=outcome if isinstance(outcome, Figures) else None,
            marked=outcome if isinstance(outcome, str) else None,
        )

    def _measure(self, cell: Cell, planned: PlannedTrial) -> Figures | str:
        """The figures of one measuring, or of a longer one in its place."""
        measure_s = int(self._run.measure_s)
        found = self._measure_once(cell, planned, measure_s)
        if isinstance(found, str):
            return found
        # That scale promises how long it takes.
        if found.state.may_change and self._run.scale != SHORT_SCALE:
            longer_s = EXTENDED_TIMES * measure_s
            if self._has_time(self._run.warmup_s + longer_s + CELL_OVERHEAD_S):
                self._progress.detail(f"measured again for {longer_s} s: {found.state.reason}")
                longer = self._measure_once(cell, planned, longer_s, prefix="extended-")
                if isinstance(longer, str):
                    return longer
                found = replace(longer, measured=add_spent(found.measured, longer.measured))
            else:
                reason = f"{found.state.reason} There was no time to measure longer."
                found = replace(found, state=replace(found.state, reason=reason))
        return decide_figures(found.measured, found.sample, found.state)

    def _measure_once(
        self, cell: Cell, planned: PlannedTrial, measure_s: int, *, prefix: str = ""
    ) -> _Sampled | str:
        try:
            measured = self._place.measure(
                cell, warmup_s=int(self._run.warmup_s), measure_s=measure_s
            )
        except PLACE_ERRORS as error:
            return tell_problem(error)
        for name, text in measured.raw.items():
            self._archive.write_raw(
                self._run.run_id, planned.cell_id, planned.round, f"{prefix}{name}", text
            )
        if measured.watched is not None:
            # Those of a longer measuring replace these, as its figures do.
            self._archive.write_series(
                self._run.run_id, planned.cell_id, planned.round, measured.watched.points
            )
        sample = measured.outcome
        if isinstance(sample, DriverFailure):
            return sample.reason
        reason = why_no_figure(sample)
        if reason is not None:
            return reason
        state = decide_steady_state(sample, measure_s=int(self._run.measure_s))
        return _Sampled(measured, sample, state)

    def _why_never_fit(self) -> str | None:
        """Wait until what is measured counts; the reason why it does not when that was in vain."""
        left_s = self._left_s()
        timeout_s = FIT_TIMEOUT_S if left_s is None else max(min(FIT_TIMEOUT_S, left_s), 0.0)
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            reason = self._why_unfit()
            if reason is None:
                return None
            if self._clock.monotonic_s() >= deadline_s:
                return f"{reason} That did not change in {describe_time(timeout_s)}."
            self._progress.detail(f"waiting: {reason}")
            self._clock.sleep(FIT_INTERVAL_S)

    def _why_unfit(self) -> str | None:
        try:
            return self._place.why_unfit()
        except PLACE_ERRORS as error:
            # A cluster that does not even answer is not fit.
            return tell_problem(error)

    def _has_time(self, needed_s: float) -> bool:
        left_s = self._left_s()
        return left_s is None or needed_s <= left_s

    def _now_s(self) -> float:
        return self._clock.now().timestamp()
