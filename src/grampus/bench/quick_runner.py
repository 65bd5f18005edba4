"""One run of a suite: data, arms in turn, monitors, and the archive.

However a run ends, no sysbench and no scratch instance is left running, and the client files
with their passwords are gone. A run that does not finish keeps its raw data, without run.json.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grampus.bench.calm import wait_until_calm
from grampus.bench.client import ArmClient, ensure_client_files, ensure_client_files_absent
from grampus.bench.dataset import ARM_TITLES, ensure_datasets
from grampus.bench.drivers.outcome import Second
from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.machine_facts import (
    decide_facts,
    describe_database,
    describe_plan,
    describe_server_settings,
    observe_busy_cores,
    observe_machine,
    observe_server_settings,
)
from grampus.bench.measured_ports import DatabasePort, DevicesPort, FactsPort
from grampus.bench.quick_plan import BenchOptions, QuickCell, QuickPlan, decide_quick_plan
from grampus.bench.quick_suite import Suite
from grampus.bench.sampler import Sampler
from grampus.bench.sysbench import TimedRun, make_load, run_timed
from grampus.bench.verdicts import (
    classify_steadiness,
    coefficient_of_variation,
    decide_result_warnings,
    decide_run_warnings,
    decide_setting_warnings,
)
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.hosts.port import Fleet
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.runs import (
    ArmName,
    OltpResult,
    OltpSample,
    Run,
    RunArchive,
    Setting,
    WorkloadResult,
    append_lines,
)

# A fresh data set leaves more to write out than any workload; loading is not timed.
SETTLE_AFTER_LOAD_S = 30.0

PhaseName = Literal["warm-up", "measuring"]


@dataclass(frozen=True)
class _Context:
    """What stays the same throughout one run."""

    run_id: str
    run_dir: Path
    record: DatabaseRecord
    plan: QuickPlan
    clients: dict[ArmName, ArmClient]


class BenchRunner:
    """Runs suites against the databases of one lab or cluster."""

    def __init__(
        self,
        *,
        home: Home,
        lab: str,
        fleet: Fleet,
        databases: DatabasePort,
        devices: DevicesPort,
        facts: FactsPort,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._home = home
        self._lab = lab
        self._fleet = fleet
        self._databases = databases
        self._devices = devices
        self._facts = facts
        self._clock = clock
        self._progress = progress
        self._archive = RunArchive(home.runs_dir)

    def plan(self, suite: Suite, database: str, options: BenchOptions) -> QuickPlan:
        """What `run` would do. Raises NotFoundError, UsageError, RefusedError."""
        record = self._databases.get(database)
        return decide_quick_plan(
            suite,
            buffer_pool_bytes=record.buffer_pool_bytes,
            volume_size_bytes=record.spec.size_bytes,
            options=options,
        )

    def run(self, suite: Suite, database: str, options: BenchOptions) -> Run:
        """Carry out `suite` against `database` and archive the run.

        Raises NotFoundError, UsageError, RefusedError (nothing measured, nothing changed but a
        started scratch instance that is stopped again) and DriverError.
        """
        plan = self.plan(suite, database, options)
        record = self._databases.get(database)
        # Two runs at the same time would measure each other.
        with hold_lock(self._home, "bench", self._clock, timeout_s=0), ExitStack() as ends:
            started_at_s = self._clock.now().timestamp()
            self._progress.phase("Prepare")
            endpoint = self._databases.endpoint(database)
            busy_before, cores = observe_busy_cores(self._fleet.host(endpoint.host), self._clock)
            machine = observe_machine(self._fleet.host(endpoint.host))
            facts = self._facts.facts()
            ends.callback(self._databases.ensure_local_instance_absent, database)
            endpoints: dict[ArmName, Endpoint] = {
                "ceph": endpoint,
                "local": self._databases.ensure_local_instance(database),
            }
            context = self._begin(suite, record, plan, endpoints, ends)
            settings = {
                arm: observe_server_settings(client) for arm, client in context.clients.items()
            }
            warnings = [
                *decide_run_warnings(
                    warmup_s=plan.warmup_s,
                    measure_s=plan.measure_s,
                    dataset_bytes=plan.dataset_bytes,
                    buffer_pool_bytes=record.buffer_pool_bytes,
                    busy_cores_before=busy_before,
                    cores=cores,
                ),
                *decide_setting_warnings(settings["ceph"], settings["local"]),
            ]
            environment = decide_facts(
                facts,
                machine,
                describe_database(record),
                describe_plan(plan),
                describe_server_settings(settings["ceph"]),
            )
            results, waits = self._measure(context, warnings, ends)
            run = Run(
                run_id=context.run_id,
                suite=suite.name,
                lab=self._lab,
                database=database,
                flavour=record.spec.flavour,
                started_at_s=started_at_s,
                ended_at_s=self._clock.now().timestamp(),
                threads=plan.threads,
                warmup_s=plan.warmup_s,
                measure_s=plan.measure_s,
                dataset_bytes=plan.dataset_bytes,
                buffer_pool_bytes=record.buffer_pool_bytes,
                environment=decide_facts(environment, waits),
                workloads=tuple(results),
                warnings=tuple(warnings),
            )
            self._progress.phase("Save the run")
            self._archive.save(run)
            return run

    def _begin(
        self,
        suite: Suite,
        record: DatabaseRecord,
        plan: QuickPlan,
        endpoints: dict[ArmName, Endpoint],
        ends: ExitStack,
    ) -> _Context:
        now = self._clock.now()
        # The time comes first, so that runs sort by age and `latest` is the newest.
        run_id = f"{now:%Y%m%d-%H%M%S}-{suite.name}-{record.spec.name}"
        clients: dict[ArmName, ArmClient] = {}
        for arm, endpoint in endpoints.items():
            host = self._fleet.host(endpoint.host)
            directory = host.data_dir / "bench" / f"{record.spec.name}-{arm}"
            ends.callback(ensure_client_files_absent, host, directory)
            clients[arm] = ensure_client_files(host, endpoint, record.spec.flavour, directory)
        return _Context(run_id, self._archive.run_dir(run_id), record, plan, clients)

    def _measure(
        self, context: _Context, warnings: list[str], ends: ExitStack
    ) -> tuple[list[WorkloadResult], list[Setting]]:
        """Results by workload, and how long was waited before each arm; adds to `warnings`."""
        with ExitStack() as unfinished:
            unfinished.callback(self._note_unfinished, context.run_dir)
            loaded = ensure_datasets(
                context.clients,
                context.plan,
                raw_dir=context.run_dir / "raw",
                clock=self._clock,
                progress=self._progress,
            )
            sampler = Sampler(
                self._fleet,
                self._devices.io_devices(),
                machine=context.clients["ceph"].host.name,
                file=self._archive.resources_file(context.run_id),
                clock=self._clock,
            )
            ends.callback(sampler.stop)
            sampler.start()
            timed: dict[tuple[str, ArmName], TimedRun] = {}
            waits: list[Setting] = []
            settle_s = SETTLE_AFTER_LOAD_S if loaded else context.plan.settle_max_s
            for cell in context.plan.cells:
                waits.append(self._settle(context, cell, settle_s, warnings))
                timed[cell.workload.name, cell.arm] = self._run_cell(context, cell)
                settle_s = context.plan.settle_max_s
            sampler.stop()
            warnings += sampler.warnings()
            results = _collect_results(context.plan, timed, warnings)
            unfinished.pop_all()
        return results, waits

    def _settle(
        self, context: _Context, cell: QuickCell, max_s: float, warnings: list[str]
    ) -> Setting:
        where = f"{cell.workload.name} on {ARM_TITLES[cell.arm]}"
        self._progress.phase(f"{where}: waiting for calm")
        daemons = [
            (client.endpoint.host, client.endpoint.daemon) for client in context.clients.values()
        ]
        settled = wait_until_calm(self._fleet, daemons, clock=self._clock, max_s=max_s)
        if max_s > 0 and not settled.calm:
            warnings.append(
                f"{where} began while an instance was still writing out older changes, after "
                f"{settled.waited_s:.0f} s of waiting."
            )
        return Setting(group="waited before", name=where, value=f"{settled.waited_s:.1f} s")

    def _run_cell(self, context: _Context, cell: QuickCell) -> TimedRun:
        plan = context.plan
        if plan.warmup_s:
            self._run_phase(context, cell, "warm-up", plan.warmup_s)
        return self._run_phase(context, cell, "measuring", plan.measure_s)

    def _run_phase(
        self, context: _Context, cell: QuickCell, phase: PhaseName, duration_s: int
    ) -> TimedRun:
        where = f"{cell.workload.name} on {ARM_TITLES[cell.arm]}"
        client = context.clients[cell.arm]
        samples_file = self._archive.samples_file(context.run_id, cell.workload.name, cell.arm)

        def keep(at_s: float, second: Second) -> None:
            sample = OltpSample(
                at_s=at_s,
                tps=second.operations_per_s,
                qps=(second.queries or 0.0) / second.duration_s,
                latency_p99_ms=second.latency_p99_ms or 0.0,
                errors_per_s=second.errors / second.duration_s,
            )
            append_lines(samples_file, [sample])
            self._progress.detail(
                f"{sample.tps:,.0f} TPS, p99 {sample.latency_p99_ms:.1f} ms",
                fraction=min(second.ended_s / duration_s, 1.0),
            )

        self._progress.phase(f"{where}: {phase}")
        return run_timed(
            client,
            make_load(client, context.plan, script=cell.workload.script, duration_s=duration_s),
            what=f"{phase} of {where}",
            raw_file=context.run_dir / "raw" / f"{cell.workload.name}.{cell.arm}.{phase}.txt",
            clock=self._clock,
            on_second=keep,
        )

    def _note_unfinished(self, run_dir: Path) -> None:
        if run_dir.exists():
            self._progress.note(f"The run did not finish; what it kept is in {run_dir}.")


def _collect_results(
    plan: QuickPlan, timed: dict[tuple[str, ArmName], TimedRun], warnings: list[str]
) -> list[WorkloadResult]:
    results = []
    # Each workload is in two cells; a dict keeps the first place of each.
    for workload in {cell.workload.name: cell.workload for cell in plan.cells}.values():
        runs = {arm: timed[workload.name, arm] for arm in ARM_TITLES}
        result = WorkloadResult(
            name=workload.name,
            title=workload.title,
            ceph=_result_of(runs["ceph"]),
            local=_result_of(runs["local"]),
        )
        results.append(result)
        for arm, run in runs.items():
            unsteady = classify_steadiness(
                [second.operations_per_s for second in run.result.seconds],
                what=f"{workload.name} on {ARM_TITLES[arm]}",
            )
            if unsteady is not None:
                warnings.append(unsteady)
        warnings += decide_result_warnings(
            result, reconnects={arm: run.result.reconnects for arm, run in runs.items()}
        )
    return results


def _result_of(run: TimedRun) -> OltpResult:
    result = run.result
    return OltpResult(
        tps=result.operations_per_s,
        qps=(result.queries or 0) / result.elapsed_s,
        latency_avg_ms=(result.latency.average_us or 0.0) / 1000,
        latency_p99_ms=_percentile_ms(result.latency, 99),
        latency_max_ms=_percentile_ms(result.latency, 100),
        transactions=result.operations,
        errors=result.errors,
        measured_s=result.elapsed_s,
        started_at_s=run.started_at_s,
        ended_at_s=run.ended_at_s,
        tps_cov=coefficient_of_variation([second.operations_per_s for second in result.seconds]),
    )


def _percentile_ms(latency: LatencyHistogram, percent: float) -> float:
    """The middle of its bounds; where they are wide apart, the upper one."""
    found = latency.percentile(percent)
    if found is None:
        return 0.0
    document = found.to_document()
    return (document["latency_us"] or document["high_us"]) / 1000
