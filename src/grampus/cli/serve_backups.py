"""What `grampus serve` does for backups: takes those that are due, and archives binary logs."""

from __future__ import annotations

from datetime import datetime

from grampus.cli.composition.backups import backup_schedules, scheduled_tests
from grampus.cli.composition.session import Session
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of

# What is lost with a server and its volume is at most so old; a look takes up to some seconds.
ARCHIVE_EVERY_S = 2.0
ARCHIVE_LAG_S = 5.0
BACKUPS_EVERY_S = 60.0
# A test that cannot be tried, such as for want of memory, is tried again after so long.
TESTS_EVERY_S = 300.0


def take_backups(session: Session) -> list[ControllerEvent]:
    """Take the backups that are due, and let old ones go."""
    return _events(backup_schedules(session).carry_out(with_logs=False))


class BinlogWatch:
    """Copies binary logs again and again, and tells where it comes too late."""

    def __init__(self) -> None:
        self._copied_until: dict[str, datetime] = {}  # by database, by the looks before

    def run(self, session: Session) -> list[ControllerEvent]:
        """Copy what binary logs have got since the last time; a gap is told until it is over."""
        carried = backup_schedules(session).carry_out(with_backups=False)
        return self.events_of(carried, session.clock.now())

    def events_of(self, carried: list[CarriedBackup], now: datetime) -> list[ControllerEvent]:
        """What is to be told of a look that ended `now`, and remembered for the next."""
        events = _events(carried)
        known, self._copied_until = self._copied_until, {}
        for one in carried:
            if not one.has_logs:
                continue  # nothing is committed in a database that is stopped
            before = known.get(one.database)
            copied_until = one.archived_until or before
            if copied_until is not None:
                self._copied_until[one.database] = copied_until
            lag_s = decide_lag_s(before, one.archived_until, now)
            if lag_s > ARCHIVE_LAG_S:
                events.append(_late(one.database, lag_s))
        return events


def decide_lag_s(before: datetime | None, until: datetime | None, now: datetime) -> float:
    """The longest that a commit had to wait to be copied, as far as one look can tell.

    `before` and `until`: up to when all was copied after the look before and after this one, None:
    nothing is known. What was committed right after `before` waited until now.
    """
    since = before if before is not None else until
    return (now - since).total_seconds() if since is not None else 0.0


def _late(database: str, lag_s: float) -> ControllerEvent:
    text = f"Binary logs of {database} are copied more than {ARCHIVE_LAG_S:g} s late."
    remedy = (
        "See whether the place of the backups, or this machine, is slow (`db show` has the lag)."
    )
    details = {"lag_s": round(lag_s, 1)}
    return ControllerEvent(database, "archive-late", text, "warning", details, remedy)


def carry_out_tests(session: Session) -> list[ControllerEvent]:
    """Restore and compare the backups whose test is due; what was found wrong is told on."""
    events = []
    for one in scheduled_tests(session).carry_out():
        name = one.database
        if one.tested is not None and one.tested.test.problem is None:
            tested = one.tested.manifest.id
            text = f"The backup {tested} was restored and looked through: it is good."
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
            text = f"The backup {one.taken} was taken by schedule: {one.why}."
            events.append(ControllerEvent(name, "backup-taken", text))
        if one.deleted:
            text = f"Backups that need not be kept are gone: {', '.join(one.deleted)}."
            events.append(ControllerEvent(name, "backups-let-go", text))
        events += [failure_of(name, problem) for problem in one.problems]
    return events
