"""What `grampus serve` does for backups: takes those that are due, and archives binary logs."""

from __future__ import annotations

from grampus.cli.composition import Session
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of

# A moment that is lost with the server is at most so old (and as long as one look takes).
ARCHIVE_EVERY_S = 5.0
BACKUPS_EVERY_S = 60.0


def take_backups(session: Session) -> list[ControllerEvent]:
    """Take the backups that are due, and let old ones go."""
    return _events(session.backup_schedules().carry_out(with_logs=False))


def archive_binlogs(session: Session) -> list[ControllerEvent]:
    """Copy what binary logs have got since the last time; a gap is told until it is over."""
    return _events(session.backup_schedules().carry_out(with_backups=False))


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
