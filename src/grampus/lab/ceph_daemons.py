"""The cluster's daemons as they run in a lab: what each is started with."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.core.units import GIB, MIB
from grampus.hosts.port import Bind, BlockLimit, DaemonSpec, Limits

OSD_MEMORY_TARGET_BYTES = 1 * GIB
# The target is no limit: an OSD needs room above it while it recovers.
OSD_MEMORY_LIMIT_BYTES = 2 * GIB
MON_MEMORY_LIMIT_BYTES = 1 * GIB
MGR_MEMORY_LIMIT_BYTES = 1 * GIB
_FOREGROUND = ("--foreground", "--setuser", "root", "--setgroup", "root")


def mon_daemon(host: str) -> str:
    """The name of the MON daemon of a host (its cluster name is the host's)."""
    return f"mon-{host}"


def mgr_daemon(host: str) -> str:
    return f"mgr-{host}"


def osd_daemon(osd_id: int) -> str:
    return f"osd-{osd_id}"


def mon_spec(host: str, address: str, data_dir: PurePosixPath, cpus: float) -> DaemonSpec:
    """The MON of `host`, at `address`."""
    return DaemonSpec(
        name=mon_daemon(host),
        argv=("ceph-mon", *_FOREGROUND, "--id", host, "--public-addr", address),
        binds=_binds(data_dir),
        env=_environment(),
        limits=Limits(cpus=cpus, memory_bytes=MON_MEMORY_LIMIT_BYTES),
    )


def mgr_spec(host: str, data_dir: PurePosixPath, cpus: float) -> DaemonSpec:
    """The MGR of `host`."""
    return DaemonSpec(
        name=mgr_daemon(host),
        argv=("ceph-mgr", *_FOREGROUND, "--id", host),
        binds=_binds(data_dir),
        env=_environment(),
        limits=Limits(cpus=cpus, memory_bytes=MGR_MEMORY_LIMIT_BYTES),
    )


def osd_spec(
    osd_id: int,
    devices: tuple[str, ...],
    blocks: tuple[BlockLimit, ...],
    data_dir: PurePosixPath,
    *,
    cpus: float,
    thread_cache_mib: int,
    memory_target_mib: int | None = None,
    arguments: tuple[str, ...] = (),
    binds: tuple[Bind, ...] = (),
) -> DaemonSpec:
    """The OSD with that id, on block devices; `blocks` limit them as media.

    `memory_target_mib` raises or lowers its `osd_memory_target` and its limit of memory alike;
    None: the cluster's.
    """
    target_bytes = OSD_MEMORY_TARGET_BYTES
    if memory_target_mib is not None:
        target_bytes = memory_target_mib * MIB
        arguments = (*arguments, "--osd-memory-target", str(target_bytes))
    limit_bytes = OSD_MEMORY_LIMIT_BYTES + target_bytes - OSD_MEMORY_TARGET_BYTES
    return DaemonSpec(
        name=osd_daemon(osd_id),
        argv=("ceph-osd", *_FOREGROUND, "--id", str(osd_id), *arguments),
        binds=(*_binds(data_dir), *binds),
        env={
            **_environment(),
            "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": str(thread_cache_mib * MIB),
        },
        devices=devices,
        limits=Limits(cpus=cpus, memory_bytes=limit_bytes, block=blocks),
    )


def _binds(data_dir: PurePosixPath) -> tuple[Bind, ...]:
    return (
        Bind(str(data_dir / "etc-ceph"), "/etc/ceph", read_only=True),
        Bind(str(data_dir / "var-lib-ceph"), "/var/lib/ceph"),
        Bind(str(data_dir / "run-ceph"), "/run/ceph"),
    )


def _environment() -> dict[str, str]:
    # Every daemon is process 1 in its container: without this, nonces would repeat.
    return {"CEPH_USE_RANDOM_NONCE": "1"}
