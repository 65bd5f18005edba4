"""What the operation journal remembers of operations that are over, and of those that are not."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from grampus.state.operations import OperationStatus
from grampus.state.store import Store

_OF_SUBJECTS = (
    "SELECT * FROM operations WHERE lab = ? AND subject IN (SELECT value FROM json_each(?)) "
    "ORDER BY id"
)
_OF_KINDS = (
    "SELECT * FROM operations WHERE lab = ? AND kind IN (SELECT value FROM json_each(?)) "
    "ORDER BY id"
)


@dataclass(frozen=True)
class JournaledOperation:
    """An operation, with when it began and when anything of it was last journaled."""

    id: int
    kind: str
    subject: str
    spec: dict[str, Any]
    status: OperationStatus
    step: str  # the one it is at; empty when it is over
    error: str
    started_at: datetime
    changed_at: datetime
    actor: str  # who asked for it; empty: begun by a version that did not write it down


class OperationHistory:
    """The operations of one lab, oldest first."""

    def __init__(self, store: Store, lab: str) -> None:
        self._store = store
        self._lab = lab

    def of_subjects(self, subjects: Collection[str]) -> list[JournaledOperation]:
        """Every operation on one of these subjects."""
        return self._select(_OF_SUBJECTS, subjects)

    def of_kinds(self, kinds: Collection[str]) -> list[JournaledOperation]:
        """Every operation of one of these kinds."""
        return self._select(_OF_KINDS, kinds)

    def _select(self, query: str, values: Collection[str]) -> list[JournaledOperation]:
        with self._store.transaction() as connection:
            rows = connection.execute(query, (self._lab, json.dumps(list(values)))).fetchall()
        return [
            JournaledOperation(
                id=row["id"],
                kind=row["kind"],
                subject=row["subject"],
                spec=json.loads(row["spec"]),
                status=row["status"],
                step=row["step"],
                error=row["error"],
                started_at=datetime.fromisoformat(row["started_at"]),
                changed_at=datetime.fromisoformat(row["changed_at"]),
                actor=row["actor"],
            )
            for row in rows
        ]
