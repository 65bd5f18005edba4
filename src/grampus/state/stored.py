"""Records as they are stored, whatever their kind: to be copied elsewhere, and put back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, RootModel

from grampus.core.models import Model
from grampus.state.store import Store

_OF_LAB = "SELECT kind, name, body FROM records WHERE lab = ? ORDER BY kind, name"
_OF_KINDS = (
    "SELECT kind, name, body FROM records WHERE lab = ? "
    "AND kind IN (SELECT value FROM json_each(?)) ORDER BY kind, name"
)


class StoredRecord(Model):
    """One record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    name: str
    body: dict[str, Any]


class _Body(RootModel[dict[str, Any]]):
    """The body of any kind of record."""


def records_of_lab(
    store: Store, lab: str, *, kinds: Collection[str] | None = None
) -> list[StoredRecord]:
    """Every record of the lab, or those of some kinds, by kind and name."""
    with store.transaction() as connection:
        if kinds is None:
            rows = connection.execute(_OF_LAB, (lab,)).fetchall()
        else:
            rows = connection.execute(_OF_KINDS, (lab, json.dumps(sorted(kinds)))).fetchall()
    return [parse_stored(row) for row in rows]


def parse_stored(row: sqlite3.Row) -> StoredRecord:
    """The record of a row with its `kind`, `name` and `body`."""
    return StoredRecord(kind=row["kind"], name=row["name"], body=json.loads(row["body"]))


def put_record(store: Store, lab: str, record: StoredRecord) -> None:
    """Put a record back as it was."""
    store.put(record.kind, lab, record.name, _Body(record.body))


def copy_of_lab(file: Path, lab: str) -> Store:
    """A store in memory with the records of the lab, if there is such a file."""
    if not file.exists():
        return Store(None)
    original = Store(file)
    try:
        return copy_of_store(original, lab)
    finally:
        original.close()


def copy_of_store(original: Store, lab: str) -> Store:
    """A store in memory with the records of the lab."""
    copy = Store(None)
    for record in records_of_lab(original, lab):
        put_record(copy, lab, record)
    return copy
