"""The SQLite store: tables, connections, and typed records by kind, lab and name."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    event,
    select,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DatabaseError
from sqlalchemy.schema import CreateTable

from grampus.core.errors import GrampusError

metadata = MetaData()

records_table = Table(
    "records",
    metadata,
    Column("kind", String, nullable=False),
    Column("lab", String, nullable=False),
    Column("name", String, nullable=False),
    Column("body", String, nullable=False),
    PrimaryKeyConstraint("kind", "lab", "name"),
)

operations_table = Table(
    "operations",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("kind", String, nullable=False),
    Column("lab", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("spec", String, nullable=False),
    Column("status", String, nullable=False),
    Column("step", String, nullable=False, default=""),
    Column("error", String, nullable=False, default=""),
    Column("started_at", String, nullable=False),
    Column("changed_at", String, nullable=False),
)

# Built once: building a statement costs several times what SQLite takes to run it.
_OF_KIND = records_table.c.kind == bindparam("kind")
_OF_LAB = records_table.c.lab == bindparam("lab")
_OF_NAME = records_table.c.name == bindparam("name")
_INSERT = insert(records_table)
_PUT = _INSERT.on_conflict_do_update(
    index_elements=["kind", "lab", "name"], set_={"body": _INSERT.excluded.body}
)
_GET = select(records_table.c.body).where(_OF_KIND, _OF_LAB, _OF_NAME)
_ALL = (
    select(records_table.c.name, records_table.c.body)
    .where(_OF_KIND)
    .order_by(records_table.c.name)
)
_ALL_OF_LAB = _ALL.where(_OF_LAB)
_REMOVE = delete(records_table).where(_OF_KIND, _OF_LAB, _OF_NAME)
_REMOVE_LAB = delete(records_table).where(_OF_LAB)

RecordT = TypeVar("RecordT", bound=BaseModel)


class Store:
    """One SQLite file, opened for this process; without a file, an empty store in memory.

    Commits are synchronous (`synchronous=FULL`): the operation journal must survive a power
    cut once a step has begun.
    """

    def __init__(self, file: Path | None) -> None:
        if file is not None:
            _ensure_file(file)
        url = URL.create("sqlite", database=None if file is None else str(file))
        self._engine: Engine = create_engine(url, connect_args={"timeout": 30})
        event.listen(self._engine, "connect", _set_pragmas)
        self._file = file or "memory"
        try:
            with self.transaction() as connection:
                # Not create_all: it looks first, and fails when another process comes between.
                for table in metadata.sorted_tables:
                    connection.execute(CreateTable(table, if_not_exists=True))
        except GrampusError:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection in a transaction, committed at the end of the block."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except DatabaseError as error:
            raise GrampusError(
                f"The state file {self._file} cannot be used: {error.orig}.",
                "Check that the disk is not full and that the file is not damaged.",
                code="state-unusable",
            ) from error

    def close(self) -> None:
        """Release the file."""
        self._engine.dispose()

    def put(self, kind: str, lab: str, name: str, record: BaseModel) -> None:
        """Write the record of `kind` named `name` in `lab`, replacing an older one."""
        values = {"kind": kind, "lab": lab, "name": name, "body": record.model_dump_json()}
        with self.transaction() as connection:
            connection.execute(_PUT, values)

    def get(self, kind: str, lab: str, name: str, model: type[RecordT]) -> RecordT | None:
        """The record, or None. Raises GrampusError with code `state-unreadable`."""
        with self.transaction() as connection:
            body = connection.execute(
                _GET, {"kind": kind, "lab": lab, "name": name}
            ).scalar_one_or_none()
        return None if body is None else self._parse(kind, name, body, model)

    def all(self, kind: str, lab: str | None, model: type[RecordT]) -> dict[str, RecordT]:
        """Records of `kind` by name, of one lab or (None) of all labs, sorted by name."""
        query, values = (_ALL, {}) if lab is None else (_ALL_OF_LAB, {"lab": lab})
        with self.transaction() as connection:
            rows = connection.execute(query, {"kind": kind, **values}).all()
        return {name: self._parse(kind, name, body, model) for name, body in rows}

    def remove(self, kind: str, lab: str, name: str) -> None:
        """Forget the record; nothing happens when there is none."""
        with self.transaction() as connection:
            connection.execute(_REMOVE, {"kind": kind, "lab": lab, "name": name})

    def remove_lab(self, lab: str) -> None:
        """Forget every record of `lab`, of whatever kind."""
        with self.transaction() as connection:
            connection.execute(_REMOVE_LAB, {"lab": lab})

    def _parse(self, kind: str, name: str, body: str, model: type[RecordT]) -> RecordT:
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "its text"
            raise GrampusError(
                f"The {kind} '{name}' in {self._file} cannot be read: {place}: {first['msg']}.",
                "Use the version of Grampus that wrote it.",
                code="state-unreadable",
            ) from error


def _ensure_file(file: Path) -> None:
    """Make the file whole beside its place, and link it there.

    Two processes that begin together would otherwise get in each other's way: SQLite switches to
    the write-ahead log without waiting for others ("database is locked").
    """
    if file.exists():
        file.touch()  # raises when it may not be written: SQLite would not say why
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as directory:
        made = Path(directory) / file.name
        made.touch(mode=0o600)
        Store(made).close()
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(made)


def _set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
