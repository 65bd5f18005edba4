"""One run of a matrix suite: the trials that are missing, one after the other, into the archive.

A run can be stopped at any moment and resumed: what has been measured is in the archive, each
trial by one durable write, and what a place makes it finds again. However a run ends, but by a
kill, the cluster is no longer kept quiet, and what was made for the run is gone unless it shall be
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from grampus.bench.matrix.cells import Cell
from grampus.bench.trials.budget import (
    decide_all_s,
    decide_spent_s,
    describe_cut,
    describe_time,
    fits,
)
from grampus.bench.trials.place import CellPlace
from grampus.bench.trials.plan import cells_of, missing_trials
from grampus.bench.trials.trial_runner import TrialRunner
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import Progress
from grampus.state.matrix_archive import MatrixArchive
from grampus.state.matrix_runs import MatrixRun, Moment, PlannedTrial, Trial

# Why none of the trials that are still to be made is needed, as a sentence; None: go on.
Enough = Callable[[MatrixRun, Sequence[Trial], Sequence[PlannedTrial]], str | None]


@dataclass(frozen=True)
class RunPorts:
    """Where a run is made and kept, and who says when it has measured enough."""

    place: CellPlace
    archive: MatrixArchive
    clock: Clock
    progress: Progress
    enough: Enough

    def now_s(self) -> float:
        """Seconds since the Unix epoch."""
        return self.clock.now().timestamp()


@dataclass(frozen=True)
class EarlyEnd:
    """Why not all trials were made: there was no time for them, or no need; None where so."""

    cut_short: str | None = None
    enough: str | None = None


class MatrixRunner:
    """Runs matrix suites at one place. Whoever calls it holds the lock `bench`."""

    def __init__(self, ports: RunPorts) -> None:
        self._ports = ports

    def run(self, plan: MatrixRun, *, keep: bool = False) -> MatrixRun:
        """Carry `plan` out, or go on with the run of its id; returns the run as it ended.

        A run that is in the archive is resumed as it stands there; one that has ended is
        returned. Unless `keep`, what was made for it is removed in the end, and also when it is
        interrupted. Raises RefusedError (`run-outdated`; `other-place` for a run of another place)
        and GrampusError when the archive is full (`no-space`) or when nothing can be prepared at
        all: it can be resumed then, as after any interruption.
        """
        run = self._begin(plan)
        if run.ended_at_s is not None:
            return run
        cells = cells_of(run)
        rounds = Rounds(self._ports, run, cells)
        with self._ports.place.quiet(), self._tidied(run, keep=keep):
            early = rounds.measure_missing()
            if not keep:
                # Before the run counts as ended: who is stopped here goes on with removing it.
                self._ports.progress.phase("Remove what was made for it")
                self._ports.place.dismantle()
        ended = run.model_copy(update={"ended_at_s": self._ports.now_s(), **asdict(early)})
        self._ports.archive.end(ended)
        return ended

    def _begin(self, plan: MatrixRun) -> MatrixRun:
        if plan.run_id not in self._ports.archive.run_ids():
            self._ports.archive.begin(plan)
            return plan
        run = self._ports.archive.load(plan.run_id)
        here = self._ports.place.name
        if run.place != here:
            raise RefusedError(
                f"The run {run.run_id} was begun on {run.place}, and this is {here}.",
                "Resume it there, or begin a new one here.",
                code="other-place",
            )
        return run

    @contextmanager
    def _tidied(self, run: MatrixRun, *, keep: bool) -> Iterator[None]:
        """What was made is removed too when the block fails or is interrupted, unless `keep`."""
        try:
            yield
        except BaseException:
            try:
                if not keep:
                    self._dismantle_after_failure()
            finally:
                # Last, so that it stands where a reader looks.
                again = f"{run.suite}{self._ports.place.options} --scale {run.scale} --resume"
                self._ports.progress.note(
                    f"The run {run.run_id} is not finished. `grampus bench run {again}` resumes it."
                )
            raise

    def _dismantle_after_failure(self) -> None:
        self._ports.progress.phase("Remove what was made for it")
        try:
            self._ports.place.dismantle()
        except GrampusError as error:
            # What the run failed of is told as its error; this is told beside it.
            self._ports.progress.note(f"Not all that was made for it could be removed: {error}")


class Rounds:
    """The trials that are missing of one run, and how its time goes."""

    def __init__(self, ports: RunPorts, run: MatrixRun, cells: Mapping[str, Cell]) -> None:
        self._ports = ports
        self._run = run
        self._cells = cells
        self._labels = {cell.cell_id: cell.label for cell in run.cells}
        self._trials = ports.archive.trials(run.run_id)
        self._prepared: int | None = None  # the round for which all was made
        self._preparing_s = 0.0  # what that took the last time
        # Read before this process adds to it.
        self._spent_s = decide_spent_s(ports.archive.moments(run.run_id), self._trials)
        self._began_s = ports.clock.monotonic_s()

    def measure_missing(self) -> EarlyEnd:
        """Make the trials that are needed and that there is time for; why not all, if so."""
        missing = missing_trials(self._run, self._trials)
        enough = self._ports.enough(self._run, self._trials, missing)
        if not missing or enough is not None:
            return EarlyEnd(enough=enough)
        self._note("began")
        if not self._fits(missing):
            return EarlyEnd(describe_cut(self._run, missing, self._trials))
        ports = self._ports
        runner = TrialRunner(
            *(ports.place, ports.archive, ports.clock, ports.progress), self._run, self._left_s
        )
        while missing:
            enough = self._ports.enough(self._run, self._trials, missing)
            if enough is not None:
                return EarlyEnd(enough=enough)
            if not self._fits(missing):
                return EarlyEnd(describe_cut(self._run, missing, self._trials))
            if self._is_to_be_prepared(missing[0]):
                missing = self._prepare(missing)
                continue
            self._show(missing)
            self._keep(runner.run(self._cells[missing[0].cell_id], missing[0]))
            missing = missing[1:]
        return EarlyEnd()

    def _is_to_be_prepared(self, planned: PlannedTrial) -> bool:
        if self._prepared is None:
            return True
        return self._run.environments == "each-round" and planned.round != self._prepared

    def _prepare(self, missing: Sequence[PlannedTrial]) -> list[PlannedTrial]:
        """Have it made what `missing` stand on; without those for which that failed.

        These have one marked trial with the reason: more would say the same. Another process that
        goes on with the run tries them again.
        """
        began_s = self._ports.clock.monotonic_s()
        self._prepared = number = missing[0].round
        is_anew = self._run.environments == "each-round"
        if is_anew and number not in {trial.round for trial in self._trials}:
            # Also what a process that was stopped made for the round before.
            self._ports.progress.phase(f"Remove the environments of the round before {number}")
            self._ports.place.remove_prepared()
        stand = [one for one in missing if one.round == number] if is_anew else missing
        cells = [self._cells[cell_id] for cell_id in dict.fromkeys(one.cell_id for one in stand)]
        self._ports.progress.phase(f"Prepare {len(cells)} cell{'' if len(cells) == 1 else 's'}")
        reasons = self._ports.place.prepare(cells)
        self._preparing_s = self._ports.clock.monotonic_s() - began_s
        self._note("prepared")
        told = {(trial.cell_id, trial.marked) for trial in self._trials}
        for one in {planned.cell_id: planned for planned in reversed(missing)}.values():
            reason = reasons.get(one.cell_id)
            if reason is not None and (one.cell_id, reason) not in told:
                self._keep(self._mark(one, reason))
        return [one for one in missing if one.cell_id not in reasons]

    def _mark(self, planned: PlannedTrial, reason: str) -> Trial:
        now_s = self._ports.now_s()
        return Trial(
            cell_id=planned.cell_id,
            round=planned.round,
            started_at_s=now_s,
            ended_at_s=now_s,
            marked=reason,
        )

    def _keep(self, trial: Trial) -> None:
        self._ports.archive.append(self._run.run_id, trial)
        self._trials.append(trial)
        if trial.marked is not None:
            self._ports.progress.note(f"{self._labels[trial.cell_id]}: {trial.marked}")

    def _fits(self, missing: Sequence[PlannedTrial]) -> bool:
        left_s = self._left_s()
        if left_s is not None and self._is_to_be_prepared(missing[0]):
            left_s -= self._preparing_s
        return fits(self._run, missing, self._trials, left_s)

    def _left_s(self) -> float | None:
        if self._run.budget_s is None:
            return None
        here_s = self._ports.clock.monotonic_s() - self._began_s
        return self._run.budget_s - self._spent_s - here_s

    def _show(self, missing: Sequence[PlannedTrial]) -> None:
        planned, count = missing[0], len(self._run.visits)
        place = self._run.visits.index(planned)
        needed_s, left_s = decide_all_s(self._run, missing, self._trials), self._left_s()
        if self._run.environments == "each-round":
            needed_s += (missing[-1].round - planned.round) * self._preparing_s
        shown_s = needed_s if left_s is None else min(needed_s, left_s)
        label = self._labels[planned.cell_id]
        self._ports.progress.phase(f"{place + 1} of {count}: {label} (round {planned.round})")
        self._ports.progress.detail(f"about {describe_time(shown_s)} left", fraction=place / count)

    def _note(self, what: str) -> None:
        moment = Moment.model_validate({"at_s": self._ports.now_s(), "what": what})
        self._ports.archive.append_moment(self._run.run_id, moment)
