"""Taking a volume away from its host without asking it: the steps of a fence.

How long the blocklist entries last (`BLOCKLIST_EXPIRE_S`). They must outlive every chance that
the old client still writes, until what is left of it is cleared away on its host:

- A client that talks to the cluster within that time is told that it is blocklisted. It then
  fails every request for good, whatever becomes of the entry: volumed, librbd and krbd forget it
  only by opening the image anew, and that takes a key which is gone (next point).
- A client that is cut off for all of that time comes back to an empty blocklist, with requests
  that it would send again. But to talk to an OSD it must log in again: its tickets for OSDs are
  good for at most three rotations of the cluster's service keys (3 x `auth_service_ticket_ttl`,
  3 hours by default), and for a new one it must prove its key to a MON. The fence removed that
  key; the next attachment gets another.

So one day is eight times what is needed. It is no more than that because each entry is carried in
every OSD map. The entry names one exact address with the random nonce of one process, which no
later client can be given: it needs no undoing, and it never hits a neighbour on the same host.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import ConfigDict

from grampus.ceph.cluster import BLOCKLIST_EXPIRE_S, CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.hosts.port import Fleet
from grampus.state.operations import Step
from grampus.volumes.decide_clients import decide_fence_targets
from grampus.volumes.decide_local_log import find_current_log, note_current_log
from grampus.volumes.model import DriverName, FencedAttachment, VolumeRecord
from grampus.volumes.records import VolumeRecords
from grampus.volumes.write_paths import parse_journal_facts

# OSDs drop the watch of a blocklisted client with the next map; without one it lasts 30 s.
UNWATCH_TIMEOUT_S = 45.0


class FenceOrder(Model):
    """A fence as it is journaled: everything decided, so that it can be finished by anybody."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    pool: str
    image: str
    ceph_user: str
    host: str | None  # from which the volume is taken; None: no record says that it has one
    driver: DriverName | None
    client_addresses: tuple[str, ...]  # none: nobody has it open, a log on `host` is given up
    ordered_at: datetime
    # Without a client address: the attaching was interrupted before its client was known. The
    # volume's key goes, and with it whoever is still logged in by it.
    removes_key: bool = False


