"""What users ask for of migrations and keys: under the volume's lock, journaled."""

from __future__ import annotations

from grampus.core.errors import RefusedError
from grampus.volumes import kinds
from grampus.volumes.decide_migration import not_migrating
from grampus.volumes.journals import Journals
from grampus.volumes.key_rotating import KeyRotating
from grampus.volumes.migrating import MigrateOrder, Migrating
from grampus.volumes.model import VolumeRecord
from grampus.volumes.operations import VolumeOperations
from grampus.volumes.records import VolumeRecords


class VolumeMigrations:
    """Volumes that move to other pools."""

    def __init__(
        self,
        records: VolumeRecords,
        migrating: Migrating,
        journals: Journals,
        operations: VolumeOperations,
    ) -> None:
        self._records = records
        self._migrating = migrating
        self._journals = journals
        self._operations = operations

    def plan(self, name: str, pool: str) -> MigrateOrder | None:
        """The migration, if it can be begun now; None: the volume is in that pool.

        Raises NotFoundError for the volume or the pool, HostUnreachableError, and RefusedError with
        code `attachment-lost`, `cannot-exchange`, `fenced`, `has-clones`, `image-exists` or
        `pool-full`.
        """
        return self._migrating.plan(name, pool)

    def describe(self, order: MigrateOrder) -> list[str]:
        """What `migrate` would do, step by step."""
        return [step.title for step in self._migrating.steps(order)]

    def migrate(self, name: str, pool: str) -> VolumeRecord:
        """The volume in that pool, also under a running writer.

        One that fails before it has gone over is undone. Later it waits for the next `migrate`,
        which goes on with it, or to `abort`. Raises what `plan` raises, and GrampusError with code
        `exchange-failed`, `undrained` or `migration-failed`; with `pool-filling` the pool fills up
        meanwhile, and it has gone back where that is safe.
        """
        self._records.get(name)
        with self._operations.locked(name):
            self._operations.settle(name)
            order = self._migrating.plan(name, pool)
            if order is not None:
                if self._records.get(name).host is None:
                    replay = self._journals.plan_replay(name)
                    if replay is not None:
                        with self._operations.runner.part_of_plan():
                            self._operations.run(kinds.REPLAY, replay)
                self._operations.run(kinds.MIGRATE, order)
            return self._records.get(name)

    def find(self, name: str) -> MigrateOrder | None:
        """The migration that was begun and neither ended nor undone. Raises NotFoundError."""
        self._records.get(name)
        operation = self._operations.find(name, kinds.MIGRATE)
        return None if operation is None else MigrateOrder.model_validate(operation.spec)

    def describe_abort(self, name: str) -> list[str]:
        """What `abort` would do, step by step. Raises what it raises."""
        order = self._require_abortable(name)
        return [
            f"Copy the new data from '{order.to_pool}' to '{order.from_pool}': clients wait "
            "meanwhile",
            f"Remove {order.to_pool}/{order.image}",
            f"Continue with {order.from_pool}/{order.image}",
        ]

    def abort(self, name: str) -> VolumeRecord:
        """The volume in its former pool again, with all that was written to it since.

        Its users wait while that is copied. Cut off, it is finished by the next command. Raises
        NotFoundError, RefusedError with code `not-migrating`, `committing` or `has-snapshots`.
        """
        self._records.get(name)
        with self._operations.locked(name):
            self._require_abortable(name)
            self._operations.runner.propose(lambda: self.describe_abort(name))
            operation = self._operations.find(name, kinds.MIGRATE)
            if operation is not None:
                self._operations.undo(operation, "aborted")
            return self._records.get(name)

    def _require_abortable(self, name: str) -> MigrateOrder:
        order = self.find(name)
        if order is None:
            raise not_migrating(name)
        self._migrating.require_abortable(order)
        return order


class VolumeKeyRotation:
    """New cephx keys for volumes."""

    def __init__(
        self, records: VolumeRecords, rotating: KeyRotating, operations: VolumeOperations
    ) -> None:
        self._records = records
        self._rotating = rotating
        self._operations = operations

    def can_rotate(self, name: str) -> bool:
        """Whether `rotate` would not be refused now. Raises NotFoundError, HostUnreachableError."""
        try:
            self._rotating.plan(name)
        except RefusedError:
            return False
        return True

    def rotate(self, name: str) -> None:
        """A new key for the volume, also under a running writer.

        The former one opens nothing after it. Cut off, the next command finishes it. Raises
        NotFoundError, HostUnreachableError, RefusedError with code `attachment-lost` or
        `cannot-exchange`, and GrampusError with code `exchange-failed`.
        """
        self._records.get(name)
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(kinds.ROTATE_KEY, self._rotating.plan(name))
