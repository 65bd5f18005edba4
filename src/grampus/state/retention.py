"""How long the operation journal keeps operations that ended: a time, and the last of each subject.

A pass over the journal is done once a day, in pieces: a command looks at few operations, so that it
is no slower the more there are, and the next one goes on (INV-85).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from grampus.core.clock import Clock
from grampus.core.errors import UsageError
from grampus.state.store import Store

KEEP_VARIABLE = "GRAMPUS_KEEP_OPERATIONS_DAYS"
KEPT_DAYS = 90
MOST_DAYS = 36_500
# Of each subject that there still is, however old they are.
KEPT_OF_SUBJECT = 100
PASS_EVERY = timedelta(days=1)
# A command looks at so many, in some milliseconds.
ROWS_OF_A_COMMAND = 200

_PLACE = "SELECT at_id, ended_at FROM pruned WHERE lab = ?"
_NOTE_PLACE = "INSERT OR REPLACE INTO pruned (lab, at_id, ended_at) VALUES (?, ?, ?)"
# The unary plus keeps SQLite from reading, and sorting, all operations of the lab by another index.
_OLD = (
    "SELECT id, kind, subject FROM operations "
    "WHERE id > ? AND id < (SELECT max(id) FROM operations) AND +lab = ? AND changed_at < ? "
    "AND status NOT IN ('running', 'undoing') ORDER BY id LIMIT ?"
)
_NEWER = (
    "SELECT count(*) AS newer FROM "
    "(SELECT 1 FROM operations WHERE lab = ? AND subject = ? AND id > ? LIMIT ?)"
)
_FORGET = "DELETE FROM operations WHERE id = ? AND status NOT IN ('running', 'undoing')"


@dataclass(frozen=True)
class KeptSubjects:
    """Whose operations are kept beyond their time."""

    names: Collection[str]  # of what there still is, those of former times included
    lineage: Collection[str]  # kinds that tell what a subject was called before: all are kept


def parse_kept_days(environment: Mapping[str, str]) -> int:
    """The days that operations are kept for. Raises UsageError with code `invalid-days`."""
    given = environment.get(KEEP_VARIABLE) or str(KEPT_DAYS)
    if not (given.isascii() and given.isdigit() and 1 <= int(given) <= MOST_DAYS):
        raise UsageError(
            f"{KEEP_VARIABLE} is '{given}', which is not a number of days.",
            f"Set it to a number from 1 to {MOST_DAYS}, or unset it for the default of "
            f"{KEPT_DAYS} days.",
            code="invalid-days",
        )
    return int(given)


class OperationRetention:
    """Removes old operations of one lab from the journal.

    Never one that has not ended. Never the last one of all: its number would be given again, and
    what refers to an operation by number would refer to another one.
    """

    def __init__(self, store: Store, lab: str, clock: Clock) -> None:
        self._store = store
        self._lab = lab
        self._clock = clock

    def is_due(self) -> bool:
        """Whether a pass is under way, or the last one is a day ago."""
        with self._store.transaction() as connection:
            at_id, ended_at = self._pass(connection)
        if at_id or not ended_at:
            return True
        since = self._clock.now() - datetime.fromisoformat(ended_at)
        return not timedelta(0) <= since < PASS_EVERY

    def forget(self, kept: Callable[[], KeptSubjects], *, days: int, most: int) -> tuple[int, bool]:
        """Look at the `most` next operations that are older than `days`, and remove what may go.

        Answers with how many went, and whether the pass ended.
        """
        subjects = kept()
        now = self._clock.now()
        before = (now - timedelta(days=days)).isoformat()

        def write(connection: sqlite3.Connection) -> tuple[int, bool]:
            at_id, _ = self._pass(connection)
            rows = connection.execute(_OLD, (at_id, self._lab, before, most)).fetchall()
            gone = [(row["id"],) for row in rows if not self._is_kept(connection, row, subjects)]
            connection.executemany(_FORGET, gone)
            is_over = len(rows) < most
            place = (0, now.isoformat()) if is_over else (rows[-1]["id"], "")
            connection.execute(_NOTE_PLACE, (self._lab, *place))
            return len(gone), is_over

        return self._store.change(write)

    def _pass(self, connection: sqlite3.Connection) -> tuple[int, str]:
        row = connection.execute(_PLACE, (self._lab,)).fetchone()
        return (0, "") if row is None else (row["at_id"], row["ended_at"])

    def _is_kept(
        self, connection: sqlite3.Connection, row: sqlite3.Row, kept: KeptSubjects
    ) -> bool:
        if row["subject"] not in kept.names:
            return False
        if row["kind"] in kept.lineage:
            return True
        place = (self._lab, row["subject"], row["id"], KEPT_OF_SUBJECT)
        newer: int = connection.execute(_NEWER, place).fetchone()["newer"]
        return newer < KEPT_OF_SUBJECT
