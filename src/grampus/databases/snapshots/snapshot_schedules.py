"""Snapshot schedules of databases: kept with them, and carried out by whoever calls."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.snapshots.decide_retention import (
    SCHEDULED_PREFIX,
    SnapshotSchedule,
    decide_due,
    decide_let_go,
    decide_next,
    name_at,
    require_schedule,
)
from grampus.databases.snapshots.snapshot_steps import (
    DELETE_SNAPSHOT,
    SCHEDULE_SNAPSHOTS,
    TAKE_SNAPSHOT,
    ScheduleChange,
    SnapshotOrder,
)
from grampus.volumes.model import SnapshotInfo

# Snapshots may be deleted by hand meanwhile.
LONGEST_REST = timedelta(hours=1)


@dataclass
class Carried:
    """What became of the schedule of one database."""

    database: str
    taken: str | None = None
    deleted: list[str] = field(default_factory=list)
    # Snapshots that were to be let go, and why they stay.
    kept: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def is_quiet(self) -> bool:
        """Nothing was to be done."""
        return not (self.taken or self.deleted or self.kept or self.problem)


@dataclass(frozen=True)
class Rest:
    """A database whose schedule wants nothing until then, as its snapshots were at that time."""

    id: str
    schedule: SnapshotSchedule
    since: datetime
    until: datetime


class SnapshotSchedules:
    """The snapshot schedules of the databases of one lab or cluster."""

    def __init__(
        self, operations: DatabaseOperations, rests: MutableMapping[str, Rest] | None = None
    ) -> None:
        """`rests` is what whoever looks again and again remembers from one time to the next: the
        cluster is then not asked each time for the snapshots of each database."""
        self._operations = operations
        self._rests = {} if rests is None else rests

    def get(self, name: str) -> SnapshotSchedule | None:
        """The database's schedule. Raises NotFoundError."""
        return self._operations.records.get(name).snapshot_schedule

    def plan(self, name: str, schedule: SnapshotSchedule | None) -> ScheduleChange:
        """The database with that schedule, or none.

        Raises NotFoundError, UsageError, RefusedError with code `not-ready`.
        """
        if schedule is not None:
            require_schedule(schedule)
        self._operations.ready(name)
        return ScheduleChange(database=name, schedule=schedule)

    def put(self, name: str, schedule: SnapshotSchedule | None) -> None:
        """Keep the schedule with the database. Raises what `plan` raises."""
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(SCHEDULE_SNAPSHOTS, self.plan(name, schedule))

    def carry_out(self, *, changes_nothing: bool = False) -> list[Carried]:
        """Take what is due now, and let go what need not be kept; one answer a schedule.

        What fails with one database keeps none of the others from its own. One that another
        command works on is left to the next call. With `changes_nothing`, says what would be done.
        """
        return [
            self._carry_out(name, record.snapshot_schedule, changes_nothing=changes_nothing)
            for name, record in self._operations.records.all().items()
            if record.phase == "ready"
            and record.snapshot_schedule is not None
            and not self._rests_now(record)
        ]

    def _rests_now(self, record: DatabaseRecord) -> bool:
        rest, now = self._rests.get(record.spec.name), self._operations.clock.now()
        if rest is None or (rest.id, rest.schedule) != (record.id, record.snapshot_schedule):
            return False
        return rest.since <= now < rest.until

    def _carry_out(
        self, name: str, schedule: SnapshotSchedule, *, changes_nothing: bool
    ) -> Carried:
        carried = Carried(name)
        try:
            if changes_nothing:
                self._look(carried, schedule)
                return carried
            with self._operations.locked(name, timeout_s=0.0):
                self._operations.settle(name)
                record = self._operations.records.find(name)
                if record is not None and record.snapshot_schedule == schedule:
                    found = self._take(carried, schedule)
                    self._let_go(carried, schedule, found)
                    self._note_rest(record, carried, schedule, found)
        except GrampusError as error:
            carried.problem = str(error)
        return carried

    def _look(self, carried: Carried, schedule: SnapshotSchedule) -> None:
        now, volumes = self._operations.clock.now(), self._operations.volumes
        found = volumes.snapshots(carried.database)
        if decide_due(schedule, found, now):
            carried.taken = name_at(SCHEDULED_PREFIX, now)
        carried.deleted = [snapshot.name for snapshot in decide_let_go(schedule, found)]

    def _note_rest(
        self,
        record: DatabaseRecord,
        carried: Carried,
        schedule: SnapshotSchedule,
        found: Sequence[SnapshotInfo],
    ) -> None:
        name, now = carried.database, self._operations.clock.now()
        self._rests.pop(name, None)
        if not carried.kept:  # what could not be deleted is tried, and reported, each time
            until = min(decide_next(schedule, found, now), now + LONGEST_REST)
            self._rests[name] = Rest(record.id, schedule, now, until)

    def _take(self, carried: Carried, schedule: SnapshotSchedule) -> Sequence[SnapshotInfo]:
        """The snapshots that there are then."""
        name, now = carried.database, self._operations.clock.now()
        found = self._operations.volumes.snapshots(name)
        if not decide_due(schedule, found, now):
            return found
        snapshot = name_at(SCHEDULED_PREFIX, now)
        self._operations.progress.phase(f"Take the snapshot {snapshot} of {name}")
        self._operations.run(TAKE_SNAPSHOT, SnapshotOrder(database=name, snapshot=snapshot))
        carried.taken = snapshot
        return self._operations.volumes.snapshots(name)

    def _let_go(
        self, carried: Carried, schedule: SnapshotSchedule, found: Sequence[SnapshotInfo]
    ) -> None:
        name, volumes = carried.database, self._operations.volumes
        for snapshot in decide_let_go(schedule, found):
            try:
                volumes.require_snapshot_removable(name, snapshot.name)
            except RefusedError as error:
                carried.kept[snapshot.name] = error.problem
                continue
            order = SnapshotOrder(database=name, snapshot=snapshot.name)
            self._operations.run(DELETE_SNAPSHOT, order)
            carried.deleted.append(snapshot.name)
