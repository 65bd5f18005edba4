"""Backups and restore tests that schedules want now, of some databases at a time.

For `grampus db backup due`, and for `grampus serve`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from grampus.cli.composition.backups import backup_schedules, scheduled_tests
from grampus.cli.composition.session import Session
from grampus.cli.progress_bar import PlainProgress
from grampus.cli.side_by_side import for_each
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.backup.scheduled_tests import CarriedTest

ResultT = TypeVar("ResultT")


def take_due_backups(session: Session, *, with_logs: bool) -> list[CarriedBackup]:
    """Take the backups that are due, then let go what need not be kept; one answer a schedule."""
    schedules = backup_schedules(session)
    carried = _for_each(
        session,
        schedules.scheduled(),
        lambda shared, name: backup_schedules(shared).take(name, with_logs=with_logs),
        title="Take the backups that are due",
    )
    for one in carried:
        schedules.let_go(one)
    return carried


def carry_out_due_tests(session: Session) -> list[CarriedTest]:
    """Restore and compare the backups whose test is due; one answer a schedule with tests."""
    return _for_each(
        session,
        scheduled_tests(session).scheduled(),
        lambda shared, name: scheduled_tests(shared).test(name),
        title="Test the backups whose test is due",
    )


def _for_each(
    session: Session,
    schedules: Mapping[str, BackupSchedule],
    work: Callable[[Session, str], ResultT],
    *,
    title: str,
) -> list[ResultT]:
    """Those whose backups go to one place share what it can take."""
    return for_each(
        {name: schedule.place.url for name, schedule in schedules.items()},
        work,
        session=session,
        open_shared=lambda progress: _shared(session.lab_name, progress),
        progress=session.progress,
        title=title,
    )


@contextmanager
def _shared(lab: str, progress: PlainProgress) -> Iterator[Session]:
    """A session for several threads: what one makes when it is first asked for is made before."""
    session = Session(lab, progress=progress)
    try:
        with session.sharing_lab():
            session.fleet()
            yield session
    finally:
        session.close()
