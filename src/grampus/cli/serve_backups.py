"""What `grampus serve` does for backups: takes those that are due, and archives binary logs."""

from __future__ import annotations

from grampus.cli.composition.backups import backup_schedules, scheduled_tests
from grampus.cli.composition.session import Session
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of

# A moment that is lost with the server is at most so old (and as long as one look takes).
ARCHIVE_EVERY_S = 5.0
BACKUPS_EVERY_S = 60.0
# A test that cannot be tried, such as for want of memory, is tried again after so long.
TESTS_EVERY_S = 300.0


def take_backups(session: Session) -> list[ControllerEvent]:
    """Take the backups that are due, and let old ones go."""
    return _events(backup_schedules(session).carry_out(with_logs=False))


def archive_binlogs(session: Session) -> list[ControllerEvent]:
    """Copy what binary logs have got since the last time; a gap is told until it is over."""
    return _events(backup_schedules(session).carry_out(with_backups=False))


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
