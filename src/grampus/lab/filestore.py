"""OSDs on FileStore: an object is a file on an XFS of the OSD's own, and goes to a journal first.

The XFS stands on the OSD's device. Unless the journal has a device of its own it is a file in that
XFS, so that both share what the device can do. The XFS is mounted below the host's data directory:
there the host's daemons see it, and whoever takes the host or the lab down unmounts it.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.core.units import GIB, MIB
from grampus.hosts.mounts import ensure_unmounted, observe_mounted_source
from grampus.hosts.port import Bind, Host

# What an OSD of a lab writes between two syncs (5 s), twice. Source: Ceph documentation (Pacific),
# "Journal Config Reference".
JOURNAL_BYTES = 1 * GIB
# An inode holds an object's attributes too. Source: Ceph's default of `osd mkfs options xfs`.
_INODE_BYTES = 2048


def filestore_directory(host: Host, osd_id: int) -> PurePosixPath:
    """Where the OSD's XFS is mounted."""
    return host.data_dir / "filestore" / f"osd-{osd_id}"


def make_filestore(
    host: Host,
    osd_id: int,
    device: str,
    *,
    uuid: str,
    keyring: str,
    journal_device: str | None = None,
) -> None:
    """An empty store on `device`, whatever is on it, mounted. Raises GrampusError."""
    directory = filestore_directory(host, osd_id)
    ensure_filestore_unmounted(host, osd_id)
    inodes = ("-i", f"size={_INODE_BYTES}")
    host.run(["mkfs.xfs", "-q", "-f", "-K", *inodes, device])
    ensure_filestore_mounted(host, osd_id, device, journal_device=journal_device)
    host.write_file(directory / "keyring", keyring, mode=0o600)
    host.run(
        [
            *("ceph-osd", "--mkfs", "--id", str(osd_id), "--osd-objectstore", "filestore"),
            *_places(directory),
            *("--osd-journal-size", str(JOURNAL_BYTES // MIB)),
            # Written once: otherwise each part of it would be allocated as it is first used.
            *("--journal-zero-on-create", "true"),
            *("--osd-uuid", uuid),
        ],
    )


def ensure_filestore_mounted(
    host: Host, osd_id: int, device: str, *, journal_device: str | None = None
) -> None:
    """The XFS on `device` at its directory, and in it where the journal is."""
    directory = filestore_directory(host, osd_id)
    source = observe_mounted_source(host, directory)
    if source not in (None, device):
        ensure_unmounted(host, directory)
    if source != device:
        host.run(["mkdir", "-p", str(directory)])
        host.run(["mount", "-t", "xfs", "-o", "noatime", device, str(directory)])
    if journal_device is not None:
        # The number of a loop device is another one after a restart.
        link = ["ln", "--symbolic", "--force", "--no-dereference"]
        host.run([*link, journal_device, str(directory / "journal")])


def ensure_filestore_unmounted(host: Host, osd_id: int) -> None:
    """Nothing mounted at its directory, and no directory. The OSD's daemon must be gone."""
    directory = filestore_directory(host, osd_id)
    ensure_unmounted(host, directory)
    # Never `rm -r`: were it still a mount point, the objects would go.
    host.run(["rmdir", str(directory)], check=False)


def filestore_bind(host: Host, osd_id: int) -> Bind:
    """The store as its daemon sees it: where Ceph looks for it by itself."""
    return Bind(str(filestore_directory(host, osd_id)), f"/var/lib/ceph/osd/ceph-{osd_id}")


def _places(directory: PurePosixPath) -> tuple[str, ...]:
    return ("--osd-data", str(directory), "--osd-journal", str(directory / "journal"))
