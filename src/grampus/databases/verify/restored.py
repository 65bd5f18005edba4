"""The newest backup of a database, restored for a while as a part of a verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.owners import is_of
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.restore_tests import TestedBackup
from grampus.databases.backup.states import BackupStates
from grampus.databases.operating import DatabaseOperations
from grampus.databases.verify.decide_restored import (
    RestoredBackup,
    classify_tested,
    decide_place,
)


class RestoreTestPort(Protocol):
    """Tests of backups, as `RestoreTests` carries them out."""

    def plan(self, name: str, place: TargetPlace) -> list[str]:
        """What `test` would do, one line each."""
        ...

    def test(self, name: str, place: TargetPlace) -> TestedBackup:
        """Restore the latest backup of `name`, look through it, and keep what was found."""
        ...


class NewestBackups:
    """The newest backups of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations, tests: RestoreTestPort) -> None:
        self._operations = operations
        self._tests = tests
        self._states = BackupStates(operations)

    def is_known(self, name: str) -> bool:
        """Whether there is a backup, as far as it is known here; no place is asked."""
        state = self._states.find(name)
        return state is not None and state.last_id is not None

    def prepare(self, name: str, place: TargetPlace | None) -> Callable[[], RestoredBackup]:
        """What restores the newest backup, in `place` or wherever it is known to be.

        That it is there is found out at once, before hours of other checks. Once it is called,
        whatever keeps it from being tried is its answer: what was looked at before is not lost.
        Raises NotFoundError with code `no-backup` or `no-target`, RefusedError with code
        `no-credentials`, and what keeps a place from being read.
        """
        found = self._require_place(name, place)

        def restore() -> RestoredBackup:
            self._operations.runner.propose(lambda: self._tests.plan(name, found))
            try:
                tested = self._tests.test(name, found)
            except GrampusError as error:
                return RestoredBackup(place=found.url, outcome="untried", said=error.problem)
            return classify_tested(found, tested.manifest.id, tested.test)

        return restore

    def _require_place(self, name: str, place: TargetPlace | None) -> TargetPlace:
        record = self._operations.ready(name)
        found = place or decide_place(name, record.backup_schedule, self._states.find(name))
        kept = KeptBackups(self._operations.home, self._operations.clock, found)
        backups = kept.observe(name).backups.values()
        # One of an earlier database of that name says nothing of this one.
        if any(is_of(backup, record) for backup in backups):
            return found
        raise NotFoundError(
            f"There is no backup of the database {name} in {found.url}.",
            f"Take one: `grampus db backup create {name} {found.options('--to')}`.",
            code="no-backup",
        )
