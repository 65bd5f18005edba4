"""What the operation journal remembers of operations that are over, and of those that are not."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from grampus.state.operations import OperationStatus
from grampus.state.store import Store

# Without a bound, LIMIT is -1. A kind's name has no character that GLOB takes for a pattern.
_OF_SUBJECTS = (
    "SELECT * FROM (SELECT * FROM operations WHERE lab = ? "
    "AND subject IN (SELECT value FROM json_each(?)) "
    "AND EXISTS (SELECT 1 FROM json_each(?) WHERE kind GLOB value || '*') "
    "ORDER BY id DESC LIMIT ?) ORDER BY id"
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

    def of_subjects(
        self,
        subjects: Collection[str],
        *,
        kind_prefixes: Collection[str] = ("",),
        last: int | None = None,
    ) -> list[JournaledOperation]:
        """The operations on one of these subjects whose kind begins so; the `last` so many."""
        wanted = (json.dumps(list(subjects)), json.dumps(list(kind_prefixes)))
        return self._select(_OF_SUBJECTS, *wanted, -1 if last is None else last)

    def of_kinds(self, kinds: Collection[str]) -> list[JournaledOperation]:
        """Every operation of one of these kinds."""
        return self._select(_OF_KINDS, json.dumps(list(kinds)))

    def _select(self, query: str, *values: str | int) -> list[JournaledOperation]:
        with self._store.transaction() as connection:
            rows = connection.execute(query, (self._lab, *values)).fetchall()
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
