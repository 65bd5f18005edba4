"""What `grampus serve` does again and again: one line a job."""

from __future__ import annotations

from grampus.cli.composition.clones import due_flattening
from grampus.cli.composition.copies import (
    database_replicas,
    replica_renewals,
    snapshot_schedules,
)
from grampus.cli.composition.live import database_growth, database_migrations
from grampus.cli.composition.names import certificate_rotation, database_trash
from grampus.cli.composition.session import Session
from grampus.cli.composition.verify import scratch_leftovers
from grampus.cli.noting import note_records
from grampus.cli.serve_addresses import ADDRESSES_EVERY_S, announce_addresses
from grampus.cli.serve_backups import (
    ARCHIVE_EVERY_S,
    BACKUPS_EVERY_S,
    JOIN_EVERY_S,
    LOOK_PATIENCE_S,
    TESTS_EVERY_S,
    BinlogWatch,
    OpenSession,
    carry_out_tests,
    join_logs,
    take_backups,
)
from grampus.cli.serve_certificates import CERTIFICATES_EVERY_S, warn_of_expiry
from grampus.cli.serve_clients import CLIENTS_EVERY_S, ClientWatch
from grampus.cli.serve_endpoints import ENDPOINTS_EVERY_S, keep_endpoints
from grampus.cli.serve_entries import ENTRIES_EVERY_S, EntryWatch
from grampus.cli.serve_failover import FAILOVER_EVERY_S, FailoverWatch
from grampus.cli.serve_flattening import FLATTEN_EVERY_S, flatten_due
from grampus.cli.serve_history import HISTORY_EVERY_S, forget_all_operations
from grampus.cli.serve_home import HOME_EVERY_S, warn_of_home
from grampus.cli.serve_replicas import REPLICAS_EVERY_S, renew_replicas
from grampus.cli.serve_scratch import SCRATCH_EVERY_S, clear_scratch
from grampus.cli.serve_servers import SERVERS_EVERY_S, restart_servers
from grampus.cli.serve_trash import TRASH_EVERY_S, empty_trash
from grampus.cli.serve_volumes import VOLUMES_EVERY_S, warn_of_silence
from grampus.cli.serve_windows import WINDOWS_EVERY_S, restart_in_windows
from grampus.databases.binlog_keeping.keeper import RETENTION_EVERY_S, BinlogKeeper
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob
from grampus.databases.failed_servers import FailedServers
from grampus.databases.growth.decide_growth import LOOK_EVERY_S
from grampus.databases.growth.guard import GrowthGuard
from grampus.databases.live.window_restarts import WindowRestarts
from grampus.databases.snapshots.snapshot_schedules import Rest, SnapshotSchedules
from grampus.operations.operation_type import NOT_RECOVERED

NOTE_EVERY_S = 30.0


