"""The records of databases and scratch instances, and the addresses they hold."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from grampus.core.errors import not_found
from grampus.databases.backup.decide_schedule import ArchiveChecks, BackupState
from grampus.databases.model import (
    Announced,
    DatabaseRecord,
    DatabaseSpec,
    Entry,
    EntryPort,
    HostMaintenance,
    LeftInstance,
    OpenedReplica,
    PromotedEvents,
    ReadEndpoint,
    ReplicaHistory,
    ScratchSpec,
    TrashedDatabase,
    held_port,
)
from grampus.databases.server_end import ServerFailure
from grampus.state.store import Store

DATABASE_KIND = "database"
SCRATCH_KIND = "scratch-instance"
TRASHED_KIND = "trashed-database"
BACKUP_STATE_KIND = "backup-state"
READ_ENDPOINT_KIND = "read-endpoint"
REPLICA_HISTORY_KIND = "replica-history"
LEFT_KIND = "left-instance"
OPENED_KIND = "opened-replica"
PROMOTED_EVENTS_KIND = "promoted-events"
FAILURE_KIND = "server-failure"
MAINTENANCE_KIND = "host-maintenance"
ARCHIVE_CHECKS_KIND = "archive-checks"
ANNOUNCED_KIND = "announced-address"
ENTRY_KIND = "entry"
ENTRY_PORT_KIND = "entry-port"
_OF_ALL = "serve"
# What is kept beside the record of a database, under its name, and goes where that goes: to
# another name, and with the database. `tests/unit/databases/names/test_carried.py` has a word on
# every kind of record that there is.
CARRIED_KINDS = (
    BACKUP_STATE_KIND,
    READ_ENDPOINT_KIND,
    REPLICA_HISTORY_KIND,
    PROMOTED_EVENTS_KIND,
    FAILURE_KIND,
    ANNOUNCED_KIND,
    ENTRY_PORT_KIND,
)
_CARRY = "UPDATE OR REPLACE records SET name = ? WHERE lab = ? AND kind = ? AND name = ?"


@dataclass(frozen=True)
class RunningPlace:
    """Where a database that must run is served."""

    host: str
    place: str  # `ADDRESS:PORT`


class DatabaseRecords:
    """What is remembered of the databases of one lab."""

    def __init__(self, store: Store, lab: str) -> None:
        self._store = store
        self._lab = lab

    def all(self) -> dict[str, DatabaseRecord]:
        """Every record by name, also of databases being made or removed."""
        return self._store.all(DATABASE_KIND, self._lab, DatabaseRecord)

    def names(self) -> list[str]:
        """The names of all databases, sorted; no record is parsed."""
        return self._store.names(DATABASE_KIND, self._lab)

    def hosts(self) -> dict[str, str]:
        """The host of each database by name; no record is parsed."""
        return self._store.field(DATABASE_KIND, self._lab, "$.spec.host")

    def at_address_of(self, host: str) -> list[str]:
        """The databases on a host that have its address; no record is parsed."""
        kinds = self._store.field(DATABASE_KIND, self._lab, "$.spec.address_kind")
        here = (name for name, where in self.hosts().items() if where == host)
        return [name for name in here if kinds.get(name) == "host"]

    def named_images(self) -> set[str]:
        """The host images that databases name beside those of their hosts; no record is parsed."""
        found = self._store.field(DATABASE_KIND, self._lab, "$.spec.image_id")
        return {image_id for image_id in found.values() if image_id}

    def running_places(self) -> dict[str, RunningPlace]:
        """Where each database is served that is ready and must run; no record is parsed."""
        hosts, addresses, ports, phases, desired = (
            self._store.field(DATABASE_KIND, self._lab, f"$.{path}")
            for path in ("spec.host", "spec.address", "spec.port", "phase", "desired")
        )
        return {
            name: RunningPlace(host, f"{addresses.get(name)}:{ports.get(name)}")
            for name, host in hosts.items()
            if phases.get(name) == "ready" and desired.get(name) == "running"
        }

    def maintenance_windows(self) -> dict[str, str]:
        """The window of each database that has one, by name; no record is parsed."""
        found = self._store.field(DATABASE_KIND, self._lab, "$.spec.maintenance_window")
        return {name: window for name, window in found.items() if window}

    def followers(self, name: str) -> dict[str, DatabaseRecord]:
        """The replicas of a database by name."""
        primaries = self._store.field(DATABASE_KIND, self._lab, "$.spec.replica_of")
        found = {one: self.find(one) for one, primary in primaries.items() if primary == name}
        return {one: record for one, record in found.items() if record is not None}

    def family(self, name: str) -> dict[str, DatabaseRecord]:
        """The database, if there is one, and its replicas, by name.

        What forbids an operation on a database is decided from these alone, so that it takes no
        longer the more other databases there are.
        """
        record = self.find(name)
        return self.followers(name) | ({} if record is None else {name: record})

    def replica_names(self) -> list[str]:
        """The names of all databases that follow another one."""
        primaries = self._store.field(DATABASE_KIND, self._lab, "$.spec.replica_of")
        return [name for name, primary in primaries.items() if primary]

    def idle_endpoints(self) -> list[str]:
        """The databases whose read-only endpoint is served though no replica follows them."""
        hosts = self._store.field(READ_ENDPOINT_KIND, self._lab, "$.host")
        primaries = set(self._store.field(DATABASE_KIND, self._lab, "$.spec.replica_of").values())
        return [name for name, host in hosts.items() if host is not None and name not in primaries]

    def names_without_id(self) -> list[str]:
        """The databases of an older release that have no id yet."""
        ids = self._store.field(DATABASE_KIND, self._lab, "$.id")
        return [name for name, known in ids.items() if not known]

    def find(self, name: str) -> DatabaseRecord | None:
        return self._store.get(DATABASE_KIND, self._lab, name, DatabaseRecord)

    def get(self, name: str) -> DatabaseRecord:
        """The record. Raises NotFoundError with the closest name there is."""
        record = self.find(name)
        if record is None:
            raise not_found("database", name, self.names(), list_command="grampus db list")
        return record

    def put(self, record: DatabaseRecord) -> None:
        self._store.put(DATABASE_KIND, self._lab, record.spec.name, record)

    def change(self, name: str, **changes: object) -> None:
        """Replace fields of the record, if there is one."""
        record = self.find(name)
        if record is not None:
            self.put(record.model_copy(update=changes))

    def ensure_id(self, name: str) -> None:
        """Give the record of an older release its id, if there is one; its lock is held."""
        record = self.find(name)
        if record is not None and not record.id:
            self.put(record.model_copy(update={"id": new_database_id()}))

    def remove(self, name: str) -> None:
        for kind in (DATABASE_KIND, *CARRIED_KINDS):
            self._store.remove(kind, self._lab, name)

    def rename(self, former: str, to: DatabaseSpec) -> None:
        """The record of `former`, and all that is kept beside it, as those of `to`.

        May be repeated, also after it was cut off. Histories are not records: operations and
        warnings keep the name of their time, and `DatabaseEvents` finds them by it.
        """
        record = self.find(former)
        if record is None:
            return
        self.put(record.model_copy(update={"spec": to}))
        moved = [(to.name, self._lab, kind, former) for kind in CARRIED_KINDS]
        self._store.change(lambda connection: connection.executemany(_CARRY, moved))
        self._store.remove(DATABASE_KIND, self._lab, former)

    def replica_history(self, record: DatabaseRecord) -> ReplicaHistory:
        """What comparisons of a replica with its primary found since it was last filled.

        Not in its record: it is compared beside changes of the database.
        """
        filled, name = _filled(record), record.spec.name
        found = self._store.get(REPLICA_HISTORY_KIND, self._lab, name, ReplicaHistory)
        if found is None or found.filled != filled:
            return ReplicaHistory(filled=filled)
        return found

    def promoted_events(self, record: DatabaseRecord) -> PromotedEvents:
        """What the promotion of a replica did with its events."""
        filled, name = _filled(record), record.spec.name
        found = self._store.get(PROMOTED_EVENTS_KIND, self._lab, name, PromotedEvents)
        if found is None or found.filled != filled:
            return PromotedEvents(filled=filled)
        return found

    def put_promoted_events(self, name: str, events: PromotedEvents) -> None:
        self._store.put(PROMOTED_EVENTS_KIND, self._lab, name, events)

    def put_replica_history(self, name: str, history: ReplicaHistory) -> None:
        self._store.put(REPLICA_HISTORY_KIND, self._lab, name, history)

    def backup_state(self, record: DatabaseRecord) -> BackupState | None:
        """What is remembered of its backups. Not in its record: backups run beside its changes."""
        name = record.spec.name
        found = self._store.get(BACKUP_STATE_KIND, self._lab, name, BackupState)
        return found if found is not None and found.created_at == record.created_at else None

    def put_backup_state(self, name: str, state: BackupState) -> None:
        """What moves with every look at the binary logs, the place itself says: a rebuilt state
        has it again after the first look, so it is not noted on the image each time."""
        former = self._store.get(BACKUP_STATE_KIND, self._lab, name, BackupState)
        is_noted = former is None or former.without_looks() != state.without_looks()
        self._store.put(BACKUP_STATE_KIND, self._lab, name, state, is_noted=is_noted)

    def archive_checks(self) -> ArchiveChecks:
        """When the binary logs of each database were last seen to be archived."""
        found = self._store.get(ARCHIVE_CHECKS_KIND, self._lab, _OF_ALL, ArchiveChecks)
        return found or ArchiveChecks(until={})

    def put_archive_checks(self, checks: ArchiveChecks) -> None:
        self._store.put(ARCHIVE_CHECKS_KIND, self._lab, _OF_ALL, checks, is_noted=False)

    def all_read_endpoints(self) -> dict[str, ReadEndpoint]:
        """Read-only endpoints by their database's name."""
        return self._store.all(READ_ENDPOINT_KIND, self._lab, ReadEndpoint)

    def find_read_endpoint(self, name: str) -> ReadEndpoint | None:
        """The read-only endpoint of the database; None: it never had a replica.

        Not in its record: it is kept up beside changes of the database.
        """
        return self._store.get(READ_ENDPOINT_KIND, self._lab, name, ReadEndpoint)

    def put_read_endpoint(self, name: str, endpoint: ReadEndpoint) -> None:
        self._store.put(READ_ENDPOINT_KIND, self._lab, name, endpoint)

    def remove_read_endpoint(self, name: str) -> None:
        self._store.remove(READ_ENDPOINT_KIND, self._lab, name)

    def find_entry(self) -> Entry | None:
        """The read-write entry of the site; None: it never had one."""
        return self._store.get(ENTRY_KIND, self._lab, _OF_ALL, Entry)

    def put_entry(self, entry: Entry) -> None:
        self._store.put(ENTRY_KIND, self._lab, _OF_ALL, entry)

    def entry_ports(self) -> dict[str, int]:
        """The ports of databases at the entry, by their names."""
        known = self._store.all(ENTRY_PORT_KIND, self._lab, EntryPort)
        return {name: one.port for name, one in known.items()}

    def put_entry_port(self, name: str, port: int) -> None:
        self._store.put(ENTRY_PORT_KIND, self._lab, name, EntryPort(port=port))

    def find_failure(self, name: str) -> ServerFailure | None:
        """What the controller knows of a server that failed. Not in the record: no fact of it."""
        return self._store.get(FAILURE_KIND, self._lab, name, ServerFailure)

    def failed_names(self) -> set[str]:
        """The databases of which `find_failure` knows something."""
        return set(self._store.names(FAILURE_KIND, self._lab))

    def put_failure(self, name: str, failure: ServerFailure) -> None:
        self._store.put(FAILURE_KIND, self._lab, name, failure)

    def remove_failure(self, name: str) -> None:
        if self.find_failure(name) is not None:
            self._store.remove(FAILURE_KIND, self._lab, name)

    def primaries(self) -> dict[str, str | None]:
        """The database that each one follows, by name; no record is parsed."""
        return self._store.field(DATABASE_KIND, self._lab, "$.spec.replica_of")

    def all_announced(self) -> dict[str, Announced]:
        """What the address hook of the site was told, by the names of databases."""
        return self._store.all(ANNOUNCED_KIND, self._lab, Announced)

    def announced(self, name: str) -> Announced:
        """The same of one database."""
        return self._store.get(ANNOUNCED_KIND, self._lab, name, Announced) or Announced()

    def put_announced(self, name: str, announced: Announced) -> None:
        # Not noted on the image: after a rebuild of the state, the hook is told all again.
        self._store.put(ANNOUNCED_KIND, self._lab, name, announced, is_noted=False)

    def find_scratch(self, name: str) -> ScratchSpec | None:
        """The scratch instance of the database `name`."""
        return self._store.get(SCRATCH_KIND, self._lab, name, ScratchSpec)

    def all_scratch(self) -> dict[str, ScratchSpec]:
        """Scratch instances by their database's name."""
        return self._store.all(SCRATCH_KIND, self._lab, ScratchSpec)

    def put_scratch(self, scratch: ScratchSpec) -> None:
        self._store.put(SCRATCH_KIND, self._lab, scratch.database.name, scratch)

    def remove_scratch(self, name: str) -> None:
        self._store.remove(SCRATCH_KIND, self._lab, name)

    def all_trashed(self) -> dict[str, TrashedDatabase]:
        """Databases in the trash by their keys, which sort by name, then by age."""
        return self._store.all(TRASHED_KIND, self._lab, TrashedDatabase)

    def trashed_names(self) -> set[str]:
        """The names that databases in the trash had."""
        return set(self._store.field(TRASHED_KIND, self._lab, "$.record.spec.name").values())

    def find_trashed(self, key: str) -> TrashedDatabase | None:
        return self._store.get(TRASHED_KIND, self._lab, key, TrashedDatabase)

    def put_trashed(self, trashed: TrashedDatabase) -> None:
        self._store.put(TRASHED_KIND, self._lab, trashed.key, trashed)

    def remove_trashed(self, key: str) -> None:
        self._store.remove(TRASHED_KIND, self._lab, key)

    def all_left(self) -> list[LeftInstance]:
        """What databases left on hosts that were lost, by host and database."""
        return list(self._store.all(LEFT_KIND, self._lab, LeftInstance).values())

    def put_left(self, left: LeftInstance) -> None:
        self._store.put(LEFT_KIND, self._lab, left.key, left)

    def remove_left(self, left: LeftInstance) -> None:
        self._store.remove(LEFT_KIND, self._lab, left.key)

    def all_maintenance(self) -> dict[str, HostMaintenance]:
        """The hosts in maintenance, by name."""
        return self._store.all(MAINTENANCE_KIND, self._lab, HostMaintenance)

    def put_maintenance(self, maintenance: HostMaintenance) -> None:
        self._store.put(MAINTENANCE_KIND, self._lab, maintenance.host, maintenance)

    def remove_maintenance(self, host: str) -> None:
        self._store.remove(MAINTENANCE_KIND, self._lab, host)

    def all_opened(self) -> list[OpenedReplica]:
        """Replicas that Grampus may write to, or could when a command was killed."""
        return list(self._store.all(OPENED_KIND, self._lab, OpenedReplica).values())

    def put_opened(self, opened: OpenedReplica) -> None:
        self._store.put(OPENED_KIND, self._lab, opened.name, opened)

    def remove_opened(self, name: str) -> None:
        self._store.remove(OPENED_KIND, self._lab, name)

    def addresses(self) -> set[str]:
        """What a database, an endpoint of one or a scratch instance holds, whether it runs or not:
        a floating address, or a port as `held_port`."""
        kinds = self._store.field(DATABASE_KIND, self._lab, "$.spec.address_kind")
        held = set()
        for kind, at in ((DATABASE_KIND, "$.spec"), (READ_ENDPOINT_KIND, "$"), (SCRATCH_KIND, "$")):
            addresses = self._store.field(kind, self._lab, f"{at}.address")
            ports = self._store.field(kind, self._lab, f"{at}.port")
            for name, address in addresses.items():
                # Of a database the port is always there, of the others only where it is their own.
                is_port = kinds.get(name) == "host" if kind == DATABASE_KIND else ports.get(name)
                held.add(held_port(ports[name]) if is_port else address)
        return held


