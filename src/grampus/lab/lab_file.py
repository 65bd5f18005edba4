"""What a lab is, beside its data: so that it can be found again without the state."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from grampus.core.errors import GrampusError, NotFoundError
from grampus.lab.model import LAB_RECORD
from grampus.lab.osd_set import OSD_SET_RECORD
from grampus.lab.parts import PARTS
from grampus.state.home import Home, write_atomically
from grampus.state.store import Store
from grampus.state.stored import StoredRecord, put_record, records_of_lab

_RECORDS = TypeAdapter(list[StoredRecord])
_KINDS = frozenset({LAB_RECORD, OSD_SET_RECORD, *PARTS})


def lab_file(home: Home, lab: str) -> Path:
    """It goes with the lab's data."""
    return home.lab_dir(lab) / "lab.json"


def ensure_lab_file(home: Home, store: Store, lab: str) -> None:
    """The file as the state is; nothing happens without such a lab."""
    records = _records_of(store, lab)
    if not any(record.kind == LAB_RECORD for record in records):
        return
    content, file = _RECORDS.dump_json(records, indent=2) + b"\n", lab_file(home, lab)
    if not file.exists() or file.read_bytes() != content:
        write_atomically(file, content, mode=0o600)


def find_lost_records(home: Home, store: Store, lab: str) -> list[StoredRecord]:
    """What the file says and the state lacks.

    Raises NotFoundError when neither knows the lab, GrampusError with code `lab-file` when the
    file cannot be read.
    """
    there = {(record.kind, record.name) for record in _records_of(store, lab)}
    file = lab_file(home, lab)
    try:
        found = _RECORDS.validate_json(file.read_bytes())
    except FileNotFoundError:
        if there:
            return []
        raise NotFoundError(
            f"There is no lab named '{lab}', and its file {file} is missing.",
            "Give the lab with --lab, or set GRAMPUS_HOME to its home directory. For a site, run "
            f"`grampus site adopt {lab}` and `grampus host add HOST` first.",
        ) from None
    except ValidationError as error:
        raise GrampusError(
            f"{file} cannot be read: {error.errors()[0]['msg']}.",
            "Restore only that file from a copy, if there is one. Then run the command again.",
            code="lab-file",
        ) from error
    return [record for record in found if (record.kind, record.name) not in there]


def restore_lab(store: Store, lab: str, records: list[StoredRecord]) -> None:
    """Put them back into the state."""
    for record in records:
        put_record(store, lab, record)


def _records_of(store: Store, lab: str) -> list[StoredRecord]:
    return records_of_lab(store, lab, kinds=_KINDS)
