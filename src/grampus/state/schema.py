"""The tables of the state file, and how a file of an earlier release gets what it lacks.

Each thing that is missing is added in a transaction of its own: a process that is stopped meanwhile
leaves a file that the next one completes. Earlier releases can still use a completed file: to them,
indexes and triggers are invisible, and columns have defaults.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial

Transaction = Callable[[], AbstractContextManager[sqlite3.Connection]]

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
        takes VARCHAR NOT NULL DEFAULT '',
        process VARCHAR NOT NULL DEFAULT '',
        title VARCHAR NOT NULL DEFAULT '',
        detail VARCHAR NOT NULL DEFAULT '',
        outcome VARCHAR NOT NULL DEFAULT ''
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
    # How far the removal of old operations has come, see `retention.py`.
    """
    CREATE TABLE IF NOT EXISTS pruned (
        lab VARCHAR NOT NULL PRIMARY KEY,
        at_id INTEGER NOT NULL,
        ended_at VARCHAR NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS confirmed (
        lab VARCHAR NOT NULL PRIMARY KEY,
        place VARCHAR NOT NULL
    )
    """,
    # The rest is used for sites alone, whose state several machines share (`replicated.py`).
    """
    CREATE TABLE IF NOT EXISTS secrets (
        lab VARCHAR NOT NULL,
        name VARCHAR NOT NULL,
        sealed VARCHAR NOT NULL,
        PRIMARY KEY (lab, name)
    )
    """,
    # Locks that machines hold against each other, see `shared_locks.py`.
    """
    CREATE TABLE IF NOT EXISTS held (
        lab VARCHAR NOT NULL,
        name VARCHAR NOT NULL,
        holder VARCHAR NOT NULL,
        machine VARCHAR NOT NULL,
        shared INTEGER NOT NULL,
        since VARCHAR NOT NULL,
        what VARCHAR NOT NULL,
        PRIMARY KEY (lab, name, holder)
    )
    """,
    # Which log this file is a copy of, and how far.
    """
    CREATE TABLE IF NOT EXISTS replica (
        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
        log VARCHAR NOT NULL,
        position INTEGER NOT NULL,
        member VARCHAR NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS applied (
        position INTEGER NOT NULL PRIMARY KEY,
        entry VARCHAR NOT NULL
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
    for column in ("actor", "identity", "takes", "process", "title", "detail", "outcome")
)
_COLUMNS = "SELECT name FROM pragma_table_info(?)"
# `operations_unfinished` is small however many operations there were. A query uses it only if it
# has the same condition, word for word (`operations.py`).
_INDEXES = {
    "operations_unfinished": (
        "CREATE INDEX IF NOT EXISTS operations_unfinished ON operations (lab, id) "
        "WHERE status IN ('running', 'undoing')"
    ),
    "operations_of_subject": (
        "CREATE INDEX IF NOT EXISTS operations_of_subject ON operations (lab, subject, id)"
    ),
    "operations_of_kind": (
        "CREATE INDEX IF NOT EXISTS operations_of_kind ON operations (lab, kind, id)"
    ),
    "warnings_of_subject": (
        "CREATE INDEX IF NOT EXISTS warnings_of_subject ON warnings (lab, subject, id)"
    ),
    "warnings_of_job": (
        "CREATE INDEX IF NOT EXISTS warnings_of_job ON warnings (lab, job, ended_at)"
    ),
    "records_of_name": "CREATE INDEX IF NOT EXISTS records_of_name ON records (lab, name)",
}
# Names whose records changed since they were last compared with what images say (`unnoted.py`).
# A mark is never used twice: whoever removes one knows that nothing changed after it was read. What
# is noted is itself a record; that it was written is no change, but that it is gone is one.
# `INSERT OR REPLACE` does not replace here: the conflict clause of the outer statement wins.
_UNNOTED = (
    """
    CREATE TABLE unnoted (
        lab VARCHAR NOT NULL,
        name VARCHAR NOT NULL,
        mark INTEGER NOT NULL,
        PRIMARY KEY (lab, name)
    )
    """,
    """
    CREATE TRIGGER unnoted_insert AFTER INSERT ON records WHEN NEW.kind <> 'noted-records'
    BEGIN
        DELETE FROM unnoted WHERE lab = NEW.lab AND name = NEW.name;
        INSERT INTO unnoted VALUES (NEW.lab, NEW.name, random());
    END
    """,
    """
    CREATE TRIGGER unnoted_update AFTER UPDATE ON records
    WHEN NEW.kind <> 'noted-records' AND (NEW.body <> OLD.body OR NEW.name <> OLD.name)
    BEGIN
        DELETE FROM unnoted WHERE lab = NEW.lab AND name = NEW.name;
        INSERT INTO unnoted VALUES (NEW.lab, NEW.name, random());
        DELETE FROM unnoted WHERE lab = OLD.lab AND name = OLD.name;
        INSERT INTO unnoted VALUES (OLD.lab, OLD.name, random());
    END
    """,
    """
    CREATE TRIGGER unnoted_delete AFTER DELETE ON records
    BEGIN
        DELETE FROM unnoted WHERE lab = OLD.lab AND name = OLD.name;
        INSERT INTO unnoted VALUES (OLD.lab, OLD.name, random());
    END
    """,
    # A file of an earlier release: each name is compared once.
    "INSERT OR REPLACE INTO unnoted SELECT lab, name, random() FROM records GROUP BY lab, name",
)
# A number that another one takes the place of with each change of a record of that kind, whoever
# makes it: `Store` keeps what it read of all of them as long as the number stays.
_RECORD_MARKS = (
    """
    CREATE TABLE record_marks (
        kind VARCHAR NOT NULL,
        lab VARCHAR NOT NULL,
        mark INTEGER NOT NULL,
        PRIMARY KEY (kind, lab)
    )
    """,
    """
    CREATE TRIGGER record_marks_insert AFTER INSERT ON records
    BEGIN
        DELETE FROM record_marks WHERE kind = NEW.kind AND lab = NEW.lab;
        INSERT INTO record_marks VALUES (NEW.kind, NEW.lab, random());
    END
    """,
    """
    CREATE TRIGGER record_marks_update AFTER UPDATE ON records
    BEGIN
        DELETE FROM record_marks WHERE kind = NEW.kind AND lab = NEW.lab;
        INSERT INTO record_marks VALUES (NEW.kind, NEW.lab, random());
        DELETE FROM record_marks WHERE kind = OLD.kind AND lab = OLD.lab;
        INSERT INTO record_marks VALUES (OLD.kind, OLD.lab, random());
    END
    """,
    """
    CREATE TRIGGER record_marks_delete AFTER DELETE ON records
    BEGIN
        DELETE FROM record_marks WHERE kind = OLD.kind AND lab = OLD.lab;
        INSERT INTO record_marks VALUES (OLD.kind, OLD.lab, random());
    END
    """,
    "INSERT INTO record_marks SELECT kind, lab, random() FROM records GROUP BY kind, lab",
)


def ensure_schema(connection: sqlite3.Connection, transaction: Transaction) -> None:
    """Add what the file lacks. Raises what `transaction` makes of an error of SQLite."""
    with transaction():
        for table in _TABLES:
            connection.execute(table)
    for table, column, statement in _LATER_COLUMNS:
        _ensure(transaction, partial(_has_column, connection, table, column), [statement])
    for index, statement in _INDEXES.items():
        _ensure(transaction, partial(_has, connection, index), [statement])
    _ensure(transaction, partial(_has, connection, "unnoted"), _UNNOTED)
    _ensure(transaction, partial(_has, connection, "record_marks"), _RECORD_MARKS)


def _ensure(
    transaction: Transaction, is_there: Callable[[], bool], statements: Iterable[str]
) -> None:
    with transaction():
        if is_there():
            return
    with transaction() as connection:
        # Another process may be doing the same: it is looked at again under the lock.
        connection.execute("BEGIN IMMEDIATE")
        if not is_there():
            for statement in statements:
                connection.execute(statement)


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    rows = connection.execute(_COLUMNS, (table,)).fetchall()
    return any(row["name"] == column for row in rows)


def _has(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return found is not None
