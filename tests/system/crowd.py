"""A state with many databases and operations beside the one that a test is about.

Whatever a command does about one database is counted, and is the same however many others there
are (INV-84).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from grampus.state import store as store_module
from grampus.state.store import Store

_RECORD = "INSERT INTO records SELECT kind, lab, ?, replace(replace(body, ?, ?), ?, ?) FROM records"
_OPERATION = (
    "INSERT INTO operations (kind, lab, subject, spec, status, step, error, started_at, changed_at)"
    " VALUES ('db.stop', ?, ?, '{}', 'done', '', '', ?, ?)"
)
LONG_AGO = "2020-01-01T00:00:00+00:00"


@dataclass
class Cost:
    """What something took."""

    statements: list[str] = field(default_factory=list)  # of SQL
    parsed: int = 0  # records that were parsed


def put_crowd(
    store: Store, lab: str, model: str, *, count: int, operations: int, address: str = "-"
) -> None:
    """`count` databases like `model`, which do not run, and as many operations as are told."""
    names = [f"crowd{number}" for number in range(count)]
    with store.transaction() as connection:
        for number, name in enumerate(names):
            further = f"10.77.{number // 250}.{number % 250}"
            values = (name, f'"{model}"', f'"{name}"', f'"{address}"', f'"{further}"')
            connection.execute(
                f"{_RECORD} WHERE lab = ? AND name = ? AND kind <> 'noted-records'",
                (*values, lab, model),
            )
        connection.execute(
            "UPDATE records SET body = json_set(body, '$.desired', 'stopped', "
            "'$.id', lower(hex(randomblob(16)))) WHERE kind = 'database' AND name LIKE 'crowd%'"
        )
        connection.execute(
            "UPDATE records SET body = json_set(body, '$.attachment', NULL, "
            "'$.spec.identity', lower(hex(randomblob(16))), "
            "'$.spec.image', name || '.1/db-' || name) "
            "WHERE kind = 'volume' AND name LIKE 'crowd%'"
        )
        connection.executemany(
            _OPERATION,
            (
                (lab, names[number % count] if count else model, LONG_AGO, LONG_AGO)
                for number in range(operations)
            ),
        )
        # They have no images that could be told anything.
        connection.execute("DELETE FROM unnoted WHERE name LIKE 'crowd%'")


def ensure_no_crowd(store: Store, lab: str) -> None:
    """Without what `put_crowd` made."""
    with store.transaction() as connection:
        for statement in (
            "DELETE FROM records WHERE lab = ? AND name LIKE 'crowd%'",
            "DELETE FROM operations WHERE lab = ? AND subject LIKE 'crowd%'",
            "DELETE FROM unnoted WHERE lab = ? AND name LIKE 'crowd%'",
        ):
            connection.execute(statement, (lab,))


@contextmanager
def counting(store: Store) -> Iterator[Cost]:
    """What the block takes of the store."""
    cost = Cost()
    store_module._parsed.clear()
    with store.transaction() as connection:
        connection.set_trace_callback(lambda statement: cost.statements.append(statement))
    try:
        yield cost
    finally:
        with store.transaction() as connection:
            connection.set_trace_callback(None)
        cost.parsed = len(store_module._parsed)
        store_module._parsed.clear()
