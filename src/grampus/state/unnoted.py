"""Which records may differ from what images say of them: those that changed since the last look.

Triggers of the state file mark the name of each record that is written or removed (`schema.py`), so
also those that an earlier release writes. A command compares the marked names alone, however many
databases there are (INV-84).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from grampus.state.store import Store
from grampus.state.stored import StoredRecord, parse_stored

_MARKED = "SELECT name, mark FROM unnoted WHERE lab = ? ORDER BY name"
_OF_NAMES = (
    "SELECT kind, name, body FROM records WHERE lab = ? "
    "AND name IN (SELECT value FROM json_each(?)) ORDER BY kind, name"
)
_OF_KIND = "SELECT kind, name, body FROM records WHERE kind = ? AND lab = ? ORDER BY name"
_SETTLE = "DELETE FROM unnoted WHERE lab = ? AND name = ? AND mark = ?"
_MARK = "INSERT OR REPLACE INTO unnoted VALUES (?, ?, random())"


class UnnotedNames:
    """The names in one lab whose records changed."""

    def __init__(self, store: Store, lab: str) -> None:
        self._store = store
        self._lab = lab

    def find(self) -> dict[str, int]:
        """The marks by name. Read them before the records that they are about."""
        with self._store.transaction() as connection:
            return dict(map(tuple, connection.execute(_MARKED, (self._lab,)).fetchall()))

    def records(self, names: Collection[str]) -> list[StoredRecord]:
        """Every record of these names, by kind and name."""
        with self._store.transaction() as connection:
            rows = connection.execute(_OF_NAMES, (self._lab, json.dumps(list(names)))).fetchall()
        return [parse_stored(row) for row in rows]

    def of_kind(self, kind: str) -> list[StoredRecord]:
        """Every record of a kind of which there are few, by name."""
        with self._store.transaction() as connection:
            rows = connection.execute(_OF_KIND, (kind, self._lab)).fetchall()
        return [parse_stored(row) for row in rows]

    def settle(self, marks: Mapping[str, int]) -> None:
        """These names were compared, and images say what the records were under these marks.

        A name whose mark is another one by now is compared again: its records changed meanwhile,
        or another command noted something that this one may have replaced.
        """
        with self._store.transaction() as connection:
            for name, mark in marks.items():
                if connection.execute(_SETTLE, (self._lab, name, mark)).rowcount == 0:
                    connection.execute(_MARK, (self._lab, name))
