"""fio's command lines and job files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.bench.paths.suite import Measure

# rbd's own way is the ceiling that all others are held against, so it gets the allocator that
# librbd is fastest with.
ALLOCATOR = "libtcmalloc.so.4"


@dataclass(frozen=True)
class RbdTarget:
    """An image, through fio's own rbd engine."""

    pool: str
    image: str
    user: str  # without "client."
    conf: PurePosixPath


@dataclass(frozen=True)
class FileTarget:
    """A file or a block device, through libaio with direct I/O."""

    path: PurePosixPath


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


def render_measures(
    target: RbdTarget | FileTarget,
    region: Region,
    measures: Iterable[Measure],
    timing: Timing,
    *,
    seed: int,
) -> str:
    """A job file: one job a measure, named after it, each after the one before has ended.

    `seed` decides the offsets: the same for all that are compared.
    """
    lines = [
        *_head(target, region),
        "time_based=1",
        f"ramp_time={timing.ramp_ms}ms",
        # No map of blocks already touched: each I/O picks its block anew, so that no arm slows
        # down while it looks for one that is left.
        "norandommap=1",
        "randrepeat=0",
        f"randseed={seed}",
    ]
    for measure in measures:
        lines += [
            f"[{measure.name}]",
            "stonewall",
            f"rw={measure.pattern}",
            f"bs={measure.block_bytes}",
            f"iodepth={measure.depth}",
        ]
        runtime_ms = timing.runtime_of(measure)
        if runtime_ms is not None:
            lines.append(f"runtime={runtime_ms}ms")
        else:
            lines += ["time_based=0", "ramp_time=0", f"io_size={measure.total_bytes}"]
        if measure.zipf is not None:
            lines.append(f"random_distribution=zipf:{measure.zipf:g}")
        if measure.fsync:
            lines.append("fsync=1")
    return "\n".join([*lines, ""])


def render_fill(target: RbdTarget | FileTarget, region: Region) -> str:
    """A job file that writes the region once, so that later reads find data."""
    lines = [
        *_head(target, region),
        "[fill]",
        "rw=write",
        "bs=1048576",
        "iodepth=16",
        "end_fsync=1",
    ]
    return "\n".join([*lines, ""])


def fio_argv(target: RbdTarget | FileTarget, job_file: PurePosixPath) -> list[str]:
    """The command that runs a job file and prints full latency histograms."""
    command = ["fio", "--output-format=json+", str(job_file)]
    if isinstance(target, RbdTarget):
        return ["env", f"CEPH_CONF={target.conf}", f"LD_PRELOAD={ALLOCATOR}", *command]
    return command


def render_ceph_conf(conf: str, *, keyring: PurePosixPath, settings: Iterable[str]) -> str:
    """The cluster's ceph.conf with a section for fio's client.

    `settings` are options as `name=value`, the same that volumed gives librbd.
    """
    own = [f"keyring = {keyring}", *(" = ".join(one.split("=", 1)) for one in settings)]
    return "\n".join([conf.rstrip(), "", "[client]", *own, ""])


def _head(target: RbdTarget | FileTarget, region: Region) -> list[str]:
    lines = ["[global]"]
    if isinstance(target, RbdTarget):
        lines += [
            "ioengine=rbd",
            f"clientname={target.user}",
            f"pool={target.pool}",
            f"rbdname={target.image}",
        ]
    else:
        lines += ["ioengine=libaio", f"filename={target.path}", "direct=1"]
    return [
        *lines,
        f"offset={region.offset_bytes}",
        f"size={region.size_bytes}",
        # Histograms of the whole latency, submission included: on a FUSE file that is a part of
        # the way.
        "lat_percentiles=1",
        "clat_percentiles=0",
    ]
