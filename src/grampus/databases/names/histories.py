"""Whose histories are kept, however old: those of all that there still is.

A database keeps what was done under its former names, as `db events` shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grampus.databases.names.events import decide_former_names, names_in
from grampus.databases.names.naming_steps import RENAME
from grampus.databases.names.trash_steps import RESTORE
from grampus.databases.records import DatabaseRecords
from grampus.state.history import JournaledOperation, OperationHistory
from grampus.state.retention import KeptSubjects, OperationRetention

LINEAGE = (RENAME.kind, RESTORE.kind)
_ROWS_AT_ONCE = 2000


class Histories:
    """The histories of the databases and volumes of one lab or cluster."""

    def __init__(
        self,
        records: DatabaseRecords,
        history: OperationHistory,
        retention: OperationRetention,
        *,
        volumes: Collection[str],
    ) -> None:
        """`volumes` are the names of all volumes, also of those without a database."""
        self._records = records
        self._history = history
        self._retention = retention
        self._volumes = volumes

    def forget(self, days: int, *, most: int) -> int:
        """Remove operations that ended more than `days` days ago; how many went.

        It looks at `most` at a time. Databases that there still are, also in the trash, keep their
        last ones.
        """
        return self._retention.forget(self._kept, days=days, most=most)[0]

    def forget_all(self, days: int) -> int:
        """The same, of all that there are."""
        gone, is_over = 0, False
        while not is_over:
            more, is_over = self._retention.forget(self._kept, days=days, most=_ROWS_AT_ONCE)
            gone += more
        return gone

    def _kept(self) -> KeptSubjects:
        names = {*self._records.names(), *self._records.trashed_names(), *self._volumes}
        renamed = self._history.of_kinds(LINEAGE)
        return KeptSubjects(decide_kept_names(names, renamed), LINEAGE)


def decide_kept_names(names: Collection[str], operations: Sequence[JournaledOperation]) -> set[str]:
    """These names, and what their databases were called before."""
    new_names = {names_in(operation.spec)[1] for operation in operations}
    former = (decide_former_names(name, operations) for name in names if name in new_names)
    return {*names, *(one for chain in former for one in chain)}