def due_jobs(open_session: OpenSession, *, once: bool = False) -> tuple[DueJob[Session], ...]:
    """Every job, made anew: one may remember what it saw the last time.

    `open_session` makes the sessions of what outlasts a run of its job; `once`, nothing does.
    """
    guard = GrowthGuard()
    rests: dict[str, Rest] = {}
    keeper = BinlogKeeper(stays=not once)
    windows = WindowRestarts()
    watch = BinlogWatch(open_session, patience_s=None if once else LOOK_PATIENCE_S)
    failovers = FailoverWatch(open_session, patience_s=None if once else LOOK_PATIENCE_S)
    clients = ClientWatch(open_session, patience_s=None if once else LOOK_PATIENCE_S)
    return (
        DueJob("failover", FAILOVER_EVERY_S, failovers.run),
        DueJob("clients", CLIENTS_EVERY_S, clients.run),
        DueJob("growth", LOOK_EVERY_S, lambda session: guard.run(database_growth(session))),
        DueJob("settle", 15.0, settle),
        DueJob(
            "servers",
            SERVERS_EVERY_S,
            lambda session: restart_servers(FailedServers(session.databases())),
        ),
        DueJob(
            "snapshots",
            60.0,
            lambda session: take_snapshots(snapshot_schedules(session, rests)),
        ),
        DueJob("backups", BACKUPS_EVERY_S, take_backups),
        DueJob("restore-tests", TESTS_EVERY_S, carry_out_tests),
        DueJob("binlogs", ARCHIVE_EVERY_S, watch.run),
        DueJob(
            "binlog-retention",
            RETENTION_EVERY_S,
            lambda session: keeper.run(session.databases().operations),
        ),
        DueJob("binlog-joins", JOIN_EVERY_S, join_logs),
        DueJob(
            "replicas", REPLICAS_EVERY_S, lambda session: renew_replicas(replica_renewals(session))
        ),
        DueJob(
            "endpoints",
            ENDPOINTS_EVERY_S,
            lambda session: keep_endpoints(database_replicas(session)),
        ),
        DueJob("entries", ENTRIES_EVERY_S, EntryWatch().run),
        DueJob("addresses", ADDRESSES_EVERY_S, announce_addresses),
        DueJob("flatten", FLATTEN_EVERY_S, lambda session: flatten_due(due_flattening(session))),
        DueJob(
            "scratch", SCRATCH_EVERY_S, lambda session: clear_scratch(scratch_leftovers(session))
        ),
        DueJob("volumes", VOLUMES_EVERY_S, warn_of_silence),
        DueJob(
            "windows",
            WINDOWS_EVERY_S,
            lambda session: restart_in_windows(windows, session.databases().operations),
        ),
        DueJob("trash", TRASH_EVERY_S, lambda session: empty_trash(database_trash(session))),
        DueJob(
            "certificates",
            CERTIFICATES_EVERY_S,
            lambda session: warn_of_expiry(certificate_rotation(session), session.clock.now()),
        ),
        DueJob("home", HOME_EVERY_S, warn_of_home),
        DueJob("facts", NOTE_EVERY_S, note_due),
        DueJob("history", HISTORY_EVERY_S, forget_all_operations),
    )


def settle(session: Session) -> list[ControllerEvent]:
    """Finish or undo what was cut off, as any command does first, and copy what migrates."""
    sentences = [
        *session.volumes().converge(completes=True),
        *session.databases().converge(retries=True),
    ]
    # A copy whose pool fills up has gone back.
    database_migrations(session).follow()
    done = [sentence for sentence in sentences if NOT_RECOVERED not in sentence]
    events = [ControllerEvent("", "settled", sentence) for sentence in done]
    left = [sentence for sentence in sentences if NOT_RECOVERED in sentence]
    if left:  # as one: the same will be said again until it is settled
        events.append(ControllerEvent("", "unsettled", " ".join(left), "failed"))
    return events


def take_snapshots(schedules: SnapshotSchedules) -> list[ControllerEvent]:
    """Take the snapshots that schedules want now, and let old ones go."""
    events = []
    for carried in schedules.carry_out():
        name = carried.database
        if carried.taken is not None:
            text = f"The schedule took the snapshot '{carried.taken}' of {name}."
            events.append(ControllerEvent(name, "snapshot-taken", text))
        if carried.deleted:
            text = f"Snapshots of {name} that the schedule does not keep were deleted: "
            text += f"{', '.join(carried.deleted)}."
            events.append(ControllerEvent(name, "snapshots-let-go", text))
        for snapshot, why in carried.kept.items():
            text = f"The snapshot '{snapshot}' of {name} could not be deleted: {why}"
            events.append(ControllerEvent(name, "snapshot-kept", text, "warning"))
        if carried.problem is not None:
            events.append(ControllerEvent(name, "failed", carried.problem, "failed"))
    return events


def note_due(session: Session) -> list[ControllerEvent]:
    """As a command does at its end, for what the controller changes."""
    note_records(session)
    return []
