"""Backup schedules of databases: kept with them, and carried out by whoever calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from grampus.core.errors import GrampusError
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.archiving import BinlogArchiver
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.decide_schedule import (
    BackupSchedule,
    decide_due,
    decide_spent_pieces,
    require_backup_schedule,
)
from grampus.databases.backup.joining import BinlogJoiner, holding_logs
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupKind, BackupManifest
from grampus.databases.backup.opening import open_target
from grampus.databases.backup.owners import is_of, own_backups
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.schedule_steps import SCHEDULE_BACKUPS, BackupScheduleChange
from grampus.databases.backup.shared_credentials import (
    forget_credentials,
    renew_credentials,
    share_credentials,
)
from grampus.databases.backup.states import BackupStates
from grampus.databases.backup.stretch_names import owner_of_stretch
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations

# Of a database that nothing is written to: an object each time would be 43,200 a day.
COVERS_EVERY = timedelta(seconds=60)


@dataclass
class CarriedBackup:
    """What became of the backup schedule of one database."""

    database: str
    taken: str | None = None
    why: str = ""
    key_id: str = ""  # that it is sealed with
    deleted: list[str] = field(default_factory=list)  # backups and binary logs let go
    archived_bytes: int = 0
    archived_until: datetime | None = None
    problems: list[GrampusError] = field(default_factory=list)

    @property
    def is_quiet(self) -> bool:
        """Nothing was to be done."""
        return not (self.taken or self.deleted or self.archived_bytes or self.problems)


class BackupSchedules:
    """The backup schedules of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations
        self._states = BackupStates(operations)

    def get(self, name: str) -> BackupSchedule | None:
        """The database's schedule. Raises NotFoundError."""
        return self._operations.records.get(name).backup_schedule

    def _plan(self, name: str, schedule: BackupSchedule | None) -> BackupScheduleChange:
        record = self._operations.ready(name)
        if schedule is not None:
            require_backup_schedule(schedule)
            if schedule.object_lock_days is not None:
                open_target(schedule.place, self._operations.home).require_lockable()
            if schedule.archives:
                BinlogArchiver.require_flavour(record.spec.flavour)
        return BackupScheduleChange(database=name, schedule=schedule)

    def put(self, name: str, schedule: BackupSchedule | None) -> None:
        """Keep the schedule with the database; None: none.

        Raises NotFoundError, UsageError, RefusedError with code `not-ready`, or `flavour` when its
        binary logs cannot be archived.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            change, former = self._plan(name, schedule), self.get(name)
            if schedule is not None and not self._operations.runner.is_planning:
                share_credentials(self._operations.home, schedule.place)
            self._operations.run(SCHEDULE_BACKUPS, change)
        if former is not None:
            self._forget_credentials(former)

    def _forget_credentials(self, former: BackupSchedule) -> None:
        def used() -> Iterator[TargetPlace]:
            records = self._operations.records
            trashed = (one.record for one in records.all_trashed().values())
            for record in (*records.all().values(), *trashed):
                if record.backup_schedule is not None:
                    yield record.backup_schedule.place

        forget_credentials(self._operations.home, former.place, used())

    def archiving(self) -> dict[str, BackupSchedule]:
        """The schedules by which binary logs are archived now: nothing is committed elsewhere."""
        return {
            name: record.backup_schedule
            for name, record in self._operations.records.all().items()
            if record.backup_schedule is not None and _has_logs(record, record.backup_schedule)
        }

    def archive(self, name: str) -> CarriedBackup:
        """What `carry_out` does for the binary logs of one database, by its schedule."""
        one, record = CarriedBackup(name), self._operations.records.find(name)
        schedule = record.backup_schedule if record is not None else None
        # It may have been stopped or deleted since it was asked for.
        if record is not None and schedule is not None and _has_logs(record, schedule):
            with _told(one):
                self._archive(one, schedule, covers_every=COVERS_EVERY)
        return one

    def join_logs(self) -> list[CarriedBackup]:
        """Join the pieces of archived binary logs; one answer a database, quiet unless it failed.

        What fails with one keeps none of the others from its own.
        """
        carried = []
        for name, schedule in self.archiving().items():
            one = CarriedBackup(name)
            carried.append(one)
            with _told(one):
                BinlogJoiner(self._operations).join(name, schedule.place)
        return carried

    def scheduled(self) -> dict[str, BackupSchedule]:
        """The schedules by which backups are taken now."""
        return {
            name: record.backup_schedule
            for name, record in self._operations.records.all().items()
            if record.phase == "ready" and record.backup_schedule is not None
        }

    def plan_all(self) -> list[CarriedBackup]:
        """What `take` would do now, one answer a schedule."""
        planned = []
        for name, schedule in self.scheduled().items():
            one = CarriedBackup(name)
            planned.append(one)
            with _told(one):
                self._look(one, self._operations.records.get(name), schedule)
        return planned

    def take(self, name: str, *, with_logs: bool = True) -> CarriedBackup:
        """Take the backup of a database if it is due; archive its binary logs, `with_logs`.

        Where one was taken, pieces of archived logs are joined too. What fails is told in the
        answer; one whose backup is being taken is left to the next call.
        """
        one, record = CarriedBackup(name), self._operations.records.find(name)
        schedule = None if record is None else record.backup_schedule
        if record is None or schedule is None or record.phase != "ready":
            return one  # it was so when it was asked for
        renew_credentials(self._operations.home, schedule.place)
        with _told(one):
            self._take(one, record, schedule)
        if with_logs and _has_logs(record, schedule):
            with _told(one):
                self._archive(one, schedule)
            if one.taken is not None:  # seldom enough to list all of them
                with _told(one):
                    BinlogJoiner(self._operations).join(name, schedule.place)
        return one

    def let_go(self, one: CarriedBackup) -> None:
        """Delete what need not be kept, since `take` took a backup.

        After all backups of a place: nothing is deleted there while one is being taken.
        """
        record = self._operations.records.find(one.database)
        schedule = None if record is None else record.backup_schedule
        if one.taken is None or schedule is None or schedule.keep is None:
            return
        backups = DatabaseBackups(self._operations)
        with _told(one):
            deleted = backups.let_go(one.database, schedule.place, keep=schedule.keep)
            one.deleted += deleted
            if deleted and schedule.archives:
                one.deleted += self._let_logs_go(one.database, schedule, one.key_id)

    def _look(self, one: CarriedBackup, record: DatabaseRecord, schedule: BackupSchedule) -> None:
        if not self._is_due(record, schedule):
            return
        backups = DatabaseBackups(self._operations)
        wanted = self._wanted(record, schedule)
        plan = backups.plan_create(
            one.database, schedule.place, wanted=wanted, lock_days=schedule.object_lock_days
        )
        one.taken, one.why = plan.order.id, plan.why

    def _take(self, one: CarriedBackup, record: DatabaseRecord, schedule: BackupSchedule) -> None:
        if not self._is_due(record, schedule):
            return
        taken = DatabaseBackups(self._operations).create(
            one.database,
            schedule.place,
            wanted=self._wanted(record, schedule),
            lock_days=schedule.object_lock_days,
            patience_s=0.0,
        )
        one.taken, one.why, one.key_id = taken.manifest.id, taken.why, taken.manifest.key_id

    def _archive(
        self,
        one: CarriedBackup,
        schedule: BackupSchedule,
        *,
        covers_every: timedelta = timedelta(0),
    ) -> None:
        archived = BinlogArchiver(self._operations).archive(
            one.database, schedule.place, covers_every=covers_every
        )
        one.archived_bytes, one.archived_until = archived.copied_bytes, archived.until
        if archived.problem is not None:
            one.problems.append(archived.problem)

    def _let_logs_go(self, name: str, schedule: BackupSchedule, key_id: str) -> list[str]:
        """The archived binary logs that no backup of the database needs any more."""
        kept, operations = self._kept(schedule), self._operations
        keys, target_id = kept.keys, kept.target.ensure_id()
        record = operations.records.get(name)
        archive = BinlogArchive(
            *(kept.target, keys.get(key_id), name), others=keys.all(), database_id=record.id
        )
        with holding_logs(operations.home, operations.clock, target_id, name):
            return remove_spent_logs(kept, archive, record)

    def _is_due(self, record: DatabaseRecord, schedule: BackupSchedule) -> bool:
        state = self._states.find(record.spec.name, schedule.place)
        if schedule.archives and state is not None and state.needs_backup:
            return True  # the sooner it comes, the shorter is the time that cannot be restored
        last_at = state.last_taken_at if state is not None else None
        if last_at is None:
            last_at = max((b.taken_at for b in self._own(record, schedule)), default=None)
        return decide_due(schedule.every_s, last_at, self._operations.clock.now())

    def _wanted(self, record: DatabaseRecord, schedule: BackupSchedule) -> BackupKind | None:
        if schedule.full_every_s is None:
            return None
        fulls = [b.taken_at for b in self._own(record, schedule) if b.kind == "full"]
        now = self._operations.clock.now()
        is_due = decide_due(schedule.full_every_s, max(fulls, default=None), now)
        return "full" if is_due else None

    def _own(self, record: DatabaseRecord, schedule: BackupSchedule) -> list[BackupManifest]:
        """The backups of that very database in the schedule's place."""
        kept = self._kept(schedule)
        if kept.target.find_id() is None:
            return []
        return [
            backup
            for backup in kept.observe(record.spec.name).backups.values()
            if is_of(backup, record)
        ]

    def _kept(self, schedule: BackupSchedule) -> KeptBackups:
        return KeptBackups(self._operations.home, self._operations.clock, schedule.place)


