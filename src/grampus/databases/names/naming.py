"""How databases are named and found: labels, and another name."""

from __future__ import annotations

from grampus.core.errors import NotFoundError, RefusedError
from grampus.core.names import require_name
from grampus.databases.model import DatabaseRecord
from grampus.databases.names.decide_labels import decide_labels, parse_changes
from grampus.databases.names.naming_steps import LABEL, RENAME, RenameOrder
from grampus.databases.operating import DatabaseOperations


class DatabaseNames:
    """Labels and names of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def label(self, name: str, words: list[str]) -> DatabaseRecord:
        """Change labels as `team=web` and `team-` say; cut off, the next command finishes it.

        Raises NotFoundError, UsageError, RefusedError with code `not-ready` or `too-many-labels`.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            spec = self._operations.ready(name).spec
            labels = decide_labels(spec.labels, parse_changes(words))
            self._operations.run(LABEL, spec.model_copy(update={"labels": labels}))
        return self._operations.records.get(name)

    def _plan_rename(self, name: str, new_name: str) -> RenameOrder:
        record = self._operations.ready(name)
        require_name("database", new_name)
        self._require_name_free(new_name)
        self._operations.require_reachable(record.spec.host, record.spec.name)
        if self._operations.volumes.lineage(name).children:
            raise RefusedError(
                f"The database {name} has clones.",
                "Make the clones independent (`grampus db flatten CLONE`), or delete them first.",
                code="has-clones",
            )
        return RenameOrder(
            spec=record.spec, new_name=new_name, restarts=record.desired == "running"
        )

    def rename(self, name: str, new_name: str) -> DatabaseRecord:
        """Give a database another name; on failure it runs under its own.

        It is stopped and started for it if it shall run. Raises NotFoundError, UsageError,
        HostUnreachableError, RefusedError with code `not-ready`, `name-taken`, or `has-clones`:
        clones know what they stand on by the image's name.
        """
        require_name("database", new_name)
        if new_name == name:
            self._plan_rename(name, new_name)  # says that it is taken, not that it is busy
        with self._operations.locked(name), self._operations.locked(new_name):
            self._operations.settle(name)
            self._operations.settle(new_name)
            self._operations.run(RENAME, self._plan_rename(name, new_name))
        return self._operations.records.get(new_name)

    def _require_name_free(self, name: str) -> None:
        if self._operations.records.find(name) is not None:
            raise RefusedError(
                f"A database named '{name}' already exists.",
                f"Choose another name, or see `grampus db show {name}`.",
                code="name-taken",
            )
        try:
            self._operations.volumes.get(name)
        except NotFoundError:
            return
        raise RefusedError(
            f"A volume named '{name}' already exists.",
            f"Choose another name, or see `grampus volume show {name}`.",
            code="name-taken",
        )
