"""The XFS file system of a volume: made, mounted, and grown so that a crash at any moment does no
harm.

XFS writes a growth to its log at once, and to its superblock up to half a minute later. If the host
loses its power in between, or a snapshot is taken, Linux (seen with 6.18) cannot replay the log: it
takes the size from the superblock and refuses the blocks beyond it ("daddr out of range, EOFS"), so
`mount` fails with "Structure needs cleaning". Two things are done about it. After a growth the file
system is frozen and thawed, which writes the superblock. And a superblock that is smaller than its
device, on a file system that cannot be mounted for this reason, gets the size of the device; the
replay then gives it whatever size the log says. Nothing of the log is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.hosts.port import CommandFailedError, Host
from grampus.volumes.decide_encryption import sector_bytes
from grampus.volumes.drivers.export_devices import Devices
from grampus.volumes.model import VolumeSpec

# nouuid: hosts that are one machine may still have what a fence took away mounted, and XFS mounts
# no second file system of the same UUID. Who may mount a volume is decided by its lock.
MOUNT_OPTIONS = "noatime,nodev,nosuid,nouuid"
# EUCLEAN, as mount(8) says it.
_NEEDS_CLEANING = "Structure needs cleaning"
# xfs_growfs(8) says so when it changed something.
_GROWN = "data blocks changed"
# Source: XFS_MIN_AG_BLOCKS of the kernel: a smaller rest gets no allocation group.
_MIN_AG_BLOCKS = 64
# Should the command be killed while the file system is frozen, somebody else thaws it: until then
# every write waits.
_QUIESCE = """
setsid sh -c 'sleep 10; fsfreeze --unfreeze "$1"' thaw "$1" </dev/null >/dev/null 2>&1 &
thaw=$!
fsfreeze --freeze "$1"
code=$?
fsfreeze --unfreeze "$1" || code=$?
kill "$thaw"
exit $code
"""


@dataclass(frozen=True)
class Geometry:
    """What a superblock says of the size of its file system, in blocks."""

    blocks: int
    groups: int


@dataclass(frozen=True)
class Superblock:
    """The first superblock of a file system that is not mounted."""

    block_bytes: int
    group_blocks: int
    geometry: Geometry


def make(host: Host, devices: Devices, spec: VolumeSpec) -> None:
    """Make the file system of a volume in which nothing is stored."""
    limit_bytes, sector = spec.filesystem_bytes, sector_bytes(spec.encryption)
    options = [] if limit_bytes is None else ["-d", f"size={limit_bytes}"]
    options += [] if sector is None else ["-s", f"size={sector}"]
    if devices.log is not None:
        log = [f"logdev={devices.log}", f"size={spec.external_log_bytes}"]
        log += [] if sector is None else [f"sectsize={sector}"]
        options += ["-l", ",".join(log)]
    host.run(["mkfs.xfs", "-q", "-f", "-K", *options, devices.data])


def mount(host: Host, devices: Devices, path: PurePosixPath) -> bool:
    """Mount the file system; whether its superblock had to be corrected for that.

    Raises CommandFailedError with what `mount` said first.
    """
    device, log = devices.data, devices.log
    options = MOUNT_OPTIONS if log is None else f"{MOUNT_OPTIONS},logdev={log}"
    argv = ["mount", "-t", "xfs", "-o", options, device, str(path)]
    mounted = host.run(argv, check=False)
    if mounted.returncode == 0:
        return False
    failure = CommandFailedError(host.name, mounted)
    if _NEEDS_CLEANING not in mounted.stderr:
        raise failure
    found = parse_superblock(
        host.run(
            [
                *("xfs_db", "-r", *_log_options(devices), "-c", "sb 0"),
                *("-c", "print blocksize agblocks dblocks agcount", device),
            ]
        ).stdout
    )
    size = host.run(["blockdev", "--getsize64", device]).stdout
    wanted = None if found is None else decide_geometry(found, int(size))
    if found is None or wanted is None:
        raise failure
    _write_geometry(host, devices, wanted)
    if host.run(argv, check=False).returncode != 0:
        # Something else is wrong with it: the size goes back. The replay may have written other
        # blocks before it failed; it writes them again the next time.
        _write_geometry(host, devices, found.geometry)
        raise failure
    return True


def grow(host: Host, path: PurePosixPath, *, just_mounted: bool) -> None:
    """Let the mounted file system fill its device, and write its superblock."""
    grown = host.run(["xfs_growfs", "-d", str(path)])
    # Also if it has its size already: whoever gave it that may have been killed before this. A
    # mount writes the superblock by itself.
    if not just_mounted or _GROWN in grown.stdout:
        host.run(["sh", "-c", _QUIESCE, "write-superblock", str(path)])


def parse_superblock(printed: str) -> Superblock | None:
    """What `xfs_db` printed of it; None: it is no superblock of XFS."""
    pairs = (line.partition("=") for line in printed.splitlines())
    found = {name.strip(): value.strip() for name, _, value in pairs}
    try:
        return Superblock(
            int(found["blocksize"]),
            int(found["agblocks"]),
            Geometry(int(found["dblocks"]), int(found["agcount"])),
        )
    except (KeyError, ValueError):
        return None


def decide_geometry(found: Superblock, device_bytes: int) -> Geometry | None:
    """The geometry of a file system that fills its device; None: it does so already.

    As the kernel grows it (`xfs_growfs_data_private`).
    """
    if found.block_bytes <= 0 or found.group_blocks <= 0:
        return None
    groups, rest = divmod(device_bytes // found.block_bytes, found.group_blocks)
    blocks = groups * found.group_blocks
    if rest >= _MIN_AG_BLOCKS:
        groups, blocks = groups + 1, blocks + rest
    return Geometry(blocks, groups) if blocks > found.geometry.blocks else None


def _log_options(devices: Devices) -> list[str]:
    return [] if devices.log is None else ["-l", devices.log]


def _write_geometry(host: Host, devices: Devices, geometry: Geometry) -> None:
    # -d: between the two writes the superblock contradicts itself, which xfs_db would refuse.
    blocks, groups = f"write -d dblocks {geometry.blocks}", f"write -d agcount {geometry.groups}"
    writing = ("-c", "sb 0", "-c", blocks, "-c", groups, devices.data)
    host.run(["xfs_db", "-x", *_log_options(devices), *writing])