def _filled(record: DatabaseRecord) -> str:
    """When a replica was filled last: a name may be another replica's later on."""
    return (record.renewed_at or record.created_at).isoformat()


def render_labels(labels: Mapping[str, str]) -> str:
    """Labels in one line, sorted: `env=prod,team=web`."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def new_database_id() -> str:
    """An id that no other database has, in any state or cluster."""
    return uuid.uuid4().hex


def describe_facts(spec: DatabaseSpec, owner: str, database_id: str) -> dict[str, str]:
    """What the image's metadata says, enough to find and rebuild the database's record.

    An empty fact is removed from the image.
    """
    return {
        "database": spec.name,
        "database-id": database_id,
        "flavour": spec.flavour,
        "size-bytes": str(spec.size_bytes),
        "memory-bytes": str(spec.memory_bytes),
        "cpus": f"{spec.cpus:g}",
        "host": spec.host,
        "address": spec.address,
        "port": str(spec.port),
        "address-kind": "host" if spec.shares_address else "",
        "server-id": str(spec.server_id),
        "owner": owner,
        "protected": "yes" if spec.protected else "no",
        "write-path": spec.write_path,
        "max-lag-ms": str(spec.max_lag_ms),
        "labels": render_labels(spec.labels) or "none",  # rbd takes no empty value
        "parameters": json.dumps(spec.parameters, sort_keys=True),
        "replica-of": spec.replica_of or "none",
        "renew-every-s": str(spec.renew_every_s or 0),
    }
