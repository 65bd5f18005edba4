"""A new cephx key for a volume while it is used; the former one opens nothing any more after it."""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.core.models import Model
from grampus.hosts.port import Fleet
from grampus.state.operations import Step
from grampus.volumes.exchanging import Exchanging
from grampus.volumes.places import keyring_file
from grampus.volumes.records import VolumeRecords


class RotateKeyOrder(Model):
    """A rotation as it is journaled. It holds no key: the state is no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


class KeyRotating:
    """Rotations of keys of one lab or cluster; the volume's lock is held by the caller."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        cluster: CephCluster,
        exchanging: Exchanging,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._cluster = cluster
        self._exchanging = exchanging

    def plan(self, name: str) -> RotateKeyOrder:
        """The rotation, if it can be begun now.

        Raises NotFoundError, HostUnreachableError, and RefusedError with code `attachment-lost` or
        `cannot-exchange`.
        """
        self._exchanging.require_ready(self._records.get(name))
        return RotateKeyOrder(name=name)

    def steps(self, order: RotateKeyOrder) -> list[Step]:
        """The rotation; every step may be repeated, none is ever undone."""
        name = order.name
        return [
            Step(
                "key",
                f"Create a new key for the volume '{name}', and accept both keys",
                lambda: self._write_keyring(name),
            ),
            Step(
                "reopen",
                "Open the image with the new key, with a pause of about a second",
                lambda: self._reopen(name),
            ),
            Step(
                "commit",
                "Reject the former key",
                lambda: self._commit(name),
            ),
        ]

    def _write_keyring(self, name: str) -> None:
        record = self._records.find(name)
        if record is None:
            return
        keyring = self._cluster.ensure_pending_key(record.ceph_user)
        if record.host is not None and self._fleet.is_reachable(record.host):
            host = self._fleet.host(record.host)
            host.write_file(keyring_file(host, record), keyring, mode=0o600)

    def _reopen(self, name: str) -> None:
        record = self._records.find(name)
        if record is not None:
            self._exchanging.close_image(record)
            self._exchanging.open_image(record)

    def _commit(self, name: str) -> None:
        record = self._records.find(name)
        if record is not None:
            self._cluster.ensure_key_committed(record.ceph_user)
