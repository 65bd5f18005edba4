"""The SQLite store: tables, connections, and typed records by kind, lab and name."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from grampus.core.clock import Clock, SystemClock, wait_until
from grampus.core.errors import GrampusError
from grampus.state.schema import ensure_schema

_PUT = (
    "INSERT INTO records (kind, lab, name, body) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (kind, lab, name) DO UPDATE SET body = excluded.body"
)
_IS_MARKED = "SELECT 1 FROM unnoted WHERE lab = ? AND name = ?"
_UNMARK = "DELETE FROM unnoted WHERE lab = ? AND name = ?"
_GET = "SELECT body FROM records WHERE kind = ? AND lab = ? AND name = ?"
_ALL = "SELECT name, body FROM records WHERE kind = ? ORDER BY name"
_ALL_OF_LAB = "SELECT name, body FROM records WHERE kind = ? AND lab = ? ORDER BY name"
_NAMES = "SELECT name FROM records WHERE kind = ? AND lab = ? ORDER BY name"
_FIELD = "SELECT name, json_extract(body, ?) FROM records WHERE kind = ? AND lab = ? ORDER BY name"
_DAMAGED = "SELECT name FROM records WHERE kind = ? AND lab = ? AND NOT json_valid(body) LIMIT 1"
_MARK = "SELECT mark FROM record_marks WHERE kind = ? AND lab = ?"
_REMOVE = "DELETE FROM records WHERE kind = ? AND lab = ? AND name = ?"
_REMOVE_LAB = (
    "DELETE FROM records WHERE lab = ?",
    "DELETE FROM warnings WHERE lab = ?",
    "DELETE FROM unnoted WHERE lab = ?",
)
# Another process holds the file for the time of one statement.
_BUSY_TIMEOUT_S = 30.0

# Records as they were parsed, by their text: `grampus serve` reads all of them every few seconds,
# and nearly none has changed. They are frozen, so whoever has one cannot change another's.
_parsed: dict[tuple[type[BaseModel], str], BaseModel] = {}
_MOST_PARSED = 20_000
# What was last read of all records of a kind, with their mark then. To read a field of a thousand
# records takes 5 ms, and `grampus serve` asks for several each second.
_read: dict[tuple[object, ...], tuple[int, Mapping[str, Any]]] = {}
_MOST_READ = 200

RecordT = TypeVar("RecordT", bound=BaseModel)
ResultT = TypeVar("ResultT")


class Store:
    """One SQLite file, opened for this process; without a file, an empty store in memory.

    Commits are synchronous (`synchronous=FULL`): the operation journal must survive a power
    cut once a step has begun.
    """

    def __init__(self, file: Path | None, *, clock: Clock = SystemClock()) -> None:
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
                wait_until(
                    clock,
                    self._has_log,
                    what=f"other processes that use {file}",
                    remedy="Find them with 'fuser', and end them or wait.",
                    timeout_s=_BUSY_TIMEOUT_S,
                    interval_s=0.01,
                )
                self._connection.execute("PRAGMA synchronous=FULL").close()
            ensure_schema(self._connection, self.transaction)
        except GrampusError:
            self.close()
            raise

    def _has_log(self) -> bool:
        """Whether the file has a write-ahead log, after an attempt to give it one.

        A copy that was put back has none. SQLite switches without waiting for a writer, whatever
        the timeout of the connection.
        """
        try:
            self._connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # the low byte is the kind
                raise
            return False
        return True

    @property
    def file(self) -> Path:
        """Where it is kept; a name of no file, of one in memory."""
        return Path(self._file)

    @property
    def is_file(self) -> bool:
        """Whether it lasts; else it is in memory alone."""
        return isinstance(self._file, Path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction, committed at the end of the block."""
        with self._lock, self._errors_explained(), self._connection:
            yield self._connection

    def change(self, make: Callable[[sqlite3.Connection], ResultT]) -> ResultT:
        """What `make` answers, which changes rows in one transaction: all of it, or nothing.

        No other process writes meanwhile. `make` may be run again (`replicated.py`), so it changes
        nothing else. Raises what `make` raises, and GrampusError.
        """
        with self._lock, self._errors_explained(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            return make(self._connection)

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

    def refresh(self) -> None:
        """Get what other machines have changed, for who looks again and again. This is the state
        of one machine, which has it already."""

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._connection.close()

    def put(
        self, kind: str, lab: str, name: str, record: BaseModel, *, is_noted: bool = True
    ) -> None:
        """Write the record of `kind` named `name` in `lab`, replacing an older one.

        Without `is_noted`, the change alone is no reason to note the records of that name again
        (`unnoted.py`): a lost state can do without it.
        """
        values = (kind, lab, name, record.model_dump_json())

        def write(connection: sqlite3.Connection) -> None:
            is_marked = connection.execute(_IS_MARKED, (lab, name)).fetchone() is not None
            connection.execute(_PUT, values)
            if not is_noted and not is_marked:
                connection.execute(_UNMARK, (lab, name))

        self.change(write)

    def get(self, kind: str, lab: str, name: str, model: type[RecordT]) -> RecordT | None:
        """The record, or None. Raises GrampusError with code `state-unreadable`."""
        with self.transaction() as connection:
            row = connection.execute(_GET, (kind, lab, name)).fetchone()
        return None if row is None else self._parse(kind, name, row["body"], model)

    def all(self, kind: str, lab: str | None, model: type[RecordT]) -> dict[str, RecordT]:
        """Records of `kind` by name, of one lab or (None) of all labs, sorted by name."""
        if lab is None:
            with self.transaction() as connection:
                rows = connection.execute(_ALL, (kind,)).fetchall()
            return {name: self._parse(kind, name, body, model) for name, body in rows}

        def read(connection: sqlite3.Connection) -> dict[str, RecordT]:
            rows = connection.execute(_ALL_OF_LAB, (kind, lab)).fetchall()
            return {name: self._parse(kind, name, body, model) for name, body in rows}

        return self._read_once(kind, lab, model, read)

    def names(self, kind: str, lab: str) -> list[str]:
        """The names of all records of `kind` in `lab`, sorted; no record is parsed."""
        with self.transaction() as connection:
            rows = connection.execute(_NAMES, (kind, lab)).fetchall()
        return [row["name"] for row in rows]

    def field(self, kind: str, lab: str, path: str) -> dict[str, Any]:
        """One field of all records of `kind` by name, such as of `$.spec.host`.

        Parsing a thousand records takes ten times as long. The value is what JSON has there, None
        also where there is no such field. Raises GrampusError with code `state-unreadable`.
        """

        def read(connection: sqlite3.Connection) -> dict[str, Any]:
            damaged = connection.execute(_DAMAGED, (kind, lab)).fetchone()
            if damaged is not None:
                raise self._unreadable(kind, damaged["name"], "its text: not valid JSON")
            rows = connection.execute(_FIELD, (path, kind, lab)).fetchall()
            return dict(map(tuple, rows))

        return self._read_once(kind, lab, path, read)

    def _read_once(
        self,
        kind: str,
        lab: str,
        what: object,
        read: Callable[[sqlite3.Connection], dict[str, ResultT]],
    ) -> dict[str, ResultT]:
        """What `read` answers, or answered before if no record of the kind was changed since."""
        key = (self._file, kind, lab, what)
        with self.transaction() as connection:
            # Before the records: what changes meanwhile changes the mark for the next time.
            row = connection.execute(_MARK, (kind, lab)).fetchone()
            known = _read.get(key)
            if row is not None and known is not None and known[0] == row["mark"]:
                return dict(known[1])
            found = read(connection)
        if row is not None:
            if len(_read) >= _MOST_READ:
                _read.clear()
            _read[key] = (row["mark"], found)
        return dict(found)

    def remove(self, kind: str, lab: str, name: str) -> None:
        """Forget the record; nothing happens when there is none."""
        self.change(lambda connection: connection.execute(_REMOVE, (kind, lab, name)))

    def remove_lab(self, lab: str) -> None:
        """Forget every record of `lab`, of whatever kind, and what was warned of in it."""

        def write(connection: sqlite3.Connection) -> None:
            for statement in _REMOVE_LAB:
                connection.execute(statement, (lab,))

        self.change(write)

    def _parse(self, kind: str, name: str, body: str, model: type[RecordT]) -> RecordT:
        known = _parsed.get((model, body))
        if isinstance(known, model):
            return known
        try:
            record = model.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "its text"
            raise self._unreadable(kind, name, f"{place}: {first['msg']}") from error
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[model, body] = record
        return record

    def _unreadable(self, kind: str, name: str, why: str) -> GrampusError:
        return GrampusError(
            f"The {kind} '{name}' in {self._file} cannot be read: {why}.",
            "Use the version of Grampus that wrote it.",
            code="state-unreadable",
        )


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
