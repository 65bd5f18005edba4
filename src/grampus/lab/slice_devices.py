"""The block devices on a host that slices of emulated devices are.

A slice is a loop device over the device's file, with limits of the kernel. A hard disk has none:
its loop device is over a file that is served as slowly as such a disk answers
(`emulated_disks.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from grampus.hosts.loop_devices import (
    FilePart,
    ensure_loop_device,
    ensure_loop_device_absent,
    find_loop_device,
)
from grampus.hosts.media import block_limit, disk_model
from grampus.hosts.port import BlockLimit, Host
from grampus.lab.osd_plans import DeviceSlice

if TYPE_CHECKING:
    from grampus.lab.emulated_disks import EmulatedDisks

_SET = 'echo "$2" > "$1"'


class SliceDevices:
    """The devices of slices, each marked by a reference. Every method can be repeated."""

    def __init__(self, disks: EmulatedDisks | None = None) -> None:
        """`disks` emulates those that need it (default: by volumed of this installation)."""
        self._given = disks

    @property
    def _disks(self) -> EmulatedDisks:
        if self._given is None:
            # Imported for hard disks alone.
            made: EmulatedDisks = import_module("grampus.lab.emulated_disks").EmulatedDisks()
            self._given = made
        return self._given

    def ensure_file(self, host: Host, directory: PurePosixPath, part: DeviceSlice) -> PurePosixPath:
        """What the devices of all slices beside `part` are over; not for two of one at a time.

        Raises GrampusError, as `EmulatedDisks.ensure`.
        """
        file = directory / part.file
        host.run(["truncate", "--size", str(part.device_bytes), str(file)])
        model = disk_model(part.media)
        return (
            file
            if model is None
            else self._disks.ensure(host, file, model, is_synced=part.is_synced)
        )

    def ensure(
        self, host: Host, directory: PurePosixPath, part: DeviceSlice, reference: str
    ) -> str:
        """The device of `part`, whose file is in `directory`, set up if need be.

        Raises GrampusError, as `EmulatedDisks.ensure`.
        """
        file = self.ensure_file(host, directory, part)
        whole = part.shared_by == 1
        device = ensure_loop_device(
            host,
            file,
            reference=reference,
            part=None if whole else FilePart(part.offset_bytes, part.size_bytes),
        )
        # What Ceph goes by: on a disk that rotates small writes are deferred to the WAL, and so on.
        # A loop device says what the machine's own disk says, whenever it is set up.
        setting = f"/sys/block/{PurePosixPath(device).name}/queue/rotational"
        host.run(["sh", "-c", _SET, "sh", setting, "1" if part.media == "hdd" else "0"])
        return device

    def find(
        self, host: Host, directory: PurePosixPath, part: DeviceSlice, reference: str
    ) -> str | None:
        """The device of `part`, or None unless it is there with all that is below it."""
        file: PurePosixPath | None = directory / part.file
        if file is not None and disk_model(part.media) is not None:
            file = self._disks.find(host, file)
        return None if file is None else find_loop_device(host, reference, file=file)

    def ensure_absent(
        self, host: Host, directory: PurePosixPath, parts: Sequence[tuple[DeviceSlice, str]]
    ) -> None:
        """None of those of `parts`, with their references, is left. Who used them must have ended.

        Slices of one file go together: the device of one is found by the other's file, too.
        """
        for part, reference in parts:
            if disk_model(part.media) is None:
                ensure_loop_device_absent(host, directory / part.file, reference=reference)
        for file in sorted({part.file for part, _ in parts if disk_model(part.media) is not None}):
            self._disks.ensure_absent(host, directory / file)

    def set_paced(
        self, host: Host, directory: PurePosixPath, part: DeviceSlice, *, is_paced: bool
    ) -> None:
        """Whether an emulated disk is as slow as it shall be, or as fast as the machine.

        Raises GrampusError.
        """
        if disk_model(part.media) is not None:
            self._disks.set_paced(host, directory / part.file, is_paced=is_paced)


def disks_directory(host: Host) -> PurePosixPath:
    """Where a host has what is served in place of the files of its OSDs."""
    return host.data_dir / "disks"


def decide_limit(part: DeviceSlice, device: str) -> BlockLimit:
    """The limit of the medium of `part`."""
    return block_limit(part.media, device, shared_by=part.shared_by)


def lifted(limit: BlockLimit) -> BlockLimit:
    """No limit on the same device."""
    return BlockLimit(limit.device)
