"""fio on a host, in a container of its own: its CPU time is then counted, whatever it starts.

fio's own figures would not do: with its rbd engine it counts one thread, and leaves out those of
librbd, which do the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.paths.cpu import CpuReading, CpuWatch, cpu_used_us, osd_cpu_used_us
from grampus.bench.paths.fio_job import (
    FileTarget,
    RbdTarget,
    Region,
    Timing,
    fio_argv,
    render_fill,
    render_measures,
)
from grampus.bench.paths.fio_output import FioPoint, describe_fio_failure, parse_fio
from grampus.bench.paths.suite import Measure
from grampus.core.clock import Clock
from grampus.hosts.port import Bind, DaemonSpec, Host

LOAD_DAEMON = "bench-load"
# A way this slow is not worth waiting for: a job that runs for a second has hung.
TIMEOUT_EXTRA_S = 60.0
TIMEOUT_A_JOB_S = 15.0
FILL_BYTES_PER_S = 4 * 1024 * 1024
# A hundred 4K writes a second.
BURST_BYTES_PER_S = 400 * 1024


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

    def fill(self, target: RbdTarget | FileTarget, region: Region, *, name: str) -> None:
        """Write the region once, and flush. Raises FioError, GrampusError on a time-out."""
        timeout_s = TIMEOUT_EXTRA_S + region.size_bytes / FILL_BYTES_PER_S
        self._run(target, render_fill(target, region), name=name, timeout_s=timeout_s)

    def measure(
        self,
        target: RbdTarget | FileTarget,
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
        if there is one. The CPU time of the OSDs on `osd_hosts` is counted too. Raises FioError,
        GrampusError on a time-out.
        """
        job = render_measures(target, region, measures, timing, seed=seed)
        timeout_s = decide_timeout_s(measures, timing)
        with CpuWatch(self._host, self._clock, osd_hosts=osd_hosts) as watch:
            points = self._run(target, job, name=name, timeout_s=timeout_s)
        daemons = (LOAD_DAEMON,) if daemon is None else (LOAD_DAEMON, daemon)
        return [
            decide_figure(measure, points[measure.name], watch.readings, daemons)
            for measure in measures
        ]

    def _run(
        self, target: RbdTarget | FileTarget, job: str, *, name: str, timeout_s: float
    ) -> dict[str, FioPoint]:
        job_file = self._directory / f"{name}.fio"
        self._host.write_file(job_file, job)
        result = self._host.run(
            fio_argv(target, job_file), timeout_s=timeout_s, check=False, daemon=LOAD_DAEMON
        )
        self._raw_dir.mkdir(parents=True, exist_ok=True)
        (self._raw_dir / f"{name}.fio").write_text(job, encoding="utf-8")
        (self._raw_dir / f"{name}.json").write_text(result.stdout, encoding="utf-8")
        if result.returncode != 0:
            raise describe_fio_failure(name, result.returncode, result.stdout, result.stderr)
        return parse_fio(result.stdout, what=name)


def decide_timeout_s(measures: Sequence[Measure], timing: Timing) -> float:
    """When fio is taken to have hung."""
    seconds = TIMEOUT_EXTRA_S + TIMEOUT_A_JOB_S * len(measures)
    for measure in measures:
        seconds += 2 * (timing.runtime_of(measure) or 0) / 1000
        seconds += (measure.total_bytes or 0) / BURST_BYTES_PER_S
    return seconds


def decide_figure(
    measure: Measure,
    point: FioPoint,
    readings: Sequence[CpuReading],
    daemons: Sequence[str],
) -> Figure:
    """The figure of one fio job, with the CPU time that the daemons used while it was measured."""
    end_s = point.started_at_s + point.runtime_s
    cpu_us = cpu_used_us(readings, daemons, point.started_at_s, end_s)
    osd_cpu_us = osd_cpu_used_us(readings, point.started_at_s, end_s)
    average_us = point.latency.average_us or 0.0
    if measure.fsync:
        average_us += point.flush.average_us or 0.0
    return Figure(
        measure=measure.name,
        started_at_s=point.started_at_s,
        measured_s=point.runtime_s,
        operations=point.operations,
        throughput=point.iops if measure.unit == "iops" else point.bytes_per_s,
        latency_avg_us=average_us,
        cpu_us_per_operation=None if cpu_us is None else cpu_us / point.operations,
        latency=point.latency,
        flush=point.flush,
        osd_cpu_us_per_operation=None if osd_cpu_us is None else osd_cpu_us / point.operations,
    )
