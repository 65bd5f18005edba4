"""fio on a host, in a container of its own: its CPU time is then counted, whatever it starts.

fio's own figures would not do: with its rbd engine it counts one thread, and leaves out those of
librbd, which do the work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grampus.bench.drivers.fio_command import (
    Device,
    FioJob,
    FioLoad,
    RbdEngine,
    fio_argv,
    render_fio_jobs,
)
from grampus.bench.drivers.fio_result import parse_fio_jobs
from grampus.bench.drivers.outcome import (
    DriverFailure,
    DriverOutput,
    DriverResult,
    require_result,
)
from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.paths.cpu import CpuReading, CpuWatch, cpu_used_us, osd_cpu_used_us
from grampus.bench.paths.suite import Measure
from grampus.core.clock import Clock
from grampus.core.units import MIB
from grampus.hosts.port import Bind, DaemonSpec, Host

LOAD_DAEMON = "bench-load"
# A way this slow is not worth waiting for: a job that runs for a second has hung.
TIMEOUT_EXTRA_S = 60.0
TIMEOUT_A_JOB_S = 15.0
FILL_BYTES_PER_S = 4 * 1024 * 1024
# A hundred 4K writes a second.
BURST_BYTES_PER_S = 400 * 1024


@dataclass(frozen=True)
class Region:
    """What fio may read and write of its target."""

    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class Timing:
    """How long each job runs; `ramp_ms` before it are not counted.

    `sustained_ms` is for those measures that say so.
    """

    runtime_ms: int
    ramp_ms: int
    sustained_ms: int = 0

    def runtime_of(self, measure: Measure) -> int | None:
        """How long the measure's job runs, in ms; None: until it has written its bytes."""
        if measure.total_bytes is not None:
            return None
        if measure.sustained:
            return self.sustained_ms
        return round(self.runtime_ms * measure.time_factor)


@dataclass(frozen=True)
class Figure:
    """One measure on one arm in one round. An operation is an I/O, with its flush if it has one.

    The last two are what the cluster spent on one operation, as far as it was watched. The figure
    of a cost has such a number as its `throughput`, and no latency.
    """

    measure: str
    started_at_s: float
    measured_s: float
    operations: int
    throughput: float  # in the measure's unit
    latency_avg_us: float | None
    cpu_us_per_operation: float | None
    latency: LatencyHistogram
    flush: LatencyHistogram
    osd_cpu_us_per_operation: float | None = None
    rados_writes_per_operation: float | None = None


class LoadGenerator:
    """Runs fio; `directory` on the host holds its job files, `raw_dir` here what it printed."""

    def __init__(
        self, host: Host, clock: Clock, *, directory: PurePosixPath, raw_dir: Path
    ) -> None:
        self._host = host
        self._clock = clock
        self._directory = directory
        self._raw_dir = raw_dir

    def ensure_running(self) -> None:
        """Start the container that fio runs in."""
        data = str(self._host.data_dir)
        self._host.ensure_daemon(
            DaemonSpec(
                name=LOAD_DAEMON,
                argv=("tini", "--", "sleep", "infinity"),
                # Shared: a mount made later must appear, and one that goes must go here too.
                binds=(Bind(data, data, shared=True),),
                privileged=True,
            )
        )

    def ensure_absent(self) -> None:
        """End the container, and with it every fio."""
        self._host.ensure_daemon_absent(LOAD_DAEMON, kill=True)

    def fill(self, target: RbdEngine | Device, region: Region, *, name: str) -> None:
        """Write the region once, and flush. Raises DriverError, GrampusError on a time-out."""
        fill = FioJob(
            "fill", "write", MIB, depth=16, flushes_at_end=True, total_bytes=region.size_bytes
        )
        timeout_s = TIMEOUT_EXTRA_S + region.size_bytes / FILL_BYTES_PER_S
        self._run(decide_fio_load(target, region, [fill], timeout_s=timeout_s), name=name)

    def measure(
        self,
        target: RbdEngine | Device,
        region: Region,
        measures: Sequence[Measure],
        timing: Timing,
        *,
        seed: int,
        name: str,
        daemon: str | None,
        osd_hosts: Sequence[Host] = (),
    ) -> list[Figure]:
        """The figures of `measures`, one after the other, in that order.

        `name` is that of the raw file. `daemon` is the one whose CPU time belongs to the target,
        if there is one. The CPU time of the OSDs on `osd_hosts` is counted too. Raises DriverError,
        GrampusError on a time-out.
        """
        load = decide_fio_load(
            target,
            region,
            [decide_job(measure, timing, target) for measure in measures],
            ramp_ms=timing.ramp_ms,
            seed=seed,
            timeout_s=decide_timeout_s(measures, timing),
        )
        with CpuWatch(self._host, self._clock, osd_hosts=osd_hosts) as watch:
            results = self._run(load, name=name)
        daemons = (LOAD_DAEMON,) if daemon is None else (LOAD_DAEMON, daemon)
        return [
            decide_figure(measure, results[measure.name], watch.readings, daemons)
            for measure in measures
        ]

    def _run(self, load: FioLoad, *, name: str) -> dict[str, DriverResult]:
        job_file = self._directory / f"{name}.fio"
        job = render_fio_jobs(load)
        self._host.write_file(job_file, job)
        ended = self._host.run(
            fio_argv(load, job_file),
            timeout_s=(load.timeout_s or 0) + TIMEOUT_EXTRA_S,
            check=False,
            daemon=LOAD_DAEMON,
        )
        self._raw_dir.mkdir(parents=True, exist_ok=True)
        (self._raw_dir / f"{name}.fio").write_text(job, encoding="utf-8")
        (self._raw_dir / f"{name}.json").write_text(ended.stdout, encoding="utf-8")
        found = parse_fio_jobs(DriverOutput(ended.stdout, ended.stderr, ended.returncode), {})
        if isinstance(found, DriverFailure):
            found = dict.fromkeys([one.name for one in load.jobs], found)
        return {
            one.name: require_result(found[one.name], "fio", during=f"{name}, job {one.name}")
            for one in load.jobs
        }