class Fencing:
    """Fences of the volumes of one lab or cluster."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        cluster: CephCluster,
        images: RbdImages,
        clock: Clock,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._cluster = cluster
        self._images = images
        self._clock = clock

    def plan(self, name: str, *, is_lost: bool = False) -> FenceOrder | None:
        """Whom to cut off; None when the volume is fenced already.

        With `is_lost`, its host is known to be lost: an attachment there whose client was never
        known is fenced too, by the volume's key. Raises NotFoundError, and RefusedError with code
        `not-attached`, `in-use` (another client holds the lock) or `client-unknown`.
        """
        record = self._records.get(name)
        spec, attachment = record.spec, record.attachment
        clients = self._images.clients(spec.pool, spec.image)
        locks, watchers = clients.locks, clients.watchers
        needed_log = None if watchers else self._find_needed_log(record)
        if needed_log is not None:
            return self._order(record, needed_log, ())
        recorded = attachment.client_address if attachment else None
        seen = {lock.address for lock in locks} | set(watchers)
        targets = decide_fence_targets(
            entity=f"client.{record.ceph_user}",
            recorded=recorded,
            host_address=self._fleet.host(record.host).address if record.host else None,
            lock_owners=[lock.address for lock in locks],
            watchers=watchers,
            # Asked last: whoever was seen has its session by now. And only if it matters: a
            # fence is waited for, and each MON has to be asked.
            entities=self._cluster.observe_client_entities() if seen - {recorded} else {},
        )
        if targets.foreign_owner is not None:
            raise RefusedError(
                f"The client {targets.foreign_owner} has the lock of "
                f"{spec.pool}/{spec.image}, and is not a client of the volume '{name}'.",
                "End that client, then try again.",
                code="in-use",
            )
        if not targets.addresses:
            if is_lost and record.host is not None:
                order = self._order(record, record.host, ())
                return order.model_copy(update={"removes_key": True})
            _require_fenced(record)
            return None
        return self._order(record, record.host, targets.addresses)

    def steps(self, order: FenceOrder) -> list[Step]:
        """The fence; every step may be repeated, none is ever undone."""
        image, clients = f"{order.pool}/{order.image}", " and ".join(order.client_addresses)
        if not order.client_addresses and not order.removes_key:
            return [
                Step(
                    "record",
                    f"Record that '{order.name}' does not need its log on {order.host}",
                    lambda: self._record(order),
                )
            ]
        steps = [
            Step(
                "blocklist",
                f"Blocklist {clients} for {BLOCKLIST_EXPIRE_S // 3600} hours",
                lambda: self._blocklist(order),
            ),
            Step(
                "confirm",
                f"Wait until the cluster has closed the image for the client at {image}",
                lambda: self._confirm(order),
            ),
            Step(
                "key",
                f"Remove the key of client.{order.ceph_user}",
                lambda: self._cluster.ensure_client_absent(order.ceph_user),
            ),
            Step(
                "latecomers",
                f"Cut off clients that opened {image} before the removal of the key",
                lambda: self._cut_off_latecomers(order),
            ),
            Step("lock", f"Break the client's lock of {image}", lambda: self._break_lock(order)),
            Step(
                "record",
                f"Record that '{order.name}' is detached",
                lambda: self._record(order),
            ),
        ]
        return steps[2:] if order.removes_key else steps

    def find_needed_log(self, name: str) -> str | None:
        """The host whose log may hold commits that the cluster lacks, if there is one.

        Raises NotFoundError, and GrampusError when the cluster does not answer.
        """
        record = self._records.get(name)
        log = find_current_log(record)
        if log is None or record.host is None:
            return self._find_needed_log(record)
        return log.host if log.host == record.host else None

    def _blocklist(self, order: FenceOrder) -> None:
        for address in order.client_addresses:
            self._cluster.ensure_blocklisted(address)

    def _cut_off_latecomers(self, order: FenceOrder) -> None:
        """A volumed that was changing its image or its key was no client when the fence was
        ordered, and may have become one until its key was removed; none can any more."""
        clients = self._images.clients(order.pool, order.image)
        locks, seen = clients.locks, {lock.address for lock in clients.locks} | {*clients.watchers}
        if not seen - set(order.client_addresses) and not order.removes_key:
            return
        entity, entities = f"client.{order.ceph_user}", self._cluster.observe_client_entities()
        targets = decide_fence_targets(
            entity=entity,
            recorded=None,
            host_address=self._fleet.host(order.host).address if order.host else None,
            lock_owners=[lock.address for lock in locks],
            watchers=sorted(seen),
            entities=entities,
        )
        found = set(targets.addresses)
        if order.removes_key:  # one that is logged in may open the image until its tickets end
            found |= {address for address, user in entities.items() if user == entity}
        late = tuple(sorted(found - set(order.client_addresses)))
        if not late:
            return
        for address in late:
            self._cluster.ensure_blocklisted(address)
        self._confirm(order.model_copy(update={"client_addresses": late}))
        for lock in locks:
            if lock.address in late:
                self._images.ensure_lock_absent(order.pool, order.image, lock)

    def _confirm(self, order: FenceOrder) -> None:
        missing = set(order.client_addresses) - set(self._cluster.observe_blocklist())
        if missing:
            raise GrampusError(
                f"The cluster does not list {', '.join(sorted(missing))} as fenced.",
                "Run the fence again. `ceph osd blocklist ls` shows the fenced clients.",
                code="not-fenced",
            )
        wait_until(
            self._clock,
            lambda: not set(order.client_addresses) & set(self._watchers(order)),
            what=f"the cluster to close {order.pool}/{order.image} for the fenced client",
            remedy=f"`rbd status {order.pool}/{order.image}` shows the clients of the image.",
            timeout_s=UNWATCH_TIMEOUT_S,
            interval_s=0.25,
        )

    def _break_lock(self, order: FenceOrder) -> None:
        for lock in self._images.clients(order.pool, order.image).locks:
            if lock.address in order.client_addresses:
                self._images.ensure_lock_absent(order.pool, order.image, lock)

    def _record(self, order: FenceOrder) -> None:
        record = self._records.find(order.name)
        if record is None:
            return
        fenced = record.fenced
        if order.host is not None and (order.client_addresses or order.removes_key):
            left = FencedAttachment(
                host=order.host,
                driver=order.driver,
                client_addresses=order.client_addresses,
                fenced_at=order.ordered_at,
                expires_at=order.ordered_at + timedelta(seconds=BLOCKLIST_EXPIRE_S),
            )
            fenced = (*(other for other in fenced if other != left), left)
        changes = {"host": None, "attachment": None, "fenced": fenced}
        record = note_current_log(record, "fenced").model_copy(update=changes)
        self._records.put(record)

    def _order(
        self, record: VolumeRecord, host: str | None, addresses: tuple[str, ...]
    ) -> FenceOrder:
        attachment = record.attachment
        return FenceOrder(
            name=record.spec.name,
            pool=record.spec.pool,
            image=record.spec.image,
            ceph_user=record.ceph_user,
            host=host,
            driver=attachment.driver if attachment else None,
            client_addresses=addresses,
            ordered_at=self._clock.now(),
        )

    def _find_needed_log(self, record: VolumeRecord) -> str | None:
        """The host whose log keeps a detached volume from being attached elsewhere."""
        log = find_current_log(record)
        if log is None or record.host is not None:
            return None
        metadata = self._images.metadata(record.spec.pool, record.spec.image)
        return log.host if parse_journal_facts(metadata).is_unapplied else None

    def _watchers(self, order: FenceOrder) -> list[str]:
        return self._images.watchers(order.pool, order.image)


def _require_fenced(record: VolumeRecord) -> None:
    """With nobody to cut off, a volume is fenced already, or cannot be."""
    name = record.spec.name
    if record.host is not None:
        raise RefusedError(
            f"The attach of '{name}' to {record.host} was interrupted before its client was "
            "known, and no client has the image open now.",
            f"Start {record.host} again, then run `grampus volume detach {name}`.",
            code="client-unknown",
        )
    if not record.fenced:
        raise RefusedError(
            f"The volume '{name}' is not attached, so there is no client to fence.",
            f"Attach the volume: `grampus volume attach {name} --host HOST`.",
            code="not-attached",
        )
