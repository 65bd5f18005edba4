"""Media of the lab's OSDs: limits on block devices, and for a hard disk the time of each request.

Round figures of one device of each class, from data sheets of 2018 (Optane) and 2023 to 2025: a
read-intensive NVMe drive behaves as no limit at all on a lab of this size; so does Optane, whose
short latency no limit can show; a SATA SSD; a 7,200 rpm disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from grampus.core.units import MIB
from grampus.hosts.port import BlockLimit

# What data lie on, and what WAL and DB (or a journal) may lie on beside them.
MediaName = Literal["nvme", "ssd", "hdd"]
WalDbMediaName = Literal["ssd", "nvme", "optane"]
DeviceMediaName = Literal[MediaName, WalDbMediaName]
MEDIA: tuple[MediaName, ...] = get_args(MediaName)
WAL_DB_MEDIA: tuple[WalDbMediaName, ...] = get_args(WalDbMediaName)


@dataclass(frozen=True)
class DiskModel:
    """A disk with one arm, which serves one request at a time, in the order of the disk.

    A request takes `command_us`, `position_us` more unless it begins where the last one ended or a
    short way ahead, and the time of its bytes. Nothing is cached: what is answered is on the disk.
    """

    position_us: int
    command_us: int
    bytes_per_s: int

    def render(self) -> str:
        """As volumed takes it."""
        return f"{self.position_us},{self.command_us},{self.bytes_per_s}"

    def service_s(self, length_bytes: int, *, is_elsewhere: bool) -> float:
        """What one request takes."""
        fixed_us = self.command_us + (self.position_us if is_elsewhere else 0)
        return fixed_us / 1e6 + length_bytes / self.bytes_per_s


# 150 requests of 4 KiB a second here and there, as one of 7,200 rpm does that moves its arm in
# 2.5 ms on average and then waits for half a turn (4.2 ms); 200 MiB/s where it need not move.
HARD_DISK = DiskModel(position_us=6550, command_us=100, bytes_per_s=200 * MIB)


def disk_model(media: DeviceMediaName) -> DiskModel | None:
    """How slow a device of class `media` is, where limits alone do not say it."""
    return HARD_DISK if media == "hdd" else None


def block_limit(media: DeviceMediaName, device: str, *, shared_by: int = 1) -> BlockLimit:
    """The limits of one device of class `media`, or of one of the equal shares in it.

    A device that `disk_model` tells of has none.
    """
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
            return BlockLimit(device)


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
