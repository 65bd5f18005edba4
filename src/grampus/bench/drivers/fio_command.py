"""fio's job files and command line, for fio 3.30 and later."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from grampus.bench.drivers.command import bounded_argv

FioPattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]
# The allocator that librbd is fastest with; fio itself is linked with another.
ALLOCATOR = "libtcmalloc.so.4"
TIMEOUT_EXTRA_S = 120


@dataclass(frozen=True)
class RbdEngine:
    """An image through fio's own rbd engine. `conf` names the keyring of `user`.

    The engine knows no namespace but the default one.
    """

    conf: PurePosixPath
    user: str  # without "client."
    pool: str
    image: str


@dataclass(frozen=True)
class Device:
    """A block device or a file, through libaio with direct I/O."""

    path: PurePosixPath


@dataclass(frozen=True)
class FioJob:
    """One job; `copies` of it run at once. `read_percent` is for the mixed patterns.

    `rate_iops` holds each copy back. It makes no open loop: fio takes a latency from when it sends
    an I/O, not from when it was due. A job with `total_bytes` ends when it has moved so many, and
    warms up nothing; another one runs for `runtime_ms`, or as long as its load says. One with a
    `new_file` creates that file, lets it grow, and removes it.
    """

    name: str
    pattern: FioPattern
    block_bytes: int
    depth: int
    copies: int = 1
    read_percent: int | None = None
    rate_iops: int | None = None
    zipf: float | None = None
    fsync_every: int | None = None
    flushes_at_end: bool = False
    runtime_ms: int | None = None
    total_bytes: int | None = None
    new_file: PurePosixPath | None = None


@dataclass(frozen=True)
class FioLoad:
    """Jobs that run one after the other, or at once, on the same region of the target.

    `log_prefix` is that of the files with each second's figures, one for each copy of each job;
    without it there are none. fio is ended after `timeout_s`; None: when it should have ended long
    ago.
    """

    target: RbdEngine | Device
    offset_bytes: int
    size_bytes: int
    jobs: tuple[FioJob, ...]
    runtime_ms: int
    ramp_ms: int
    at_once: bool
    seed: int
    log_prefix: PurePosixPath | None = None
    timeout_s: int | None = None


def render_fio_jobs(load: FioLoad) -> str:
    """The job file. Raises ValueError for two jobs of one name: their figures would be mixed."""
    names = [job.name for job in load.jobs]
    if len(set(names)) != len(names) or not names:
        raise ValueError("fio's jobs need different names")
    lines = [
        "[global]",
        *_render_target(load.target),
        f"offset={load.offset_bytes}",
        f"size={load.size_bytes}",
        "time_based=1",
        f"runtime={load.runtime_ms}ms",
        f"ramp_time={load.ramp_ms}ms",
        # Each I/O picks its block anew: no run slows down while it looks for one that is left.
        "norandommap=1",
        "randrepeat=0",
        f"randseed={load.seed}",
        # The whole latency, submission included.
        "lat_percentiles=1",
        "clat_percentiles=0",
    ]
    if load.log_prefix is not None:
        lines += [f"write_iops_log={load.log_prefix}", "log_avg_msec=1000", "log_unix_epoch=1"]
    for job in load.jobs:
        lines += _render_job(job, load.target, waits=not load.at_once)
    return "\n".join([*lines, ""])


def fio_argv(load: FioLoad, job_file: PurePosixPath) -> list[str]:
    """The command that runs the job file and prints full latency histograms."""
    timeout_s = load.timeout_s
    if timeout_s is None:
        rounds = 1 if load.at_once else len(load.jobs)
        timeout_s = rounds * -(-(load.runtime_ms + load.ramp_ms) // 1000) + TIMEOUT_EXTRA_S
    argv = ["fio", "--output-format=json+", str(job_file)]
    if isinstance(load.target, RbdEngine):
        settings = [f"CEPH_CONF={load.target.conf}", f"LD_PRELOAD={ALLOCATOR}"]
        argv = ["env", *settings, *argv]
    return bounded_argv(argv, timeout_s=timeout_s)


def iops_logs(load: FioLoad) -> dict[str, tuple[PurePosixPath, ...]]:
    """The files with each second's figures, by job. fio numbers the copies of all jobs on."""
    files: dict[str, tuple[PurePosixPath, ...]] = {}
    if load.log_prefix is None:
        return files
    number = 1
    for job in load.jobs:
        names = [f"{load.log_prefix.name}_iops.{number + n}.log" for n in range(job.copies)]
        files[job.name] = tuple(load.log_prefix.with_name(name) for name in names)
        number += job.copies
    return files


def _render_target(target: RbdEngine | Device) -> list[str]:
    if isinstance(target, Device):
        return ["ioengine=libaio", "direct=1"]
    return [
        "ioengine=rbd",
        f"clientname={target.user}",
        f"pool={target.pool}",
        f"rbdname={target.image}",
    ]


def _render_job(job: FioJob, target: RbdEngine | Device, *, waits: bool) -> list[str]:
    lines = [
        f"[{job.name}]",
        f"rw={job.pattern}",
        f"bs={job.block_bytes}",
        f"iodepth={job.depth}",
        f"numjobs={job.copies}",
    ]
    if isinstance(target, Device):
        # Not in the global section: a job that names another file would use both (fio 3.41).
        lines.append(f"filename={job.new_file or target.path}")
    if job.new_file is not None:
        lines += ["fallocate=none", "create_on_open=1", "unlink=1"]
    if waits:
        lines.append("stonewall")
    if job.read_percent is not None:
        lines.append(f"rwmixread={job.read_percent}")
    if job.rate_iops is not None:
        lines.append(f"rate_iops={job.rate_iops}")
    if job.zipf is not None:
        lines.append(f"random_distribution=zipf:{job.zipf:g}")
    if job.fsync_every is not None:
        lines.append(f"fsync={job.fsync_every}")
    if job.flushes_at_end:
        lines.append("end_fsync=1")
    if job.runtime_ms is not None:
        lines.append(f"runtime={job.runtime_ms}ms")
    if job.total_bytes is not None:
        lines += ["time_based=0", "ramp_time=0", "runtime=0", f"io_size={job.total_bytes}"]
    return lines
