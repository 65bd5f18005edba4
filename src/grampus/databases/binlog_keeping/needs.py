"""Who still needs binary logs of a database: its archive, and the replicas that follow it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from grampus.core.errors import GrampusError
from grampus.databases.administrator import Administrator, observer_of
from grampus.databases.backup.binlog_source import BinlogSource
from grampus.databases.backup.binlogs import parse_piece, require_same_history
from grampus.databases.backup.decide_schedule import BackupState
from grampus.databases.binlog_keeping.decide_purge import KeptLog, Need, find_first_needed
from grampus.databases.binlog_keeping.observing import archives, observe_previous
from grampus.databases.model import DatabaseRecord
from grampus.databases.replicas.gtid_sets import GtidSet, parse_gtid_set
from grampus.databases.replicas.replica_rules import replicas_of
from grampus.databases.replicas.replica_work import observe_position
from grampus.databases.step_ports import StepPorts


def observe_needs(
    ports: StepPorts,
    every: Mapping[str, DatabaseRecord],
    record: DatabaseRecord,
    logs: Sequence[KeptLog],
    administrator: Administrator,
    *,
    silent: Collection[str] = (),
) -> list[Need]:
    """Who needs which logs now. What cannot be found out is not known, and keeps all of them.

    `silent` are replicas that have just given no answer, and are not asked again.
    """
    needs = []
    previous: dict[str, GtidSet] = {}

    def previous_of(log: str) -> GtidSet:
        if log not in previous:
            previous[log] = observe_previous(administrator, log)
        return previous[log]

    if archives(ports, record):
        needs.append(Need("archive", first_log=_archived_log(ports, record, logs)))
    for name in replicas_of(every, record.spec.name):
        needs.append(Need("replica", name, is_away=True))
        executed = None if name in silent else _observe_executed(ports, every[name])
        if executed is not None:
            names = [log.name for log in logs]
            first = find_first_needed(names, executed, previous_of)
            # What its comparison with this primary has not read yet.
            seen_to = ports.records.replica_history(every[name]).seen_to
            if seen_to in names:
                first = names[min(names.index(first), names.index(seen_to))]
            needs[-1] = Need("replica", name, first_log=first)
    return needs


def _archived_log(ports: StepPorts, record: DatabaseRecord, logs: Sequence[KeptLog]) -> str | None:
    """The log in which the archive goes on; None: not known.

    A log of that name counts only if it holds what was archived of it: after a rollback or a reset
    the server numbers its logs again.
    """
    state, name = ports.records.backup_state(record), record.spec.name
    piece = _last_piece(record, state)
    if piece is None:
        return None
    found = parse_piece(piece)
    log = next((log for log in logs if found is not None and log.name == found.file), None)
    if found is None or log is None or log.size_bytes < found.end_bytes:
        return None
    try:
        source = BinlogSource(ports, record.spec)
        require_same_history(found, source.tail(found), name)
    except GrampusError:
        return None
    return log.name


def _last_piece(record: DatabaseRecord, state: BackupState | None) -> str | None:
    """The newest piece in the place where the database archives now."""
    schedule = record.backup_schedule
    if state is None or state.archive_end is None:
        return None
    if schedule is not None and schedule.archives and schedule.place.url != state.place:
        return None
    return state.archive_end.last_piece


def _observe_executed(ports: StepPorts, replica: DatabaseRecord) -> GtidSet | None:
    """What a replica has applied; None: it cannot be asked.

    What it has only received does not count: after a crash it asks for that again.
    """
    spec = replica.spec
    if replica.phase != "ready" or replica.desired != "running":
        return None
    if not ports.fleet.is_reachable(spec.host):
        return None
    try:
        position = observe_position(observer_of(ports, spec))
        return parse_gtid_set(spec.flavour, position.executed)
    except GrampusError:
        return None
