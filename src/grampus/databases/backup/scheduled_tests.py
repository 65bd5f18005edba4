"""Restore tests that backup schedules ask for, carried out by whoever calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from grampus.core.errors import GrampusError
from grampus.databases.backup.decide_schedule import BackupSchedule, decide_due
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.owners import own_backups
from grampus.databases.backup.restore_tests import RestoreTests, TestedBackup
from grampus.databases.backup.states import BackupStates
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations


@dataclass
class CarriedTest:
    """What became of the scheduled restore tests of one database."""

    database: str
    tested: TestedBackup | None = None  # now; None: not due, or it could not be tried
    plan: tuple[str, ...] = ()  # what would be done, when nothing was to be changed
    found: str | None = None  # what the last test found wrong, now or earlier
    problem: GrampusError | None = None  # why it could not be tried


class ScheduledTests:
    """The scheduled restore tests of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, tests: RestoreTests) -> None:
        self._operations = operations
        self._tests = tests
        self._states = BackupStates(operations)

    def scheduled(self) -> dict[str, BackupSchedule]:
        """The schedules that ask for tests now."""
        return {
            name: record.backup_schedule
            for name, record in self._operations.records.all().items()
            if record.phase == "ready"
            and record.backup_schedule is not None
            and record.backup_schedule.test_every_s is not None
        }

    def plan_all(self) -> list[CarriedTest]:
        """What `test` would do now, one answer a schedule with tests."""
        return [self._carry_out(name, changes_nothing=True) for name in self.scheduled()]

    def test(self, name: str) -> CarriedTest:
        """Test the newest backup of a database if its schedule wants it now.

        What fails is told in the answer; one that is being tested is left to the next call.
        """
        return self._carry_out(name, changes_nothing=False)

    def _carry_out(self, name: str, *, changes_nothing: bool) -> CarriedTest:
        one, record = CarriedTest(name), self._operations.records.find(name)
        schedule = None if record is None else record.backup_schedule
        if record is None or schedule is None or schedule.test_every_s is None:
            return one  # it was so when it was asked for
        try:
            if self._is_due(record, schedule, schedule.test_every_s):
                if changes_nothing:
                    one.plan = tuple(self._tests.plan(name, schedule.place))
                else:
                    one.tested = self._tests.test(name, schedule.place)
        except GrampusError as error:
            one.problem = None if error.code == "busy" else error
        state = self._states.find(name, schedule.place)
        one.found = None if state is None else state.test_problem
        return one

    def _is_due(self, record: DatabaseRecord, schedule: BackupSchedule, every_s: int) -> bool:
        state = self._states.find(record.spec.name, schedule.place)
        last_at = None if state is None else state.last_tested_at
        now = self._operations.clock.now()
        if last_at is not None and not decide_due(every_s, last_at, now):
            return False
        # The place knows best, and it alone whether there is anything to test.
        has_backup, tested_at = self._look(record, schedule)
        return has_backup and decide_due(every_s, tested_at, now)

    def _look(
        self, record: DatabaseRecord, schedule: BackupSchedule
    ) -> tuple[bool, datetime | None]:
        """Whether the place has a backup of that very database, and when one was tested last."""
        kept = KeptBackups(self._operations.home, self._operations.clock, schedule.place)
        if kept.target.find_id() is None:
            return False, None
        contents = kept.observe(record.spec.name)
        own = set(own_backups(contents.backups, record))
        tested = [test.at for backup, test in contents.tests.items() if backup in own]
        return bool(own), max(tested, default=None)