def remove_spent_logs(
    kept: KeptBackups, archive: BinlogArchive, record: DatabaseRecord
) -> list[str]:
    """Delete what no backup of that very database needs any more, and say what."""
    name, contents = record.spec.name, kept.observe(record.spec.name)
    if contents.unreadable:
        return []  # what those need is not known
    own = own_backups(contents.backups, record).values()
    places = [backup.binlog for backup in own if backup.binlog]
    is_shared = len(own) < len(contents.backups) or archive.has_others()
    servers = {place.server_uuid for place in places}
    # A stretch of an earlier release may be another database's, which cannot be told but by that.
    stretches = [
        stretch
        for stretch in archive.stretches()
        if owner_of_stretch(stretch.id) or not is_shared or stretch.facts.server_uuid in servers
    ]
    spent = decide_spent_pieces(
        {s.id: [piece.file for piece in s.pieces] for s in stretches},
        {
            s.id: [at.file for at in places if at.server_uuid == s.facts.server_uuid]
            for s in stretches
        },
    )
    for stretch, files in spent.items():
        archive.remove(stretch, files)
    return [f"{name}/binlogs/{s}/{file}" for s, files in spent.items() for file in files]


def _has_logs(record: DatabaseRecord, schedule: BackupSchedule) -> bool:
    return schedule.archives and record.phase == "ready" and record.desired == "running"


@contextmanager
def _told(one: CarriedBackup) -> Iterator[None]:
    """What fails is told, and the next database has its turn."""
    try:
        yield
    except GrampusError as error:
        if error.code != "busy":
            one.problems.append(error)
