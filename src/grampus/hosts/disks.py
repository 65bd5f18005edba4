"""Which disk of the machine a file is on."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.hosts.port import Host

# Arguments: a file, and where sysfs is. Prints the whole disk that its file system is on, such as
# /dev/vda, and nothing where a file system is on no disk, or on several (tmpfs, overlay, btrfs). A
# partition counts as its disk: the kernel limits whole disks alone.
FIND_DISK = """
import os, sys
number = os.stat(sys.argv[1]).st_dev
place = os.path.realpath(f"{sys.argv[2]}/dev/block/{os.major(number)}:{os.minor(number)}")
if os.path.exists(f"{place}/partition"):
    place = os.path.dirname(place)
if os.path.isdir(place):
    print("/dev/" + os.path.basename(place).replace("!", "/"))
"""


def observe_disk(host: Host, file: PurePosixPath) -> str | None:
    """The path of the block device that holds `file`, or None where there is no such one.

    Raises CommandFailedError when there is no such file.
    """
    return host.run(["python3", "-c", FIND_DISK, str(file), "/sys"]).stdout.strip() or None
