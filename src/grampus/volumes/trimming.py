"""Room that a file system no longer needs, given back to the pool."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.core.errors import RefusedError
from grampus.core.units import MIB
from grampus.hosts.port import Fleet, HostUnreachableError
from grampus.volumes.model import VolumeRecord
from grampus.volumes.places import mount_path
from grampus.volumes.service import VolumeService

# Of a large volume that was full: an object of 4 MiB is removed with a round trip or two.
TRIM_TIMEOUT_S = 3600.0
# A minute each, where the cluster is slow. After that the figures come without the rest.
DRAW_DOWNS = 10
# What volumed leaves of a journal in use: it is taken as nothing.
LITTLE_HELD_BYTES = MIB


@dataclass(frozen=True)
class Trimmed:
    """What the image itself takes of the pool, before its copies; snapshots and parents aside.

    What the volume's journal still holds comes on top of it: None where nobody said.
    """

    used_before_bytes: int
    used_after_bytes: int
    held_before_bytes: int | None = 0
    held_after_bytes: int | None = 0


class VolumeTrims:
    """Trims of attached volumes. Programs go on meanwhile."""

    def __init__(self, volumes: VolumeService, fleet: Fleet, images: RbdSnapshots) -> None:
        self._volumes = volumes
        self._fleet = fleet
        self._images = images

    def trim(self, name: str) -> Trimmed:
        """Discard all free blocks of the volume's file system.

        Raises NotFoundError, RefusedError with code `not-attached`, HostUnreachableError, and
        CommandFailedError when the file system or what is below it refuses.
        """
        record, host = self._attached(name)
        self._volumes.operations.runner.propose(
            lambda: [
                f"Discard the free blocks of the file system of {name} on {host}",
                (f"Compare the space that {record.spec.pool}/{record.spec.image} uses in its pool"),
            ]
        )
        before, held_before = self._used_bytes(record)
        place = self._fleet.host(host)
        place.run(["fstrim", str(mount_path(place, name))], timeout_s=TRIM_TIMEOUT_S)
        after, held_after = self._used_bytes(record)
        return Trimmed(before, after, held_before, held_after)

    def _attached(self, name: str) -> tuple[VolumeRecord, str]:
        record = self._volumes.get(name)
        if record.host is None:
            raise RefusedError(
                f"The volume '{name}' is not attached: only its file system knows the free blocks.",
                f"Attach the volume: `grampus volume attach {name} --host HOST`; for a "
                f"database: `grampus db start {name}`.",
                code="not-attached",
            )
        if not self._fleet.is_reachable(record.host):
            raise HostUnreachableError(
                f"The host {record.host} cannot be reached.",
                f"Start {record.host} again, then try again.",
            )
        return record, record.host

    def _used_bytes(self, record: VolumeRecord) -> tuple[int, int | None]:
        """What the image uses, and what is in the volume's journal and not in the image yet."""
        held = self._volumes.draw_down(record.spec.name)
        for _ in range(DRAW_DOWNS - 1):
            if held is None or held <= LITTLE_HELD_BYTES:
                break
            held = self._volumes.draw_down(record.spec.name)
        return self._images.occupied_bytes(record.spec.pool, record.spec.image), held