def decide_fio_load(
    target: RbdEngine | Device,
    region: Region,
    jobs: Sequence[FioJob],
    *,
    timeout_s: float,
    ramp_ms: int = 0,
    seed: int = 1,
) -> FioLoad:
    """Jobs one after the other. `seed` decides the offsets: the same for all that are compared."""
    return FioLoad(
        target=target,
        offset_bytes=region.offset_bytes,
        size_bytes=region.size_bytes,
        jobs=tuple(jobs),
        runtime_ms=0,
        ramp_ms=ramp_ms,
        at_once=False,
        seed=seed,
        timeout_s=math.ceil(timeout_s),
    )


def decide_job(measure: Measure, timing: Timing, target: RbdEngine | Device) -> FioJob:
    """The measure as fio's job, named after it. One that appends has a file beside the target."""
    new_file = None
    if measure.appends and isinstance(target, Device):
        new_file = target.path.with_name(f"{measure.name}.data")
    return FioJob(
        measure.name,
        measure.pattern,
        measure.block_bytes,
        depth=measure.depth,
        zipf=measure.zipf,
        fsync_every=1 if measure.fsync else None,
        runtime_ms=timing.runtime_of(measure),
        total_bytes=measure.total_bytes,
        new_file=new_file,
    )


def decide_timeout_s(measures: Sequence[Measure], timing: Timing) -> float:
    """When fio is taken to have hung."""
    seconds = TIMEOUT_EXTRA_S + TIMEOUT_A_JOB_S * len(measures)
    for measure in measures:
        seconds += 2 * (timing.runtime_of(measure) or 0) / 1000
        seconds += (measure.total_bytes or 0) / BURST_BYTES_PER_S
    return seconds


def decide_figure(
    measure: Measure,
    result: DriverResult,
    readings: Sequence[CpuReading],
    daemons: Sequence[str],
) -> Figure:
    """The figure of one fio job, with the CPU time that the daemons used while it was measured."""
    started_at_s = result.started_at_s or 0.0
    end_s = started_at_s + result.elapsed_s
    cpu_us = cpu_used_us(readings, daemons, started_at_s, end_s)
    osd_cpu_us = osd_cpu_used_us(readings, started_at_s, end_s)
    average_us = result.latency.average_us or 0.0
    if measure.fsync:
        average_us += result.flush.average_us or 0.0
    operations = result.operations
    return Figure(
        measure=measure.name,
        started_at_s=started_at_s,
        measured_s=result.elapsed_s,
        operations=operations,
        throughput=result.operations_per_s if measure.unit == "iops" else result.bytes_per_s,
        latency_avg_us=average_us,
        cpu_us_per_operation=None if cpu_us is None else cpu_us / operations,
        latency=result.latency,
        flush=result.flush,
        osd_cpu_us_per_operation=None if osd_cpu_us is None else osd_cpu_us / operations,
    )
