"""The file systems of volumes as their hosts see them: one command for all of a host."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.databases.growth.decide_growth import FileSystem
from grampus.hosts.port import Host

# statvfs(3) of what is mounted, which reads nothing from the device; a path that is not mounted is
# not there, where `stat -f` or `df` would show the disk below it.
_FINDMNT = ("findmnt", "--noheadings", "--raw", "--bytes", "--types", "xfs")
_COLUMNS = "TARGET,SOURCE,SIZE,AVAIL"
OBSERVE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Mount:
    """A mounted volume; `device` such as `/dev/loop4`."""

    device: str
    file_system: FileSystem


def observe_mounts(host: Host) -> dict[str, Mount]:
    """Every mounted XFS of the host, by where it is mounted.

    Raises HostUnreachableError, GrampusError with code `timeout`.
    """
    # Its code is 1 when nothing is mounted.
    result = host.run([*_FINDMNT, "--output", _COLUMNS], check=False, timeout_s=OBSERVE_TIMEOUT_S)
    return parse_mounts(result.stdout)


def parse_mounts(text: str) -> dict[str, Mount]:
    """From lines of target, source, size and available bytes; others are passed over."""
    mounts = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[2].isdecimal() and words[3].isdecimal():
            target, source, size, free = words
            mounts[target] = Mount(source, FileSystem(int(size), int(free)))
    return mounts
