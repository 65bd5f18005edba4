"""Where an OSD keeps its objects: how its store is made on its devices, and what it is run with.

One object store, one entry of `OBJECT_STORES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from grampus.core.errors import GrampusError
from grampus.hosts.port import Bind, Host
from grampus.hosts.presence import is_there
from grampus.lab.filestore import (
    ensure_filestore_mounted,
    ensure_filestore_unmounted,
    filestore_bind,
    make_filestore,
)
from grampus.lab.making import MADE_MARKER, render_keyring
from grampus.lab.osd_set import ObjectStoreName


@dataclass(frozen=True)
class OsdPlace:
    """An OSD's id, its directory as commands on its host see it, and its block devices there."""

    osd_id: int
    uuid: str
    device: str
    wal_db_device: str | None
    secret: str | None  # its cephx key; None when it was lost

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath(f"/var/lib/ceph/osd/ceph-{self.osd_id}")

    @property
    def devices(self) -> tuple[str, ...]:
        """That of the data first."""
        return (self.device,) if self.wal_db_device is None else (self.device, self.wal_db_device)

    def keyring_on(self, host: Host) -> PurePosixPath:
        """Its keyring by its path on the machine, for `write_file`."""
        return host.data_dir / f"var-lib-ceph/osd/ceph-{self.osd_id}/keyring"


class ObjectStore(Protocol):
    """All but `binds` change the host, and may be repeated from any state.

    The OSD does not run, or is left alone.
    """

    def ensure_made(self, host: Host, place: OsdPlace) -> None:
        """A whole store, made anew unless its marker is there. Raises GrampusError."""
        ...

    def ensure_ready(self, host: Host, place: OsdPlace) -> None:
        """What each start of the daemon needs, also after a reboot: links, mounts."""
        ...

    def binds(self, host: Host, place: OsdPlace, /) -> tuple[Bind, ...]:
        """What its daemon sees of the host beside what every OSD does."""
        ...

    def ensure_detached(self, host: Host, osd_id: int) -> None:
        """Nothing keeps the devices in use, once the daemon has ended."""
        ...

    def ensure_absent(self, host: Host, osd_id: int) -> None:
        """Nothing of the store is left on the host but what is on its devices."""
        ...


class BlueStore:
    """Right on block devices; the OSD's directory holds links and its key."""

    def ensure_made(self, host: Host, place: OsdPlace) -> None:
        directory = place.directory
        if is_there(host, directory / MADE_MARKER):
            return
        keyring = require_keyring(host, place)
        host.run(["rm", "-rf", str(directory)])
        host.run(["mkdir", "-p", str(directory)])
        _link(host, directory / "block", place.device)
        for device in place.devices:
            # BlueStore refuses a device that carries another OSD's label.
            host.run(["wipefs", "--all", "--quiet", device])
            host.run(["dd", "if=/dev/zero", f"of={device}", "bs=1M", "count=4", "status=none"])
        host.write_file(place.keyring_on(host), keyring, mode=0o600)
        wal_db = place.wal_db_device
        # It makes the link to this one itself, and refuses one that is there.
        host.run(
            [
                *("ceph-osd", "--mkfs", "--id", str(place.osd_id)),
                *("--osd-objectstore", "bluestore"),
                *(() if wal_db is None else ("--bluestore-block-db-path", wal_db)),
                *("--osd-uuid", place.uuid),
            ],
            timeout_s=120,
        )
        host.run(["touch", str(directory / MADE_MARKER)])

    def ensure_ready(self, host: Host, place: OsdPlace) -> None:
        # The number of a loop device is another one after a restart.
        _link(host, place.directory / "block", place.device)
        if place.wal_db_device is not None:
            _link(host, place.directory / "block.db", place.wal_db_device)

    def binds(self, _host: Host, _place: OsdPlace, /) -> tuple[Bind, ...]:
        return ()

    def ensure_detached(self, host: Host, osd_id: int) -> None:
        del host, osd_id  # its daemon opens them itself

    def ensure_absent(self, host: Host, osd_id: int) -> None:
        host.run(["rm", "-rf", f"/var/lib/ceph/osd/ceph-{osd_id}"])


class FileStore:
    """Files on an XFS on the device; the OSD's directory on the host holds the marker alone.

    A device for WAL and DB holds its journal.
    """

    def ensure_made(self, host: Host, place: OsdPlace) -> None:
        directory = place.directory
        if is_there(host, directory / MADE_MARKER):
            return
        keyring = require_keyring(host, place)
        host.run(["rm", "-rf", str(directory)])
        host.run(["mkdir", "-p", str(directory)])
        make_filestore(
            host,
            place.osd_id,
            place.device,
            uuid=place.uuid,
            keyring=keyring,
            journal_device=place.wal_db_device,
        )
        host.run(["touch", str(directory / MADE_MARKER)])

    def ensure_ready(self, host: Host, place: OsdPlace) -> None:
        ensure_filestore_mounted(
            host, place.osd_id, place.device, journal_device=place.wal_db_device
        )

    def binds(self, host: Host, place: OsdPlace, /) -> tuple[Bind, ...]:
        return (filestore_bind(host, place.osd_id),)

    def ensure_detached(self, host: Host, osd_id: int) -> None:
        ensure_filestore_unmounted(host, osd_id)

    def ensure_absent(self, host: Host, osd_id: int) -> None:
        self.ensure_detached(host, osd_id)
        host.run(["rm", "-rf", f"/var/lib/ceph/osd/ceph-{osd_id}"])


OBJECT_STORES: Mapping[ObjectStoreName, ObjectStore] = {
    "bluestore": BlueStore(),
    "filestore": FileStore(),
}


def require_keyring(host: Host, place: OsdPlace) -> str:
    """The text of the OSD's keyring. Raises GrampusError when its key was lost."""
    if place.secret is None:
        raise GrampusError(
            f"The key of osd.{place.osd_id} on {host.name} is lost.",
            "Run `grampus lab down --keep`, then `grampus lab up`.",
        )
    return render_keyring(f"osd.{place.osd_id}", place.secret, {})


def _link(host: Host, link: PurePosixPath, device: str) -> None:
    host.run(["ln", "--symbolic", "--force", "--no-dereference", device, str(link)])
