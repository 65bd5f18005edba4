"""Backups of databases: taken, one after another, into one place."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from grampus.core.clock import format_moment
from grampus.core.errors import RefusedError
from grampus.databases.backup.decide_chain import decide_backup_id, decide_base, snapshot_name
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import (
    BackedUpDatabase,
    BackupKind,
    BackupManifest,
    BackupOrder,
)
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.states import BackupStates
from grampus.databases.backup.taking import BACKUP
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations

# In a plan for a place that was never used: its id is made with the first backup.
_NO_TARGET_ID = "00000000"


@dataclass(frozen=True)
class BackupPlan:
    """A backup as it would be taken now, and why full or incremental."""

    order: BackupOrder
    kind: BackupKind
    why: str


@dataclass(frozen=True)
class TakenBackup:
    """A backup that was taken, and those that retention let go for it."""

    manifest: BackupManifest
    why: str
    deleted: tuple[str, ...]


class DatabaseBackups:
    """Backups of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def plan_create(
        self,
        name: str,
        place: TargetPlace,
        *,
        wanted: BackupKind | None = None,
        lock_days: int | None = None,
    ) -> BackupPlan:
        """A backup of the database into `place`; nothing is changed.

        With `lock_days`, nobody can delete it, or what it stands on, for so long. Raises
        NotFoundError, RefusedError with code `not-ready`, `no-base` when an incremental one is
        wanted and cannot be, or `no-object-lock`.
        """
        operations = self._operations
        record, kept = operations.ready(name), self._kept(place)
        now = operations.clock.now()
        if lock_days is not None:
            kept.target.require_lockable()
        contents = kept.catalogue.observe(name)
        target_id = kept.target.find_id() or _NO_TARGET_ID
        snapshots = {found.name: found for found in operations.volumes.snapshots(name)}
        facts = describe_database(record, operations.lab)
        key = kept.keys.find_current()
        key_id = key.id if key is not None else ""
        base = decide_base(
            *(contents.backups, facts, target_id, snapshots), wanted=wanted, key_id=key_id
        )
        taken = {*contents.backups, *contents.incomplete, *contents.unreadable}
        backup_id = decide_backup_id(name, now, taken)
        order = BackupOrder(
            database=record.spec,
            facts=facts,
            id=backup_id,
            base=base.backup.id if base.backup is not None else None,
            snapshot=snapshot_name(target_id, backup_id),
            base_snapshot=base.backup.snapshot if base.backup is not None else None,
            base_is_protected=base.backup is not None and snapshots[base.backup.snapshot].protected,
            claim=secrets.token_hex(8),
            target=place,
            target_id=target_id,
            key_id=key_id,
            lock_until=None if lock_days is None else now + timedelta(days=lock_days),
        )
        return BackupPlan(order, "full" if base.backup is None else "incremental", base.why)

    def create(
        self,
        name: str,
        place: TargetPlace,
        *,
        wanted: BackupKind | None = None,
        keep: int | None = None,
        lock_days: int | None = None,
        patience_s: float = 10.0,
        begins_again: bool = False,
    ) -> TakenBackup:
        """Take a backup of the database, running or not; its writers and other commands go on.

        With `keep`, backups of this database that are older than the newest `keep`, and that none
        of those stands on, are deleted afterwards. What fails or is cut off is undone. Another
        backup of it is waited for, `patience_s` seconds. Raises what
        `plan_create` raises, NotFoundError with code `no-target`, and what the cluster says;
        TargetError with code `target-gone` when the place is another one than before, unless the
        user `begins_again` there.
        """
        operations, kept = self._operations, self._kept(place)
        operations.records.get(name)
        states = BackupStates(operations)
        plan_now = partial(self.plan_create, name, place, wanted=wanted, lock_days=lock_days)
        if not begins_again:
            states.require_place(name, place, kept.target.find_id())
        with operations.locked(name, lane="backup", timeout_s=patience_s):
            operations.settle(name, lane="backup")
            with ExitStack() as held:
                held.enter_context(operations.locked(name))
                operations.settle(name)
                operations.ready(name)
                # Before the place gets its id, and the home its key.
                operations.runner.propose(lambda: self._describe(plan_now()))
                with kept.adding(kept.target.ensure_id()):
                    kept.keys.ensure_current()
                    plan = plan_now()
                    operation = operations.begin(BACKUP, plan.order)
                    # From then on only the snapshot is read, which nobody can delete: other
                    # commands may work on the database.
                    operations.apply(operation, BACKUP, plan.order, after={"snapshot": held.close})
                    manifest = kept.catalogue.observe(name).backups[plan.order.id]
        states.note_place(name, place, plan.order.target_id)
        states.note_backup(manifest, place)
        deleted = () if keep is None else self._retain(kept, plan.order.facts, keep)
        if deleted:
            states.refresh(name, place)
        return TakenBackup(manifest, plan.why, deleted)

    def let_go(self, name: str, place: TargetPlace, *, keep: int) -> tuple[str, ...]:
        """Delete what `create` would with that `keep`, and say what.

        Nothing while another backup is taken there. Raises NotFoundError.
        """
        facts = describe_database(self._operations.records.get(name), self._operations.lab)
        deleted = self._retain(self._kept(place), facts, keep)
        if deleted:
            BackupStates(self._operations).refresh(name, place)
        return deleted

    def _describe(self, plan: BackupPlan) -> list[str]:
        steps = self._operations.describe(BACKUP, plan.order)
        return [f"The backup will be {plan.kind}: {plan.why}", *steps]

    def _retain(self, kept: KeptBackups, database: BackedUpDatabase, keep: int) -> tuple[str, ...]:
        try:
            retained = kept.retain(database, keep=keep)
        except RefusedError as error:
            if error.code != "busy":
                raise
            # The backup that was asked for is there: the next one lets the old ones go.
            self._operations.progress.note(
                "Older backups are deleted next time: another backup is running there."
            )
            return ()
        for backup_id, until in retained.locked.items():
            self._operations.progress.note(
                f"The backup {backup_id} is kept: it is locked until {format_moment(until)}."
            )
        return retained.deleted

    def _kept(self, place: TargetPlace) -> KeptBackups:
        return KeptBackups(self._operations.home, self._operations.clock, place)


def describe_database(record: DatabaseRecord, lab: str) -> BackedUpDatabase:
    """What a backup says of its database."""
    spec = record.spec
    return BackedUpDatabase(
        name=spec.name,
        created_at=record.created_at,
        flavour=spec.flavour,
        server_version=record.server_version,
        size_bytes=spec.size_bytes,
        memory_bytes=spec.memory_bytes,
        cpus=spec.cpus,
        write_path=spec.write_path,
        max_lag_ms=spec.max_lag_ms,
        journal_memory_bytes=spec.journal_memory_bytes,
        parameters=spec.parameters,
        encryption=spec.encryption,
        external_log_bytes=spec.external_log_bytes,
        user=record.user,
        database_id=record.id,
        lab=lab,
    )
