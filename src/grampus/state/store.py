"""The SQLite store: tables, connections, and typed records by kind, lab and name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    delete,
    event,
    select,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DatabaseError

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

RecordT = TypeVar("RecordT", bound=BaseModel)


class Store:
    """One SQLite file, opened for this process.

    Commits are synchronous (`synchronous=FULL`): the operation journal must survive a power
    cut once a step has begun.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        self._engine: Engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 30})
        event.listen(self._engine, "connect", _set_pragmas)
        self._file = file
        with self.transaction() as connection:
            metadata.create_all(connection)

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
        body = record.model_dump_json()
        statement = insert(records_table).values(kind=kind, lab=lab, name=name, body=body)
        statement = statement.on_conflict_do_update(
            index_elements=["kind", "lab", "name"], set_={"body": body}
        )
        with self.transaction() as connection:
            connection.execute(statement)

    def get(self, kind: str, lab: str, name: str, model: type[RecordT]) -> RecordT | None:
        """The record, or None."""
        query = select(records_table.c.body).where(
            records_table.c.kind == kind,
            records_table.c.lab == lab,
            records_table.c.name == name,
        )
        with self.transaction() as connection:
            body = connection.execute(query).scalar_one_or_none()
        return None if body is None else model.model_validate_json(body)

    def all(self, kind: str, lab: str | None, model: type[RecordT]) -> dict[str, RecordT]:
        """Records of `kind` by name, of one lab or (None) of all labs, sorted by name."""
        query = select(records_table.c.name, records_table.c.body).where(
            records_table.c.kind == kind
        )
        if lab is not None:
            query = query.where(records_table.c.lab == lab)
        with self.transaction() as connection:
            rows = connection.execute(query.order_by(records_table.c.name)).all()
        return {name: model.model_validate_json(body) for name, body in rows}

    def remove(self, kind: str, lab: str, name: str) -> None:
        """Forget the record; nothing happens when there is none."""
        with self.transaction() as connection:
            connection.execute(
                delete(records_table).where(
                    records_table.c.kind == kind,
                    records_table.c.lab == lab,
                    records_table.c.name == name,
                )
            )

    def remove_lab(self, lab: str) -> None:
        """Forget every record of `lab`, of whatever kind."""
        with self.transaction() as connection:
            connection.execute(delete(records_table).where(records_table.c.lab == lab))


def _set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()
