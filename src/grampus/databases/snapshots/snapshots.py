"""Snapshots of databases: taken, listed, removed, protected, rolled back to."""

from __future__ import annotations

from grampus.core.errors import RefusedError, UsageError, not_found
from grampus.core.names import require_name
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.operating import DatabaseOperations
from grampus.databases.snapshots.decide_retention import SCHEDULED_PREFIX, name_at
from grampus.databases.snapshots.snapshot_steps import (
    DELETE_SNAPSHOT,
    PROTECT_SNAPSHOT,
    ROLLBACK,
    ROLLBACK_FOR_GOOD,
    TAKE_SNAPSHOT,
    RollbackChange,
    SnapshotOrder,
    SnapshotProtection,
)
from grampus.volumes.model import MeasuredSnapshots, SnapshotInfo

BY_HAND_PREFIX = "at-"
SAFETY_PREFIX = "before-rollback-"


class DatabaseSnapshots:
    """The snapshots of the databases of one lab or cluster.

    One holds what the database's server had flushed when it was taken: a server that is started
    on it recovers as after a crash, to the last transaction committed before that moment.
    """

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations
        self._volumes = operations.volumes

    def measured(self, name: str) -> MeasuredSnapshots:
        """The database's snapshots, and what was written between them. Raises NotFoundError."""
        self._operations.records.get(name)
        return self._volumes.measure_snapshots(name)

    def plan_create(self, name: str, snapshot: str | None = None) -> SnapshotOrder:
        """The snapshot to take, called after the time unless it is given a name.

        Raises NotFoundError, UsageError for the name, RefusedError with code `not-ready`, `exists`
        or `pool-full`.
        """
        if snapshot is not None:
            require_snapshot_name(snapshot)
        self._operations.ready(name)
        self._volumes.require_writable(name)  # before the image is asked, which would wait
        chosen = snapshot or name_at(BY_HAND_PREFIX, self._operations.clock.now())
        self._require_new(name, chosen)
        return SnapshotOrder(database=name, snapshot=chosen)

    def create(self, name: str, snapshot: str | None = None) -> SnapshotInfo:
        """Take a snapshot, also while the database is written to.

        Raises what `plan_create` raises, and GrampusError with code `snapshot-failed`.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            order = self.plan_create(name, snapshot)
            self._operations.run(TAKE_SNAPSHOT, order)
            return self._require(name, order.snapshot)

    def plan_delete(self, name: str, snapshot: str) -> SnapshotOrder:
        """The snapshot to remove.

        Raises NotFoundError, RefusedError with code `not-ready`, `protected`, `has-clones` or
        `pool-full`.
        """
        self._operations.ready(name)
        self._volumes.require_writable(name)
        self._require(name, snapshot)
        self._volumes.require_snapshot_removable(name, snapshot)
        return SnapshotOrder(database=name, snapshot=snapshot)

    def delete(self, name: str, snapshot: str) -> None:
        """Remove a snapshot. Raises what `plan_delete` raises."""
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(DELETE_SNAPSHOT, self.plan_delete(name, snapshot))

    def plan_protect(self, name: str, snapshot: str, *, protected: bool) -> SnapshotProtection:
        """The change of protection. Raises NotFoundError, RefusedError with code `not-ready`."""
        self._operations.ready(name)
        self._require(name, snapshot)
        return SnapshotProtection(database=name, snapshot=snapshot, protected=protected)

    def protect(self, name: str, snapshot: str, *, protected: bool) -> SnapshotInfo:
        """Forbid that the snapshot is removed, by anybody, or allow it again."""
        with self._operations.locked(name):
            self._operations.settle(name)
            change = self.plan_protect(name, snapshot, protected=protected)
            self._operations.run(PROTECT_SNAPSHOT, change)
            return self._require(name, snapshot)

    def plan_rollback(self, name: str, snapshot: str, *, with_safety: bool) -> RollbackChange:
        """The rollback; `with_safety`: a snapshot of what is there now comes first.

        Raises NotFoundError, HostUnreachableError, RefusedError with code `not-ready` or
        `protected` (the database is).
        """
        record = self._operations.ready(name)
        self._require(name, snapshot)
        if record.spec.protected and not with_safety:
            raise RefusedError(
                f"The database {name} is protected: its current data would be lost for good.",
                f"Remove --no-safety-snapshot, or run `grampus db unprotect {name}` first.",
                code="protected",
            )
        self._operations.require_reachable(record.spec.host, record.spec.name)
        now = self._operations.clock.now()
        return RollbackChange(
            id=f"{snapshot} {now.isoformat()}",
            spec=record.spec,
            snapshot=snapshot,
            safety_snapshot=name_at(SAFETY_PREFIX, now) if with_safety else None,
            restarts=record.desired == "running",
        )

    def rollback(self, name: str, snapshot: str, *, with_safety: bool) -> RollbackChange:
        """Make the database what it was at the snapshot; says what was done.

        It is stopped for it, and runs again if it shall run. When that fails it becomes what it
        was before, unless `with_safety` is False: then the next command goes on with it. Raises
        what `plan_rollback` raises.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            change = self.plan_rollback(name, snapshot, with_safety=with_safety)
            self._operations.run(rollback_type(change), change)
            return change

    def _require_new(self, name: str, snapshot: str) -> None:
        if any(found.name == snapshot for found in self._volumes.snapshots(name)):
            raise RefusedError(
                f"{name} already has a snapshot named '{snapshot}'.",
                f"Choose another name, or `grampus db snapshot delete {name} {snapshot}`.",
                code="exists",
            )

    def _require(self, name: str, snapshot: str) -> SnapshotInfo:
        found = self._volumes.snapshots(name)
        for info in found:
            if info.name == snapshot:
                return info
        raise not_found(
            f"snapshot of {name}",
            snapshot,
            [info.name for info in found],
            list_command=f"grampus db snapshot list {name}",
        )


def rollback_type(change: RollbackChange) -> DatabaseOperation[RollbackChange]:
    """The kind of operation: one that can be undone, or one that cannot."""
    return ROLLBACK_FOR_GOOD if change.safety_snapshot is None else ROLLBACK


def require_snapshot_name(snapshot: str) -> None:
    """Raise UsageError when a user may not call a snapshot so."""
    require_name("snapshot", snapshot)
    if snapshot.startswith(SCHEDULED_PREFIX):
        raise UsageError(
            f"'{snapshot}' is reserved for snapshots of a schedule.",
            f"Choose a name that does not begin with '{SCHEDULED_PREFIX}'.",
            code="invalid-name",
        )
