"""Where the limits of an OSD's media are imposed: on its loop devices, or on the disk below."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.hosts.disks import observe_disk
from grampus.hosts.port import BlockLimit, Host
from grampus.lab.media import block_limit
from grampus.lab.osd_plans import DeviceSlice, OsdPlan


def observe_limits(
    host: Host, plan: OsdPlan, file: PurePosixPath, device: str, wal_db_device: str | None
) -> tuple[BlockLimit, ...]:
    """The limits of an OSD on `device`, a loop device over `file`, and on its WAL and DB device."""
    disk = observe_disk(host, file) if is_limited_below(plan) else None
    return decide_limits(plan, device, wal_db_device, disk)


def is_limited_below(plan: OsdPlan) -> bool:
    """Whether the OSD's limit shall count what the kernel has merged.

    On a hard disk that is what counts: a run of small writes side by side is one movement of its
    arm. Before it is merged BlueStore submits four times as many. Media on one disk of the
    machine, as of an OSD whose WAL and DB have a device of their own, cannot be told apart there.
    """
    return plan.data.media == "hdd" and plan.wal_db is None


def decide_limits(
    plan: OsdPlan, device: str, wal_db_device: str | None, disk: str | None
) -> tuple[BlockLimit, ...]:
    """The limits of an OSD; `disk` is what holds the file below `device`, if a disk does."""
    if disk is not None and is_limited_below(plan):
        return (_limit(plan.data, disk),)
    limits = (_limit(plan.data, device),)
    if plan.wal_db is None or wal_db_device is None:
        return limits
    return (*limits, _limit(plan.wal_db, wal_db_device))


def lifted(limit: BlockLimit) -> BlockLimit:
    """No limit on the same device."""
    return BlockLimit(limit.device)


def _limit(part: DeviceSlice, device: str) -> BlockLimit:
    return block_limit(part.media, device, shared_by=part.shared_by)
