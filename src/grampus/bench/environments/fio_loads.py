"""fio as the load generator of a trial: on files of attached volumes, or on images by librbd.

Its own ramp warms up, its histograms are whole, and a job that reads and writes counts both as one.
It knows rates (`rate_iops`) and no open loop: a latency begins when an I/O is sent, not when it was
due. So a cell of it has no rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.bench.drivers.fio_command import (
    Device,
    FioJob,
    FioLoad,
    FioPattern,
    RbdEngine,
    fio_argv,
    iops_logs,
    render_fio_jobs,
)
from grampus.bench.drivers.fio_result import parse_fio_jobs
from grampus.bench.drivers.outcome import DriverFailure, DriverOutput, DriverResult
from grampus.bench.environments.clients import ClientEnd, ClientLoad
from grampus.bench.environments.measuring import TrialLoad
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.workloads import WorkloadName
from grampus.hosts.port import Host

JOB = "load"
JOB_FILE = "load.fio"
SEED = 1
DEFAULT_BLOCK_BYTES = 4096


@dataclass(frozen=True)
class FioAccess:
    """What fio does for a workload; `read_percent` is for patterns that read and write."""

    pattern: FioPattern
    read_percent: int | None = None


# Without the word `rbd` on attached volumes, with it on images.
ACCESSES: Mapping[WorkloadName, FioAccess] = {
    "fio-write": FioAccess("write"),
    "fio-read": FioAccess("read"),
    "fio-randwrite": FioAccess("randwrite"),
    "fio-randread": FioAccess("randread"),
    "fio-mix-70-30": FioAccess("randrw", 70),
    "fio-rbd-write": FioAccess("write"),
    "fio-rbd-read": FioAccess("read"),
    "fio-rbd-randwrite": FioAccess("randwrite"),
    "fio-rbd-randread": FioAccess("randread"),
    "fio-rbd-mix-70-30": FioAccess("randrw", 70),
}


@dataclass(frozen=True)
class FioMember:
    """One fio of a load: where it runs, on what, and its directory there, which it has alone."""

    host: Host
    target: Device | RbdEngine
    directory: PurePosixPath


def make_fio_load(
    cell: Cell,
    members: Mapping[str, FioMember],
    *,
    warmup_s: int,
    volumes: tuple[str, ...] = (),
) -> TrialLoad:
    """The cell's load by one fio a member. `volumes` are the attached volumes that it is on."""
    point = cell.point
    block_bytes = cell.block_bytes or DEFAULT_BLOCK_BYTES
    access = ACCESSES[point.workload]
    job = FioJob(
        JOB, access.pattern, block_bytes, depth=point.threads, read_percent=access.read_percent
    )

    def fio(member: FioMember, runtime_s: int) -> FioLoad:
        return FioLoad(
            target=member.target,
            offset_bytes=0,
            size_bytes=cell.dataset_bytes,
            jobs=(job,),
            runtime_ms=1000 * runtime_s,
            ramp_ms=1000 * warmup_s,
            at_once=True,
            seed=SEED,
            log_prefix=member.directory / "log",
        )

    def loads(duration_s: int) -> list[ClientLoad]:
        made = []
        for label, member in members.items():
            load = fio(member, duration_s)
            # The logs of the trial before would be taken for this one's.
            member.host.run(["rm", "-rf", "--", str(member.directory)])
            job_file = member.directory / JOB_FILE
            member.host.write_file(job_file, render_fio_jobs(load))
            made.append(ClientLoad(label, member.host, fio_argv(load, job_file), _unknown))
        return made

    def read(end: ClientEnd) -> tuple[DriverResult | DriverFailure, float]:
        member = members[end.name]
        logs = {
            name: [text for path in paths if (text := member.host.read_file(path)) is not None]
            for name, paths in iops_logs(fio(member, 1)).items()
        }
        return read_fio(end.output, logs, end.began_at_s)

    return TrialLoad(
        clients=loads,
        read=read,
        loop="closed",
        threads=point.threads,
        client_count=len(members),
        warms_up=False,
        volumes=volumes,
        bytes_per_operation=block_bytes,
    )


def read_fio(
    output: DriverOutput, logs: dict[str, list[str]], began_at_s: float
) -> tuple[DriverResult | DriverFailure, float]:
    """The result of the one job, and when it began to count: after its ramp."""
    found = parse_fio_jobs(output, logs)
    if isinstance(found, DriverFailure):
        return found, began_at_s
    result = found[JOB]
    if isinstance(result, DriverFailure) or result.started_at_s is None:
        return result, began_at_s
    return result, result.started_at_s


def _unknown(_line: str, _at_s: float) -> float | None:
    """fio's document says when it began."""
    return None
