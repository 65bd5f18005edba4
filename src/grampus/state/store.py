"""The SQLite store: tables, connections, and typed records by kind, lab and name."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from grampus.core.errors import GrampusError

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS records (
        kind VARCHAR NOT NULL,
        lab VARCHAR NOT NULL,
        name VARCHAR NOT NULL,
        body VARCHAR NOT NULL,
        PRIMARY KEY (kind, lab, name)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS operations (
        id INTEGER NOT NULL PRIMARY KEY,
        kind VARCHAR NOT NULL,
        lab VARCHAR NOT NULL,
        subject VARCHAR NOT NULL,
        spec VARCHAR NOT NULL,
        status VARCHAR NOT NULL,
        step VARCHAR NOT NULL,
        error VARCHAR NOT NULL,
        started_at VARCHAR NOT NULL,
        changed_at VARCHAR NOT NULL,
        actor VARCHAR NOT NULL DEFAULT '',
        identity VARCHAR NOT NULL DEFAULT '',
        takes VARCHAR NOT NULL DEFAULT ''
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS warnings (
        id INTEGER NOT NULL PRIMARY KEY,
        lab VARCHAR NOT NULL,
        subject VARCHAR NOT NULL,
        job VARCHAR NOT NULL,
        kind VARCHAR NOT NULL,
        level VARCHAR NOT NULL,
        text VARCHAR NOT NULL,
        remedy VARCHAR NOT NULL,
        times INTEGER NOT NULL,
        began_at VARCHAR NOT NULL,
        began_last_at VARCHAR NOT NULL,
        ended_at VARCHAR NOT NULL
    )
    """,
    # See `generation.py`.
    """
    CREATE TABLE IF NOT EXISTS generation (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        state VARCHAR NOT NULL,
        number INTEGER NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS confirmed (
        lab VARCHAR NOT NULL PRIMARY KEY,
        place VARCHAR NOT NULL
    )
    """,
)
# Columns that older files lack: table, column, and how it is added.
_LATER_COLUMNS = tuple(
    (
        "operations",
        column,
        f"ALTER TABLE operations ADD COLUMN {column} VARCHAR NOT NULL DEFAULT ''",
    )
    for column in ("actor", "identity", "takes")
)
_COLUMNS = "SELECT name FROM pragma_table_info(?)"
_PUT = (
    "INSERT INTO records (kind, lab, name, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (kind, lab, name) DO UPDATE SET body = excluded.body"
)
_GET = "SELECT body FROM records WHERE kind = ? AND lab = ? AND name = ?"
_ALL = "SELECT name, body FROM records WHERE kind = ? ORDER BY name"
_ALL_OF_LAB = "SELECT name, body FROM records WHERE kind = ? AND lab = ? ORDER BY name"
_REMOVE = "DELETE FROM records WHERE kind = ? AND lab = ? AND name = ?"
_REMOVE_LAB = ("DELETE FROM records WHERE lab = ?", "DELETE FROM warnings WHERE lab = ?")
# Another process holds the file for the time of one statement.
_BUSY_TIMEOUT_S = 30.0

RecordT = TypeVar("RecordT", bound=BaseModel)


class Store:
    """One SQLite file, opened for this process; without a file, an empty store in memory.

    Commits are synchronous (`synchronous=FULL`): the operation journal must survive a power
    cut once a step has begun.
    """

    def __init__(self, file: Path | None) -> None:
        if file is not None:
            _ensure_file(file)
        self._file = file or "memory"
        # One connection, used by one thread at a time.
        self._lock = threading.RLock()
        with self._errors_explained():
            self._connection = sqlite3.connect(
                file or ":memory:", timeout=_BUSY_TIMEOUT_S, check_same_thread=False
            )
        self._connection.row_factory = sqlite3.Row
        try:
            with self._errors_explained():
                self._connection.execute("PRAGMA journal_mode=WAL").close()
                self._connection.execute("PRAGMA synchronous=FULL").close()
            with self.transaction() as connection:
                for table in _TABLES:
                    connection.execute(table)
            self._add_columns()
        except GrampusError:
            self.close()
            raise

    @property
    def is_file(self) -> bool:
        """Whether it lasts; else it is in memory alone."""
        return isinstance(self._file, Path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction, committed at the end of the block."""
        with self._lock, self._errors_explained(), self._connection:
            yield self._connection

    def _add_columns(self) -> None:
        for table, column, statement in _LATER_COLUMNS:
            if self._has(table, column):
                continue
            with self.transaction() as connection:
                # Another process may be doing the same: it is looked at again under the lock.
                connection.execute("BEGIN IMMEDIATE")
                if not self._has(table, column):
                    connection.execute(statement)

    def _has(self, table: str, column: str) -> bool:
        with self._errors_explained():
            rows = self._connection.execute(_COLUMNS, (table,)).fetchall()
        return any(row["name"] == column for row in rows)

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise GrampusError(
                f"The state file {self._file} cannot be used: {error}.",
                "Check that the disk is not full and that the file is not damaged.",
                code="state-unusable",
            ) from error

    def copy_to(self, target: sqlite3.Connection) -> None:
        """Copy all of it, as it is at one moment, into another database."""
        with self._lock, self._errors_explained():
            self._connection.backup(target)

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._connection.close()

    def put(self, kind: str, lab: str, name: str, record: BaseModel) -> None:
        """Write the record of `kind` named `name` in `lab`, replacing an older one."""
        with self.transaction() as connection:
            connection.execute(_PUT, (kind, lab, name, record.model_dump_json()))

    def get(self, kind: str, lab: str, name: str, model: type[RecordT]) -> RecordT | None:
        """The record, or None. Raises GrampusError with code `state-unreadable`."""
        with self.transaction() as connection:
            row = connection.execute(_GET, (kind, lab, name)).fetchone()
        return None if row is None else self._parse(kind, name, row["body"], model)

    def all(self, kind: str, lab: str | None, model: type[RecordT]) -> dict[str, RecordT]:
        """Records of `kind` by name, of one lab or (None) of all labs, sorted by name."""
        query, values = (_ALL, (kind,)) if lab is None else (_ALL_OF_LAB, (kind, lab))
        with self.transaction() as connection:
            rows = connection.execute(query, values).fetchall()
        return {name: self._parse(kind, name, body, model) for name, body in rows}

    def remove(self, kind: str, lab: str, name: str) -> None:
        """Forget the record; nothing happens when there is none."""
        with self.transaction() as connection:
            connection.execute(_REMOVE, (kind, lab, name))

    def remove_lab(self, lab: str) -> None:
        """Forget every record of `lab`, of whatever kind, and what was warned of in it."""
        with self.transaction() as connection:
            for statement in _REMOVE_LAB:
                connection.execute(statement, (lab,))

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
