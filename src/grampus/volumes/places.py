"""Where a volume's things are on its host, and what is there."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.hosts.port import Fleet, Host
from grampus.volumes.decide_driver import HostCapabilities
from grampus.volumes.drivers.volumed import NOT_BUILT, VolumedProgram
from grampus.volumes.model import VolumeRecord

_KERNEL_SCRIPT = (
    "test -e /sys/bus/rbd && echo krbd; "
    "test -e /sys/block/nbd0 && command -v rbd-nbd >/dev/null && echo nbd; "
    "test -c /dev/fuse && echo fuse; true"
)


def mount_path(host: Host, name: str) -> PurePosixPath:
    """Where the volume's file system is mounted."""
    return host.data_dir / "volumes" / name


def keyring_file(host: Host, record: VolumeRecord) -> PurePosixPath:
    """The key of the volume's cephx user; there while the volume is attached."""
    return host.data_dir / "etc-ceph" / f"ceph.client.{record.ceph_user}.keyring"


def observe_capabilities(
    host: Host, program: VolumedProgram, *, changes_nothing: bool = False
) -> HostCapabilities:
    """What the host can do; volumed is put there to find out, unless nothing may be changed."""
    found = host.run(["sh", "-c", _KERNEL_SCRIPT]).stdout.split()
    if "fuse" not in found:
        absence: str | None = "the kernel has no FUSE"
    elif changes_nothing:
        absence = None if program.is_built() else NOT_BUILT
    else:
        absence = program.observe_absence(host)
    return HostCapabilities(
        has_krbd="krbd" in found,
        has_nbd="nbd" in found,
        has_fuse="fuse" in found,
        volumed_absence=absence,
    )


def is_older_driver(
    fleet: Fleet, program: VolumedProgram, record: VolumeRecord, daemon: str | None
) -> bool:
    """Whether the daemon that serves a volume's device runs from an older host image or program
    than it would start from now; the host gets the present program first."""
    attachment = record.attachment
    if attachment is None or daemon is None:
        return False
    host = fleet.host(attachment.host)
    if attachment.driver == "volumed" and program.is_built():
        program.ensure_on(host)
    status = host.observe_daemon(daemon)
    return status is not None and status.is_outdated
