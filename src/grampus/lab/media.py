"""Media of the lab's OSDs, as limits on their block devices.

Round figures of one device of each class, from data sheets of 2023 to 2025: a read-intensive
NVMe drive behaves as no limit at all on a lab of this size; a SATA SSD; a 7,200 rpm disk
(random IOPS; its sequential speed is capped by bytes a second).
"""

from __future__ import annotations

from grampus.core.units import MIB
from grampus.hosts.port import BlockLimit
from grampus.lab.model import MediaName


def block_limit(media: MediaName, device: str) -> BlockLimit:
    """The limits of one device of class `media`."""
    match media:
        case "nvme":
            return BlockLimit(device, read_iops=500_000, write_iops=150_000)
        case "ssd":
            return BlockLimit(
                device,
                read_iops=75_000,
                write_iops=25_000,
                read_bytes_per_s=530 * MIB,
                write_bytes_per_s=480 * MIB,
            )
        case "hdd":
            return BlockLimit(
                device,
                read_iops=150,
                write_iops=150,
                read_bytes_per_s=200 * MIB,
                write_bytes_per_s=200 * MIB,
            )
