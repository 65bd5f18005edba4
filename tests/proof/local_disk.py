"""A disk of a host's own that can be lost: a file system on a loop device, under a volume's log."""

from __future__ import annotations

from types import TracebackType

from tests.system.lab_machine import LabMachine

# The log (256 MiB), the read cache (1 GiB), and what a log that is set aside takes.
DISK_BYTES = 3 * 1024**3


class LocalDisk:
    """The directory of a volume's log, on a file system of its own while it is wanted."""

    def __init__(self, machine: LabMachine, volume: str, *, wanted: bool) -> None:
        self._machine = machine
        self._place = place_of_log(machine, volume)
        self._file = str(machine.scratch() / "local-disk.img")
        self._wanted = wanted

    def __enter__(self) -> LocalDisk:
        if self._wanted:
            self.remove()  # of a crash that could not be carried out
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._wanted:
            self.remove()

    def make(self) -> None:
        """Mount it where the log of the volume, which is detached, will be."""
        self._machine.ok("truncate", "--size", str(DISK_BYTES), self._file)
        self._machine.ok("mkfs.xfs", "-q", "-f", self._file)
        self._machine.ok("mkdir", "-p", self._place)
        self._machine.ok("mount", "-t", "xfs", "-o", "loop,nouuid", self._file, self._place)

    @staticmethod
    def shut_down(machine: LabMachine, volume: str) -> None:
        """Lose it: from now on each read and write of it fails, and what was not flushed is gone.

        XFS's own way for tests; a dead disk below looks the same from above.
        """
        machine.ok("xfs_io", "-x", "-c", "shutdown", place_of_log(machine, volume))

    def remove(self) -> None:
        """Unmount it and forget it: the volume's directory is the host's own again."""
        # Lazily: the daemon that had it open may not be cleared away yet.
        self._machine.run("umount", "--lazy", self._place)
        self._machine.run("rm", "-f", self._file)


def place_of_log(machine: LabMachine, volume: str) -> str:
    """Where volumed keeps the log of the volume's cache on that host."""
    return str(machine.data / "cache" / volume)
