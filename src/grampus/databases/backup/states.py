"""What is remembered of a database's backups, so that nobody has to read the place for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from grampus.databases.backup.binlogs import decide_leading
from grampus.databases.backup.decide_schedule import BackupState, LeadingBackup
from grampus.databases.backup.decide_tested import RestoreTest
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.places import TargetPlace
from grampus.databases.operating import DatabaseOperations
from grampus.state.locks import hold_lock


class BackupStates:
    """The states of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def find(self, name: str, place: TargetPlace | None = None) -> BackupState | None:
        """Of the database's backups in `place`, or wherever the last ones are."""
        record = self._operations.records.find(name)
        found = None if record is None else self._operations.records.backup_state(record)
        is_there = found is not None and (place is None or place.url == found.place)
        return found if is_there else None

    def note_backup(self, manifest: BackupManifest, place: TargetPlace) -> None:
        """A backup was taken."""
        changes: dict[str, object] = {
            "last_id": manifest.id,
            "last_taken_at": manifest.taken_at,
            "needs_backup": False,
        }
        if manifest.binlog is not None:
            changes["leading"] = LeadingBackup(id=manifest.id, binlog=manifest.binlog)
        if manifest.kind == "full":
            changes["last_full_at"] = manifest.taken_at
        self._change(manifest.database.name, place, changes)

    def note_test(self, manifest: BackupManifest, place: TargetPlace, test: RestoreTest) -> None:
        """A backup was restored for a while; of a database that is gone nothing is noted."""
        record = self._operations.records.find(manifest.database.name)
        if record is not None and record.created_at == manifest.database.created_at:
            changes = {"last_tested_at": test.at, "test_problem": test.problem}
            self._change(manifest.database.name, place, changes)

    def note_leading(
        self, name: str, place: TargetPlace, backups: Collection[BackupManifest]
    ) -> LeadingBackup | None:
        """What the place says now of the backups of that name, which is noted."""
        newest = max(backups, key=lambda backup: backup.taken_at, default=None)
        full = max((b.taken_at for b in backups if b.kind == "full"), default=None)
        leading = decide_leading(backups, name)
        changes = {
            "last_id": newest.id if newest is not None else None,
            "last_taken_at": newest.taken_at if newest is not None else None,
            "last_full_at": full,
            "leading": leading,
        }
        self._change(name, place, changes)
        return leading

    def note_archived(self, name: str, place: TargetPlace, until: datetime) -> None:
        """Binary logs are archived up to `until`, and a backup leads to all of them."""
        changes = {
            "copied_until": until,
            "archived_until": until,
            "archive_problem": None,
            "needs_backup": False,
        }
        self._change(name, place, changes)

    def note_unreachable(
        self, name: str, place: TargetPlace, until: datetime, problem: str | None
    ) -> None:
        """Binary logs are copied up to `until`, and no backup leads to them.

        `problem` None: there was no backup yet, so that nothing is wrong.
        """
        changes = {"copied_until": until, "archive_problem": problem, "needs_backup": True}
        self._change(name, place, changes)

    def note_archive_problem(self, name: str, place: TargetPlace, problem: str) -> None:
        """Binary logs could not be archived."""
        self._change(name, place, {"archive_problem": problem})

    def _change(self, name: str, place: TargetPlace, changes: Mapping[str, object]) -> None:
        operations = self._operations
        record = operations.records.find(name)
        if record is None:
            return
        # A backup and the archiving of binary logs run at the same time.
        with hold_lock(operations.home, f"backup-state.{operations.lab}.{name}", operations.clock):
            found = operations.records.backup_state(record)
            if found is None or found.place != place.url:
                found = BackupState(created_at=record.created_at, place=place.url)
            if any(getattr(found, field) != value for field, value in changes.items()):
                operations.records.put_backup_state(name, found.model_copy(update=changes))
