"""Warnings about subjects: when each began, and when it was over. Kept beside the operations.

Not as records: those are noted on images whenever they change, and a warning is no fact that a
database is found again by. Like the journal, they go with the state.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from grampus.core.clock import Clock
from grampus.state.store import Store

# Of each subject; what lasts is never forgotten.
KEPT_OF_SUBJECT = 200
# What begins again so soon has not been over: it is counted, and takes no room of its own.
AGAIN_WITHIN_S = 600.0
_LONGEST_TEXT = 2000

_KNOWN = (
    "SELECT * FROM warnings WHERE lab = ? AND job = ? AND (ended_at = '' OR ended_at >= ?) "
    "ORDER BY id"
)
_OF_SUBJECTS = (
    "SELECT * FROM (SELECT * FROM warnings WHERE lab = ? "
    "AND subject IN (SELECT value FROM json_each(?)) "
    "ORDER BY began_at DESC, id DESC LIMIT ?) ORDER BY began_at, id"
)
_LASTING = "SELECT * FROM warnings WHERE lab = ? AND subject = ? AND ended_at = '' ORDER BY id"
_LASTING_KINDS = (
    "SELECT * FROM warnings WHERE lab = ? AND kind GLOB ? AND ended_at = '' ORDER BY id"
)
_BEGIN = (
    "INSERT INTO warnings (lab, subject, job, kind, level, text, remedy, times, began_at, "
    "began_last_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, '')"
)
_AGAIN = "UPDATE warnings SET ended_at = '', times = times + 1, began_last_at = ? WHERE id = ?"
_END = "UPDATE warnings SET ended_at = ? WHERE id = ?"
_FORGET = (
    "DELETE FROM warnings WHERE lab = ? AND subject = ? AND ended_at <> '' AND id NOT IN "
    "(SELECT id FROM warnings WHERE lab = ? AND subject = ? ORDER BY id DESC LIMIT ?)"
)


@dataclass(frozen=True)
class Warned:
    """What is to be warned of, as it was told."""

    subject: str
    kind: str  # a stable word, such as `archive-late`
    level: str  # such as `warning` or `failed`
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class KeptWarning:
    """A warning as it is kept."""

    id: int
    job: str  # who warned
    warned: Warned
    times: int  # how often it began, each but the first soon after it was over
    began_at: datetime
    began_last_at: datetime  # the last of these times
    ended_at: datetime | None  # None: it lasts, as far as who warned of it knows
    until: datetime  # its end, or now


class WarningHistory:
    """The warnings of one lab, oldest first."""

    def __init__(self, store: Store, lab: str, clock: Clock) -> None:
        self._store = store
        self._lab = lab
        self._clock = clock

    def known(self, job: str) -> list[KeptWarning]:
        """What `job` warned of that lasts, or was over only lately (`AGAIN_WITHIN_S`)."""
        since = self._clock.now() - timedelta(seconds=AGAIN_WITHIN_S)
        return self._select(_KNOWN, self._lab, job, since.isoformat())

    def of_subjects(
        self, subjects: Collection[str], *, last: int | None = None
    ) -> list[KeptWarning]:
        """The warnings about one of these subjects; the `last` so many."""
        bound = -1 if last is None else last
        return self._select(_OF_SUBJECTS, self._lab, json.dumps(list(subjects)), bound)

    def lasting(self, subject: str) -> list[KeptWarning]:
        """What lasts about the subject."""
        return self._select(_LASTING, self._lab, subject)

    def lasting_of_kind(self, beginning: str) -> list[KeptWarning]:
        """What lasts about any subject, of the kinds whose words begin so."""
        return self._select(_LASTING_KINDS, self._lab, f"{beginning}*")

    def change(
        self,
        job: str,
        *,
        begun: Sequence[Warned] = (),
        again: Sequence[KeptWarning] = (),
        ended: Sequence[KeptWarning] = (),
    ) -> None:
        """What began, began again and was over just now, all or nothing of it."""
        if not begun and not again and not ended:
            return
        now = self._clock.now().isoformat()

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(_END, [(now, warning.id) for warning in ended])
            connection.executemany(_AGAIN, [(now, warning.id) for warning in again])
            for warned in begun:
                place = (self._lab, warned.subject)
                said = (warned.kind, warned.level, cut_text(warned.text), warned.remedy)
                connection.execute(_BEGIN, (*place, job, *said, now, now))
                connection.execute(_FORGET, (*place, *place, KEPT_OF_SUBJECT))

        self._store.change(write)

    def _select(self, query: str, *values: str | int) -> list[KeptWarning]:
        with self._store.transaction() as connection:
            rows = connection.execute(query, values).fetchall()
        now = self._clock.now()
        return [_parse(row, now) for row in rows]


def cut_text(text: str) -> str:
    """As it is kept: what a server or a command said may be of any length."""
    return text[:_LONGEST_TEXT]


def _parse(row: sqlite3.Row, now: datetime) -> KeptWarning:
    ended_at = datetime.fromisoformat(row["ended_at"]) if row["ended_at"] else None
    return KeptWarning(
        id=row["id"],
        job=row["job"],
        warned=Warned(row["subject"], row["kind"], row["level"], row["text"], row["remedy"]),
        times=row["times"],
        began_at=datetime.fromisoformat(row["began_at"]),
        began_last_at=datetime.fromisoformat(row["began_last_at"]),
        ended_at=ended_at,
        until=ended_at or now,
    )
