"""One run of `paths`: round after round over all ways, and the archive.

However a run ends, its containers are gone, the volume is detached and, unless it shall be kept,
removed. A way that fails is a warning of the run and left out; the others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from grampus.bench.machine_facts import decide_facts, observe_busy_cores, observe_machine
from grampus.bench.paths.blocks import Block, BlockName
from grampus.bench.paths.facts import describe_load, observe_programs
from grampus.bench.paths.load import Figure, Timing
from grampus.bench.paths.outcome import (
    RoundFigure,
    decide_comparisons,
    decide_differences,
    decide_results,
    describe_samples,
)
from grampus.bench.paths.paths_ports import PathsPorts
from grampus.bench.paths.plan import (
    CLEAN_UP_S,
    PathsOptions,
    PathsPlan,
    decide_fio_seed,
    decide_plan,
    decide_runtime_ms,
    describe_arms,
    fixed_round_s,
)
from grampus.bench.paths.stage import NOT_PREPARED, Stage
from grampus.bench.paths.suite import PathsSuite
from grampus.bench.paths.targets import decide_paths_warnings, decide_targets
from grampus.bench.paths.write_paths import RoundSettings
from grampus.core.errors import GrampusError
from grampus.hosts.port import HostUnreachableError
from grampus.state.locks import hold_lock
from grampus.state.runs import PathsRun, RunArchive

# A way that failed this often is not tried again.
MAX_FAILURES = 2
# Nor one that the host will not have a minute later either.
HOPELESS_CODES = frozenset({"no-driver", "no-volumed", "program-missing", NOT_PREPARED})


class PathsRunner:
    """Runs the suite `paths` on one host of a lab or cluster."""

    def __init__(self, ports: PathsPorts) -> None:
        self._ports = ports
        self._archive = RunArchive(ports.home.runs_dir)

    def plan(self, suite: PathsSuite, options: PathsOptions) -> PathsPlan:
        """What `run` would do.

        Raises UsageError, NotFoundError for a host that is not there, HostUnreachableError.
        """
        seed = int(self._ports.clock.now().timestamp())
        return decide_plan(suite, options, host=self._decide_host(options.host), seed=seed)

    def run(self, suite: PathsSuite, options: PathsOptions) -> PathsRun:
        """Carry out the suite and archive the run.

        Raises UsageError, RefusedError with code `busy`, `exists` or `pool-full`, and GrampusError
        with code `nothing-measured` when every way failed.
        """
        plan = self.plan(suite, options)
        ports = self._ports
        # Two runs at the same time would measure each other.
        with hold_lock(ports.home, "bench", ports.clock, timeout_s=0), ExitStack() as ends:
            began_s, started = ports.clock.monotonic_s(), ports.clock.now()
            run_id = f"{started:%Y%m%d-%H%M%S}-{suite.name}-{plan.scale_name}"
            run_dir = self._archive.run_dir(run_id)
            host = ports.fleet.host(plan.host)
            ports.progress.phase("Prepare")
            busy_before, cores = observe_busy_cores(host, ports.clock)
            facts = [
                *ports.cluster.facts(),
                *observe_machine(host),
                *observe_programs(host, ports.program),
            ]
            stage = Stage(ports, suite, plan, host, run_dir / "raw")
            with ExitStack() as unfinished:
                unfinished.callback(self._note_unfinished, run_dir)
                problems = stage.set_up(ends)
                rounds = PathsRounds(ports, plan, stage)
                rounds.measure(remaining_s=self._remaining_s(plan, began_s))
                unfinished.pop_all()
            if not rounds.figures:
                raise GrampusError(
                    f"No way to the image could be measured: {' '.join(rounds.problems[:2])}",
                    "See whether the cluster and the host are healthy (grampus lab status).",
                    code="nothing-measured",
                )
            ports.progress.phase("Save the run")
            run = _describe_run(
                suite,
                plan,
                rounds,
                run_id=run_id,
                lab=ports.lab,
                times_s=(started.timestamp(), ports.clock.now().timestamp()),
            )
            load = describe_load(suite, plan, rounds.runtimes_ms, stage.server_version)
            warnings = decide_paths_warnings(
                run,
                problems=[*problems, *rounds.problems],
                runtimes_ms=rounds.runtimes_ms,
                plan=plan,
                busy_cores_before=busy_before,
                cores=cores,
            )
            run = run.model_copy(
                update={
                    "environment": decide_facts(facts, load),
                    "warnings": tuple(warnings),
                }
            )
            self._archive.save(run)
            return run

    def _note_unfinished(self, run_dir: Path) -> None:
        if run_dir.exists():
            self._ports.progress.note(f"The run did not finish; what it kept is in {run_dir}.")

    def _remaining_s(self, plan: PathsPlan, began_s: float) -> float:
        return plan.scale.budget_s - CLEAN_UP_S - (self._ports.clock.monotonic_s() - began_s)

    def _decide_host(self, asked: str | None) -> str:
        fleet = self._ports.fleet
        if asked is not None:
            fleet.host(asked)
            if not fleet.is_reachable(asked):
                raise HostUnreachableError(
                    f"The host {asked} cannot be reached.", "Bring it back, or choose another."
                )
            return asked
        for host in fleet.hosts():
            if fleet.is_reachable(host.name):
                return host.name
        raise HostUnreachableError("No host can be reached.", "`grampus lab up` starts them.")


class PathsRounds:
    """The rounds of one run: figures, what failed, and how the time goes."""

    def __init__(self, ports: PathsPorts, plan: PathsPlan, stage: Stage) -> None:
        self._ports = ports
        self._plan = plan
        self._stage = stage
        self._failures: Counter[BlockName] = Counter()
        self._began_s = ports.clock.monotonic_s()
        self._points_done = 0
        self._took_s: dict[BlockName, float] = {}
        self.figures: list[RoundFigure] = []
        self.problems: list[str] = []
        self.details: dict[str, str] = {}
        self.runtimes_ms: list[int] = []

    def measure(self, *, remaining_s: float) -> None:
        """Carry out all rounds; jobs are shortened when `remaining_s` would not do.

        When that would not do either, the write paths are left out of further rounds.
        """
        clock, plan = self._ports.clock, self._plan
        deadline_s = clock.monotonic_s() + remaining_s
        self._began_s = clock.monotonic_s()
        for number, order in enumerate(plan.order, start=1):
            names = self._decide_blocks(number, deadline_s - clock.monotonic_s())
            blocks = [plan.block(name) for name in order if name in names]
            left = [*names, *(name for later in plan.order[number:] for name in later)]
            left = [name for name in left if self._is_tried(name)]
            runtime_ms = decide_runtime_ms(
                plan.scale,
                remaining_s=deadline_s - clock.monotonic_s(),
                fixed_s=sum(self._fixed_s(name) for name in left),
                time_factor=sum(plan.block(name).time_factor for name in left),
            )
            if any(block.time_factor for block in blocks):
                self.runtimes_ms.append(runtime_ms)
            self._ports.progress.phase(f"Round {number} of {plan.rounds}")
            settings = RoundSettings(
                number,
                Timing(runtime_ms, plan.scale.ramp_ms, plan.scale.sustained_ms),
                decide_fio_seed(plan.seed, number),
            )
            for block in blocks:
                began_s = clock.monotonic_s()
                self._measure_block(block, settings)
                took_s = clock.monotonic_s() - began_s
                fixed_s = took_s - block.time_factor * runtime_ms / 1000
                if fixed_s > 0:
                    self._took_s[block.name] = fixed_s

    def _decide_blocks(self, number: int, remaining_s: float) -> list[BlockName]:
        """What round `number` measures: all that is tried, or not the write paths when late."""
        plan = self._plan
        names = [name for name in plan.order[number - 1] if self._is_tried(name)]
        write_paths = [name for name in names if plan.block(name).is_write_path]
        if number == 1 or not plan.is_bounded or not write_paths:
            return names
        later = [name for order in plan.order[number:] for name in order]
        needed = [*names, *(name for name in later if not plan.block(name).is_write_path)]
        needed_s = sum(self._least_s(name) for name in needed if self._is_tried(name))
        if needed_s <= remaining_s:
            return names
        self.problems.append(f"The write paths were left out of round {number}, to end in time.")
        self._points_done += sum(plan.block(name).points for name in write_paths)
        return [name for name in names if name not in write_paths]

    def _fixed_s(self, name: BlockName) -> float:
        """What the block takes beside its ordinary jobs: as last time, else as estimated."""
        if name in self._took_s:
            return self._took_s[name]
        return fixed_round_s([self._plan.block(name)], self._plan.scale)

    def _least_s(self, name: BlockName) -> float:
        jobs_s = self._plan.block(name).time_factor * self._plan.scale.min_runtime_ms / 1000
        return self._fixed_s(name) + jobs_s

    def _measure_block(self, block: Block, settings: RoundSettings) -> None:
        def keep(arm: str, figures: Sequence[Figure]) -> None:
            self.figures += [RoundFigure(settings.number, arm, figure) for figure in figures]

        self._show(block.name)
        try:
            detail = self._stage.measure(block, settings, keep)
        except GrampusError as error:
            hopeless = error.code in HOPELESS_CODES
            self._failures[block.name] += MAX_FAILURES if hopeless else 1
            dropped = "" if self._is_tried(block.name) else " It is left out from here on."
            self.problems.append(
                f"{block.name} failed in round {settings.number}: {error.problem}{dropped}"
            )
            self._ports.progress.note(self.problems[-1])
        else:
            for arm in (block.raw_arm, block.xfs_arm):
                self.details.setdefault(arm, detail)
        self._points_done += block.points

    def _is_tried(self, name: BlockName) -> bool:
        return self._failures[name] < MAX_FAILURES

    def _show(self, name: BlockName) -> None:
        done, points = self._points_done, self._plan.points
        if not done:
            self._ports.progress.detail(name, fraction=0.0)
            return
        elapsed_s = self._ports.clock.monotonic_s() - self._began_s
        left_min = elapsed_s * (points - done) / done / 60
        self._ports.progress.detail(
            f"{name}; about {left_min:.0f} min left", fraction=done / points
        )


def _describe_run(
    suite: PathsSuite,
    plan: PathsPlan,
    rounds: PathsRounds,
    *,
    run_id: str,
    lab: str,
    times_s: tuple[float, float],
) -> PathsRun:
    figures = rounds.figures
    measured = {one.figure.measure for one in figures}
    latency_bound = [measure.name for measure in suite.measures if measure.is_latency_bound]
    costs = [cost.name for cost in suite.costs]
    comparisons = decide_comparisons(figures, latency_bound=latency_bound, costs=costs)
    differences = decide_differences(figures, latency_bound=latency_bound)
    arms = {one.arm for one in figures}
    return PathsRun(
        run_id=run_id,
        suite=suite.name,
        lab=lab,
        host=plan.host,
        scale=plan.scale_name,
        seed=plan.seed,
        rounds=plan.rounds,
        started_at_s=times_s[0],
        ended_at_s=times_s[1],
        order=plan.order,
        measures=tuple(one for one in suite.all_measures if one.name in measured),
        arms=tuple(
            arm.model_copy(update={"detail": rounds.details.get(arm.name, "")})
            for arm in describe_arms(plan)
            if arm.name in arms
        ),
        samples=describe_samples(figures),
        results=decide_results(figures),
        comparisons=comparisons,
        differences=differences,
        targets=decide_targets(
            suite.targets,
            comparisons,
            differences,
            judged_from_rounds=plan.scale.judged_from_rounds,
        ),
        environment=(),
    )
