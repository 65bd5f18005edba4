"""Media of the lab's OSDs, as limits on block devices (`slice_devices.py` says on which).

Round figures of one device of each class, from data sheets of 2018 (Optane) and 2023 to 2025: a
read-intensive NVMe drive behaves as no limit at all on a lab of this size; so does Optane, whose
short latency no limit can show; a SATA SSD; a 7,200 rpm disk (random IOPS; its sequential speed is
capped by bytes a second).
"""

from __future__ import annotations

from typing import Literal, get_args

from grampus.core.units import MIB
from grampus.hosts.port import BlockLimit

# What data lie on, and what WAL and DB (or a journal) may lie on beside them.
MediaName = Literal["nvme", "ssd", "hdd"]
WalDbMediaName = Literal["ssd", "nvme", "optane"]
DeviceMediaName = Literal[MediaName, WalDbMediaName]
MEDIA: tuple[MediaName, ...] = get_args(MediaName)
WAL_DB_MEDIA: tuple[WalDbMediaName, ...] = get_args(WalDbMediaName)


def block_limit(media: DeviceMediaName, device: str, *, shared_by: int = 1) -> BlockLimit:
    """The limits of one device of class `media`, or of one of the equal shares in it."""
    match media:
        case "nvme":
            return _limit(device, shared_by, read_iops=500_000, write_iops=150_000)
        case "optane":
            return _limit(device, shared_by, read_iops=550_000, write_iops=500_000)
        case "ssd":
            return _limit(
                device,
                shared_by,
                read_iops=75_000,
                write_iops=25_000,
                read_bytes_per_s=530 * MIB,
                write_bytes_per_s=480 * MIB,
            )
        case "hdd":
            return _limit(
                device,
                shared_by,
                read_iops=150,
                write_iops=150,
                read_bytes_per_s=200 * MIB,
                write_bytes_per_s=200 * MIB,
            )


def _limit(
    device: str,
    shared_by: int,
    *,
    read_iops: int,
    write_iops: int,
    read_bytes_per_s: int | None = None,
    write_bytes_per_s: int | None = None,
) -> BlockLimit:
    # Control groups of version 1 limit each group by itself, so a common limit must be divided.
    return BlockLimit(
        device,
        read_iops=max(1, read_iops // shared_by),
        write_iops=max(1, write_iops // shared_by),
        read_bytes_per_s=None if read_bytes_per_s is None else read_bytes_per_s // shared_by,
        write_bytes_per_s=None if write_bytes_per_s is None else write_bytes_per_s // shared_by,
    )
