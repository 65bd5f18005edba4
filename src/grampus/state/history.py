"""What the operation journal remembers of operations that are over, and of those that are not."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from grampus.state.operations import UNFINISHED_OF_LAB, OperationStatus
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
_OF_NUMBER = "SELECT * FROM operations WHERE lab = ? AND id = ?"
_LAST = (
    "SELECT * FROM (SELECT * FROM operations WHERE lab = ? ORDER BY id DESC LIMIT ?) ORDER BY id"
)
_OF_PROCESS = (
    "SELECT * FROM operations WHERE lab = ? AND id > (SELECT max(id) FROM operations) - 1000 "
    "AND process GLOB ? ORDER BY id DESC LIMIT 1"
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
    title: str = ""  # of its step, in words
    detail: str = ""  # what the step does, or waits for
    process: str = ""  # the process that was last at it, as `operations/watching.py` reads it
    outcome: Mapping[str, Any] = field(default_factory=dict)  # what was measured of it


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

    def find(self, number: int) -> JournaledOperation | None:
        """The operation of that number, or None."""
        return next(iter(self._select(_OF_NUMBER, number)), None)

    def unfinished(self) -> list[JournaledOperation]:
        """Those that neither ended nor were undone."""
        return self._select(UNFINISHED_OF_LAB)

    def last(self, most: int) -> list[JournaledOperation]:
        """The last so many."""
        return self._select(_LAST, most)

    def of_process(self, part: str) -> list[JournaledOperation]:
        """The last one that a process began whose description has that part."""
        return self._select(_OF_PROCESS, f"*{part}*")

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
                title=row["title"],
                detail=row["detail"],
                process=row["process"],
                outcome=json.loads(row["outcome"] or "{}"),
            )
            for row in rows
        ]
