"""The composition root, of backups of databases, and what is made from them."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.cli.composition.clones import database_clones
from grampus.cli.composition.session import Session
from grampus.core.clock import Clock
from grampus.databases.backup.archiving import BinlogArchiver
from grampus.databases.backup.backup_schedules import BackupSchedules
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.restore_tests import RestoreTests
from grampus.databases.backup.restores import DatabaseRestores
from grampus.databases.backup.scheduled_tests import ScheduledTests
from grampus.databases.backup.states import BackupStates
from grampus.databases.records import DatabaseRecords
from grampus.databases.verify.restored import NewestBackups
from grampus.state.home import Home


def database_backups(session: Session) -> DatabaseBackups:
    return DatabaseBackups(session.databases().operations)


@dataclass(frozen=True)
class _Owner:
    """Databases as far as their backups' states go: backups outlive labs, and need none."""

    lab: str
    home: Home
    clock: Clock
    records: DatabaseRecords


def backup_states(session: Session) -> BackupStates:
    records = DatabaseRecords(session.store, session.lab_name)
    return BackupStates(_Owner(session.lab_name, session.home, session.clock, records))


def restore_tests(session: Session) -> RestoreTests:
    return RestoreTests(session.databases(), database_clones(session))


def newest_backups(session: Session) -> NewestBackups:
    return NewestBackups(session.databases().operations, restore_tests(session))


def scheduled_tests(session: Session) -> ScheduledTests:
    return ScheduledTests(session.databases().operations, restore_tests(session))


def backup_schedules(session: Session) -> BackupSchedules:
    return BackupSchedules(session.databases().operations)


def binlog_archiver(session: Session) -> BinlogArchiver:
    return BinlogArchiver(session.databases().operations)


def database_restores(session: Session) -> DatabaseRestores:
    return DatabaseRestores(session.databases())
