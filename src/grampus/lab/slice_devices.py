"""The block devices on a host that a slice of an emulated device is, and where it is limited.

A limit of the kernel counts what is submitted to a device, before neighbours are merged. On a hard
disk a run of small writes side by side is one movement of its arm, and BlueStore submits it as four
and more. So a hard disk is two loop devices, one over the other: the OSD opens the upper one, whose
queue merges, and what arrives at the lower one, on the account of whoever wrote, is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.hosts.loop_devices import (
    FilePart,
    ensure_loop_device,
    ensure_loop_device_absent,
    find_loop_device,
)
from grampus.hosts.media import DeviceMediaName, block_limit
from grampus.hosts.port import BlockLimit, Host
from grampus.lab.osd_plans import DeviceSlice

_SET = 'echo "$2" > "$1"'


@dataclass(frozen=True)
class SliceDevice:
    """What an OSD opens, and the device below it that has the limits: the same unless it merges."""

    device: str
    medium: str


def ensure_slice_device(
    host: Host, directory: PurePosixPath, part: DeviceSlice, reference: str
) -> SliceDevice:
    """The devices of `part`, whose file is in `directory`, set up if need be."""
    file = directory / part.file
    host.run(["truncate", "--size", str(part.device_bytes), str(file)])
    whole = part.shared_by == 1
    medium = ensure_loop_device(
        host,
        file,
        reference=reference,
        part=None if whole else FilePart(part.offset_bytes, part.size_bytes),
    )
    device = medium
    if _merges(part.media):
        device = ensure_loop_device(
            host, PurePosixPath(medium), reference=queue_reference(reference)
        )
    # What Ceph goes by: on a disk that rotates small writes are deferred to the WAL, and so on.
    # A loop device says what the machine's own disk says, whenever it is set up.
    setting = f"/sys/block/{PurePosixPath(device).name}/queue/rotational"
    host.run(["sh", "-c", _SET, "sh", setting, "1" if part.media == "hdd" else "0"])
    return SliceDevice(device, medium)


def find_slice_device(
    host: Host, directory: PurePosixPath, part: DeviceSlice, reference: str
) -> SliceDevice | None:
    """The devices of `part`, or None unless all of them are there."""
    medium = find_loop_device(host, reference, file=directory / part.file)
    if medium is None or not _merges(part.media):
        return None if medium is None else SliceDevice(medium, medium)
    device = find_loop_device(host, queue_reference(reference), file=PurePosixPath(medium))
    return None if device is None else SliceDevice(device, medium)


def ensure_slice_devices_absent(
    host: Host, directory: PurePosixPath, parts: Sequence[tuple[DeviceSlice, str]]
) -> None:
    """None of those of `parts`, with their references, is left. Who used them must have ended.

    Slices of one file go together: the device of one is found by the file that is another's too.
    """
    for part, reference in parts:
        medium = find_loop_device(host, reference, file=directory / part.file)
        if medium is not None and _merges(part.media):
            queue = queue_reference(reference)
            ensure_loop_device_absent(host, PurePosixPath(medium), reference=queue)
    for part, reference in parts:
        ensure_loop_device_absent(host, directory / part.file, reference=reference)


def decide_limit(part: DeviceSlice, found: SliceDevice) -> BlockLimit:
    """The limit of the medium of `part`."""
    return block_limit(part.media, found.medium, shared_by=part.shared_by)


def queue_reference(reference: str) -> str:
    """What marks the upper device of two, whose lower one is marked by `reference`."""
    return f"{reference}-queue"


def lifted(limit: BlockLimit) -> BlockLimit:
    """No limit on the same device."""
    return BlockLimit(limit.device)


def _merges(media: DeviceMediaName) -> bool:
    return media == "hdd"
