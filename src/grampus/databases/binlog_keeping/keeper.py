"""Keeps binary logs as long as they are needed, and within their room: looks, decides, deletes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError
from grampus.core.units import format_bytes
from grampus.databases.administrator import Administrator, administrator_of, observer_of
from grampus.databases.binlog_keeping.decide_purge import (
    LOGS_HELD,
    Held,
    KeptLog,
    LogRoom,
    Need,
    Purge,
    decide_purge,
)
from grampus.databases.binlog_keeping.expiry import apply_expiry, retention_of
from grampus.databases.binlog_keeping.needs import observe_needs
from grampus.databases.binlog_keeping.observing import observe_logs, possible_needs
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.growth.file_systems import Mount, observe_mounts
from grampus.databases.growth.growth import find_mount, reserve_of
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.settings import settings_of

RETENTION_EVERY_S = 30.0
# How often a server is told again when it may delete by itself; `LEASE_S` is twice that.
_TOLD_AGAIN = timedelta(minutes=30)
# Of a file system; a small volume would otherwise be nearly full from the beginning.
_MAX_LOW_RATIO = 0.3


@dataclass(frozen=True)
class LogsView:
    """The binary logs of a running database, for whoever wants to see them."""

    logs: Sequence[KeptLog]
    retention_s: int
    room: LogRoom
    held: Sequence[Held]

    @property
    def size_bytes(self) -> int:
        return sum(log.size_bytes for log in self.logs)


@dataclass(frozen=True)
class _Told:
    """What a server was told last about deleting logs by itself."""

    at: datetime
    needs: tuple[tuple[str, str], ...]  # what it was decided from


class BinlogKeeper:
    """The binary logs of all databases. One lives as long as the controller: it remembers."""

    def __init__(self, *, stays: bool = True) -> None:
        """`stays`: it looks again before long. One of a single command does not."""
        self._stays = stays
        self._told: dict[str, _Told] = {}

    def run(
        self, operations: DatabaseOperations, only: Sequence[str] | None = None
    ) -> list[ControllerEvent]:
        """One look at each database (`only` these), and what may be deleted is.

        What fails with one keeps none of the others from its own.
        """
        every = _records(operations, only)
        records = {
            name: record
            for name, record in every.items()
            if record.phase == "ready"
            and record.desired == "running"
            and (only is None or name in only)
        }
        events: list[ControllerEvent] = []
        for host in sorted({record.spec.host for record in records.values()}):
            here = {name: one for name, one in records.items() if one.spec.host == host}
            try:
                found = _observe(operations, host, here)
            except GrampusError as error:
                events.append(failure_of("", error))
                continue
            for name, (mount, logs) in found.items():
                try:
                    events += self._look_after(operations, every, here[name], mount, logs)
                except GrampusError as error:
                    events.append(failure_of(name, error))
        if only is None:
            self._told = {name: told for name, told in self._told.items() if name in records}
        return events

    def relieve(
        self, operations: DatabaseOperations, record: DatabaseRecord, mount: Mount
    ) -> tuple[int, list[ControllerEvent]]:
        """Delete at once what nobody may need, on a volume that is nearly full; the bytes freed.

        Nobody is asked: who follows or archives keeps its logs until the next look. Raises what
        `Administrator.query` raises.
        """
        attachment = operations.volumes.get(record.spec.name).attachment
        every = operations.records.family(record.spec.name)
        if attachment is None or possible_needs(operations.ports, every, record):
            return 0, []
        path = PurePosixPath(attachment.mount_path)
        logs = observe_logs(operations.fleet.host(record.spec.host), [path]).get(path, ())
        purge = _decide(operations, record, logs, (), _room(record, mount))
        if purge.keep_from is None:
            return 0, []
        _ensure_purged(observer_of(operations.ports, record.spec), purge.keep_from)
        is_told = purge.is_retention_cut and _is_asked_for(record)
        return purge.freed_bytes, [_cut_event(record.spec.name)] if is_told else []

    def view(
        self,
        operations: DatabaseOperations,
        record: DatabaseRecord,
        *,
        silent: Collection[str] = (),
    ) -> LogsView | None:
        """What a database keeps; None: it is not running here. Raises what a look raises.

        `silent` as in `observe_needs`.
        """
        name = record.spec.name
        found = _observe(operations, record.spec.host, {name: record})
        if name not in found:
            return None
        mount, logs = found[name]
        administrator = observer_of(operations.ports, record.spec)
        every = operations.records.family(record.spec.name)
        needs = observe_needs(operations.ports, every, record, logs, administrator, silent=silent)
        room = _room(record, mount)
        purge = _decide(operations, record, logs, needs, room)
        return LogsView(logs, retention_of(record.spec), room, purge.held)

    def _look_after(
        self,
        operations: DatabaseOperations,
        every: Mapping[str, DatabaseRecord],
        record: DatabaseRecord,
        mount: Mount,
        logs: Sequence[KeptLog],
    ) -> list[ControllerEvent]:
        if len(logs) < 2:
            return []  # nobody can delete the log that is written to: the server is not asked
        name, room = record.spec.name, _room(record, mount)
        possible = possible_needs(operations.ports, every, record)
        self._tell(operations, record, logs, possible)
        cautious = _decide(operations, record, logs, possible, room)
        if _decide(operations, record, logs, (), room).keep_from is None and not any(
            held.is_to_be_warned_of for held in cautious.held
        ):
            return []  # nothing may go, whoever needs it, and nothing is to be said of it
        administrator = administrator_of(operations.ports, record.spec)
        needs = observe_needs(operations.ports, every, record, logs, administrator)
        purge = _decide(operations, record, logs, needs, room)
        events = [_held_event(name, held) for held in purge.held if held.is_to_be_warned_of]
        if purge.keep_from is not None:
            _ensure_purged(administrator, purge.keep_from)
            events += [_given_up_event(name, need) for need in purge.given_up]
            if purge.is_retention_cut and _is_asked_for(record):
                events.append(_cut_event(name))
        return events

    def _tell(
        self,
        operations: DatabaseOperations,
        record: DatabaseRecord,
        logs: Sequence[KeptLog],
        needs: Sequence[Need],
    ) -> None:
        now, name = operations.clock.now(), record.spec.name
        told = self._told.get(name)
        retention = ("retention", str(record.spec.binlog_retention_s))
        who = (retention, *((need.who, need.name) for need in needs))
        if told is not None and told.needs == who and now - told.at < _TOLD_AGAIN:
            return
        is_needed = self._stays or bool(needs)
        apply_expiry(operations.ports, record.spec, logs, is_needed=is_needed)
        self._told[name] = _Told(now, who)


def _records(
    operations: DatabaseOperations, only: Sequence[str] | None
) -> dict[str, DatabaseRecord]:
    """Those of all databases, or `only` these and what follows them or is followed (INV-84)."""
    if only is None:
        return operations.records.all()
    every: dict[str, DatabaseRecord] = {}
    for name in only:
        every |= operations.records.family(name)
    return every


def _observe(
    operations: DatabaseOperations, host: str, records: Mapping[str, DatabaseRecord]
) -> dict[str, tuple[Mount, Sequence[KeptLog]]]:
    """The mounts and binary logs of the databases of one host whose volumes are mounted there."""
    operations.require_reachable(host)
    port = operations.fleet.host(host)
    mounted = observe_mounts(port)
    found: dict[str, tuple[PurePosixPath, Mount]] = {}
    for name, record in records.items():
        mount = find_mount(operations, record, mounted)
        attachment = operations.volumes.get(name).attachment if mount is not None else None
        if mount is not None and attachment is not None:
            found[name] = PurePosixPath(attachment.mount_path), mount
    logs = observe_logs(port, [path for path, _ in found.values()])
    return {name: (mount, logs.get(path, ())) for name, (path, mount) in found.items()}


def _is_asked_for(record: DatabaseRecord) -> bool:
    """Whether its user said for how long its binary logs are kept, and it is no replica."""
    return record.spec.binlog_retention_s is not None and record.spec.replica_of is None


def _room(record: DatabaseRecord, mount: Mount) -> LogRoom:
    settings, file_system = settings_of(record.spec), mount.file_system
    low_bytes = min(2 * reserve_of(record).bare_bytes, int(file_system.size_bytes * _MAX_LOW_RATIO))
    return LogRoom(settings.binlog_total_bytes, file_system.free_bytes, low_bytes)


def _decide(
    operations: DatabaseOperations,
    record: DatabaseRecord,
    logs: Sequence[KeptLog],
    needs: Sequence[Need],
    room: LogRoom,
) -> Purge:
    return decide_purge(
        logs, needs, room, retention_s=retention_of(record.spec), now=operations.clock.now()
    )


def _ensure_purged(administrator: Administrator, keep_from: str) -> None:
    """Logs before that one are gone. The server keeps one that a connected replica reads."""
    administrator.query(f"PURGE BINARY LOGS TO '{keep_from}'")


def _held_event(database: str, held: Held) -> ControllerEvent:
    bound = format_bytes(held.bound_bytes)
    details = {"held_bytes": held.size_bytes, "bound_bytes": held.bound_bytes}
    name, need = database, held.need
    if need.who == "archive":
        text = (
            f"Binary logs of {name} that are not archived use most of their space limit of {bound}."
        )
        remedy = (
            "Grampus deletes them when they reach the limit, and the archive then has a gap. "
            f"`grampus db show {name}` shows why they are not archived. `grampus db resize "
            f"{name} --size SIZE` raises the limit."
        )
    else:
        text = (
            f"Binary logs of {name} kept for {need.words} use most of their space limit of {bound}."
        )
        remedy = (
            "Grampus deletes them when they reach the limit, and the replica must then be "
            f"renewed. `grampus db start {need.name}` starts it. `grampus db replica remove "
            f"{need.name} --yes` removes it."
        )
    # An id for each that is warned of: several can hold logs of one database.
    kind = f"{LOGS_HELD}-{need.name}" if need.name else LOGS_HELD
    return ControllerEvent(database, kind, text, "warning", details, remedy)


def _given_up_event(database: str, need: Need) -> ControllerEvent:
    if need.who == "archive":
        text = (
            f"Binary logs of {database} were deleted before they were archived, because they "
            "reached their space limit: moments between the end of the archive and the next "
            "backup cannot be restored."
        )
        remedy = f"Take a backup now: `grampus db backup create {database} --to PLACE`."
        return ControllerEvent(database, "archive-gave-way", text, "warning", {}, remedy)
    text = (
        f"Binary logs of {database} that {need.words} may need were deleted, because they "
        "reached their space limit."
    )
    remedy = (
        f"`grampus db replica list {database}` shows whether it can catch up. If not, "
        f"`grampus serve` renews it, or `grampus db replica renew {need.name}`."
    )
    return ControllerEvent(database, f"replica-gave-way-{need.name}", text, "warning", {}, remedy)


def _cut_event(database: str) -> ControllerEvent:
    text = (
        f"Binary logs of {database} were deleted before the end of their retention, because "
        "they reached their space limit."
    )
    remedy = f"`grampus db resize {database} --size SIZE` raises the limit."
    return ControllerEvent(database, "retention-cut", text, "warning", {}, remedy)
