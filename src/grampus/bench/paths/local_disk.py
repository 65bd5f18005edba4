"""A file system on a host's own disk: what the write paths are to come close to.

The same XFS, mounted the same way, on a loop device over a file: beside a volume only the way
below the loop device is another one.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.hosts.loop_devices import ensure_loop_device, ensure_loop_device_absent
from grampus.hosts.mounts import ensure_unmounted, observe_mounted_source
from grampus.hosts.port import Host
from grampus.volumes.file_systems import MOUNT_OPTIONS


class LocalDisk:
    """One file system in a directory of its own on a host."""

    def __init__(self, host: Host, *, directory: PurePosixPath, reference: str) -> None:
        self._host = host
        self._directory = directory
        self._reference = reference

    @property
    def detail(self) -> str:
        """What stands below the file system."""
        return f"XFS on a loop device with direct I/O over the file {self._file()}"

    def make(self, size_bytes: int) -> None:
        """A new file system of that size, not mounted.

        Raises CommandFailedError when the disk has no room for it.
        """
        self.ensure_absent()
        file = self._file()
        self._host.run(["mkdir", "-p", str(self._mount_path())])
        # Its blocks are taken now: the disk cannot get full in the middle of a measure.
        argv = ["fallocate", "--length", str(size_bytes), str(file)]
        self._host.run(argv)
        device = ensure_loop_device(self._host, file, reference=self._reference)
        self._host.run(["mkfs.xfs", "-q", "-f", "-K", device])

    def ensure_mounted(self) -> PurePosixPath:
        """Where the file system is mounted. It must have been made."""
        device = ensure_loop_device(self._host, self._file(), reference=self._reference)
        path = self._mount_path()
        if observe_mounted_source(self._host, path) is None:
            argv = ["mount", "-t", "xfs", "-o", MOUNT_OPTIONS, device, str(path)]
            self._host.run(argv)
        return path

    def ensure_unmounted(self) -> None:
        """Everything written is on the disk, and nothing of it in memory."""
        ensure_unmounted(self._host, self._mount_path())

    def ensure_absent(self) -> None:
        """Mount, loop device and file gone."""
        self.ensure_unmounted()
        ensure_loop_device_absent(self._host, self._file(), reference=self._reference)
        self._host.run(["rm", "-rf", "--one-file-system", "--", str(self._directory)])

    def _file(self) -> PurePosixPath:
        return self._directory / "disk"

    def _mount_path(self) -> PurePosixPath:
        return self._directory / "mounted"
