"""Records as they are stored, whatever their kind: to be copied elsewhere, and put back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel

from grampus.state.store import Store

_OF_LAB = "SELECT kind, name, body FROM records WHERE lab = ? ORDER BY kind, name"


class StoredRecord(BaseModel):
    """One record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    name: str
    body: dict[str, Any]


class _Body(RootModel[dict[str, Any]]):
    """The body of any kind of record."""


def records_of_lab(store: Store, lab: str) -> list[StoredRecord]:
    """Every record of the lab, by kind and name."""
    with store.transaction() as connection:
        rows = connection.execute(_OF_LAB, (lab,)).fetchall()
    return [StoredRecord(kind=kind, name=name, body=json.loads(body)) for kind, name, body in rows]


def put_record(store: Store, lab: str, record: StoredRecord) -> None:
    """Put a record back as it was."""
    store.put(record.kind, lab, record.name, _Body(record.body))


def copy_of_lab(file: Path, lab: str) -> Store:
    """A store in memory with the records of the lab, if there is such a file."""
    copy = Store(None)
    if file.exists():
        original = Store(file)
        for record in records_of_lab(original, lab):
            put_record(copy, lab, record)
        original.close()
    return copy
