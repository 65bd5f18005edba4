"""What `grampus serve` does for backups: takes those that are due, and archives binary logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from grampus.cli.composition.backups import backup_schedules
from grampus.cli.composition.session import Session
from grampus.cli.due_backups import carry_out_due_tests, take_due_backups
from grampus.core.clock import format_duration
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.backup.decide_schedule import ArchiveChecks
from grampus.databases.backup.quiet_logs import QuietLogs
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.controller.side_by_side import SideBySide
from grampus.databases.records import DatabaseRecords

# What is lost with a server and its volume is at most so old; a look takes up to some seconds.
ARCHIVE_EVERY_S = 2.0
ARCHIVE_LAG_S = 5.0
# Of the databases whose binary logs go to one place.
LOOKS_AT_ONCE = 4
# Nearly all looks are over by then, and told at once.
LOOK_PATIENCE_S = 1.5
# What is joined stays beside its parts until the next time, for whoever reads them meanwhile.
JOIN_EVERY_S = 600.0
BACKUPS_EVERY_S = 60.0
# A test that cannot be tried, such as for want of memory, is tried again after so long.
TESTS_EVERY_S = 300.0
OpenSession = Callable[[], AbstractContextManager[Session]]


def take_backups(session: Session) -> list[ControllerEvent]:
    """Take the backups that are due, and let old ones go."""
    return _events(take_due_backups(session, with_logs=False))


@dataclass(frozen=True)
class Look:
    """What became of the binary logs of one database, and when that was over."""

    carried: CarriedBackup
    ended_at: datetime


class BinlogWatch:
    """Copies binary logs again and again, and tells where it comes too late."""

    def __init__(self, open_session: OpenSession, *, patience_s: float | None) -> None:
        """`patience_s`: what a call waits for looks; those that take longer are met by the next."""
        self._looks = SideBySide[Session, Look](lambda: prepared(open_session), most=LOOKS_AT_ONCE)
        self._quiet = QuietLogs()
        self._checked: dict[str, datetime] = {}
        self._patience_s = patience_s
        self._copied_until: dict[str, datetime] = {}  # by database, by the looks before
        self._lasting: dict[str, list[ControllerEvent]] = {}

    def run(self, session: Session) -> list[ControllerEvent]:
        """Copy what binary logs have got since the last time; a gap is told until it is over.

        A database whose place hangs holds up none of another place.
        """
        began_at = session.clock.now()
        schedules = backup_schedules(session).archiving()
        for name in schedules:
            self._copied_until.setdefault(name, began_at)
        operations = session.databases().operations
        quiet = self._quiet.observe(operations, schedules) if schedules else set()
        lanes = {
            name: schedule.place.url for name, schedule in schedules.items() if name not in quiet
        }
        looks = self._looks.run(lanes, _look, patience_s=self._patience_s)
        unchanged = dict.fromkeys(quiet, began_at)
        self._note_looks(operations.records, schedules.keys(), looks, unchanged)
        return self.events_of(list(schedules), looks, session.clock.now(), unchanged)

    def _note_looks(
        self,
        records: DatabaseRecords,
        databases: Collection[str],
        looks: Mapping[str, Look],
        unchanged: Mapping[str, datetime],
    ) -> None:
        checked = {name: at for name, at in self._checked.items() if name in databases}
        for name, look in looks.items():
            until, problems = look.carried.archived_until, look.carried.problems
            is_archived = until is not None and not problems
            self._quiet.ended(name, is_archived=is_archived, at=look.ended_at)
            if until is not None and is_archived:
                checked[name] = until
        checked |= unchanged
        if checked != self._checked:
            self._checked = checked
            records.put_archive_checks(ArchiveChecks(until=checked))

    def events_of(
        self,
        databases: Sequence[str],
        looks: Mapping[str, Look],
        now: datetime,
        unchanged: Mapping[str, datetime] = MappingProxyType({}),
    ) -> list[ControllerEvent]:
        """What is to be told now that these looks are over, and remembered for the next.

        All is copied that `unchanged` databases had at these moments: they needed no look.

        The longest that a commit had to wait is as long as the look before is ago: what was
        committed right after that waited until this one was over, or waits still.
        """
        events = []
        known, self._copied_until = self._copied_until, {}
        lasting, self._lasting = self._lasting, {}
        for name in databases:
            since, at = known.get(name, now), now
            look = looks.get(name)
            if look is None and name in unchanged:
                self._copied_until[name] = at = since = unchanged[name]
            elif look is None:  # at it, or waiting for its turn: what was so, is so
                events += lasting.get(name, [])
                self._lasting[name] = lasting.get(name, [])
                self._copied_until[name] = since
            else:
                told = _events([look.carried])
                events += told
                self._lasting[name] = [event for event in told if event.level != "done"]
                self._copied_until[name] = look.carried.archived_until or since
                at = look.ended_at
            lag_s = (at - since).total_seconds()
            if lag_s > ARCHIVE_LAG_S:
                events.append(_late(name, lag_s))
        return events


def _look(session: Session, name: str) -> Look:
    return Look(backup_schedules(session).archive(name), session.clock.now())


@contextmanager
def prepared(open_session: OpenSession) -> Iterator[Session]:
    """A session for several threads: what one makes when it is first asked for is made before."""
    with open_session() as session:
        session.fleet()
        yield session


def join_logs(session: Session) -> list[ControllerEvent]:
    """Join the pieces of archived binary logs: a look every two seconds makes many."""
    return _events(backup_schedules(session).join_logs())


def _late(database: str, lag_s: float) -> ControllerEvent:
    text = (
        f"The archive of binary logs of {database} is more than "
        f"{format_duration(ARCHIVE_LAG_S)} behind."
    )
    remedy = (
        "Check whether the place of the backups, or this machine, is slow. `grampus db show` "
        "shows the lag."
    )
    details = {"lag_s": round(lag_s, 1)}
    return ControllerEvent(database, "archive-late", text, "warning", details, remedy)


def carry_out_tests(session: Session) -> list[ControllerEvent]:
    """Restore and compare the backups whose test is due; what was found wrong is told on."""
    events = []
    for one in carry_out_due_tests(session):
        name = one.database
        if one.tested is not None and one.tested.test.problem is None:
            tested = one.tested.manifest.id
            text = f"The restore test of the backup {tested} was successful."
            events.append(ControllerEvent(name, "backup-tested", text))
        if one.found is not None:
            text = f"The last restore test of {name} failed: {one.found}"
            remedy = f"Take a full backup now: `grampus db backup create {name} --full --to ...`."
            events.append(ControllerEvent(name, "test-failed", text, "warning", {}, remedy))
        if one.problem is not None:
            events.append(failure_of(name, one.problem))
    return events


def _events(carried: list[CarriedBackup]) -> list[ControllerEvent]:
    events = []
    for one in carried:
        name = one.database
        if one.taken is not None:
            text = f"The schedule took the backup {one.taken}: {one.why}."
            events.append(ControllerEvent(name, "backup-taken", text))
        if one.deleted:
            text = (
                f"Backups that the schedule does not keep were deleted: {', '.join(one.deleted)}."
            )
            events.append(ControllerEvent(name, "backups-let-go", text))
        events += [failure_of(name, problem) for problem in one.problems]
    return events
