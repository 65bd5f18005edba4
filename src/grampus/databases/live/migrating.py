"""Databases that move to another pool while clients use them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.live.migrate_steps import MIGRATE_POOL, PoolChange
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.state.operations import Operation


class DatabaseMigrations:
    """Moves databases between pools.

    The volume moves, with an operation of its own, which is settled before those of databases. The
    database's says only where the volume is then, whatever became of it.
    """

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations
        self._volumes = operations.volumes

    def migrate(self, name: str, pool: str) -> DatabaseRecord:
        """The database in that pool, while clients use it.

        One that fails before it has gone over is undone. Later it waits for the next `migrate`,
        or for `abort`. Raises NotFoundError, HostUnreachableError, RefusedError with code
        `not-ready` or `backup-running`, what `MigrationPort.plan` raises, and GrampusError with
        code `exchange-failed`, `undrained` or `migration-failed`; with `pool-filling` the pool
        fills up meanwhile, and it has gone back where that is safe.
        """
        migrations = self._volumes.migrations
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.ready(name)
            # One that was cut off has it there already, and is resumed.
            order = migrations.find(name) or migrations.plan(name, pool)
            if order is not None:
                operation = self._begin(name, migrations.describe(order))
                try:
                    migrations.migrate(name, pool)
                finally:
                    self._note(operation, name)
            return self._operations.records.get(name)

    def abort(self, name: str) -> DatabaseRecord:
        """The database in its former pool again, with all that was written to it since.

        Clients wait while that is copied. Raises NotFoundError, RefusedError with code
        `not-migrating`, `committing` or `has-snapshots`.
        """
        with self._operations.locked(name):
            self._operations.ready(name)
            titles = self._volumes.migrations.describe_abort(name)  # refuses at once
            self._operations.settle(name)
            operation = self._begin(name, titles)
            try:
                self._volumes.migrations.abort(name)
            finally:
                self._note(operation, name)
            return self._operations.records.get(name)

    def follow(self) -> None:
        """Note where databases are whose volumes went back when nobody migrated them.

        Who goes on with the copy of a volume alone finds its pool filling up, and goes back.
        """
        for name, record in self._operations.records.all().items():
            # Who is at the database, or reads its volume, is waited for: until the next call.
            with suppress(NotFoundError, RefusedError):
                if self._volumes.get(name).spec.pool == record.spec.pool:
                    continue
                with self._operations.locked(name, timeout_s=0.0):
                    self._operations.ready(name)
                    self._operations.run(MIGRATE_POOL, PoolChange(database=name))

    def _begin(self, name: str, titles: Sequence[str]) -> Operation:
        """`titles` are the steps that the volume takes before the database's own."""
        with self._operations.runner.part_of_plan():
            self._operations.runner.propose(lambda: titles)
        return self._operations.begin(MIGRATE_POOL, PoolChange(database=name))

    def _note(self, operation: Operation, name: str) -> None:
        self._operations.apply(operation, MIGRATE_POOL, PoolChange(database=name))
