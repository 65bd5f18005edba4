"""Files of earlier releases, and what SQLite reads for a query."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from pydantic import BaseModel

from grampus.state import history, operations, retention, unnoted
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from grampus.state.unnoted import UnnotedNames
from tests.fakes.clock import FakeClock

# As release 0.1 made it, before there were indexes.
OLD = """
CREATE TABLE records (
    kind VARCHAR NOT NULL, lab VARCHAR NOT NULL, name VARCHAR NOT NULL, body VARCHAR NOT NULL,
    PRIMARY KEY (kind, lab, name)
);
CREATE TABLE operations (
    id INTEGER NOT NULL PRIMARY KEY, kind VARCHAR NOT NULL, lab VARCHAR NOT NULL,
    subject VARCHAR NOT NULL, spec VARCHAR NOT NULL, status VARCHAR NOT NULL,
    step VARCHAR NOT NULL, error VARCHAR NOT NULL, started_at VARCHAR NOT NULL,
    changed_at VARCHAR NOT NULL
);
INSERT INTO records VALUES ('volume', 't', 'shop', '{"weight_g": 1}');
INSERT INTO records VALUES ('database', 't', 'shop', '{"weight_g": 2}');
INSERT INTO records VALUES ('noted-records', 't', 'old', '{"weight_g": 3}');
INSERT INTO operations VALUES (1, 'db.stop', 't', 'shop', '{}', 'done', '', '', 'then', 'then');
INSERT INTO operations VALUES (2, 'db.stop', 't', 'shop', '{}', 'running', '', '', 'then', 'then');
"""


class Fish(BaseModel):
    """A record of the tests."""

    weight_g: int = 0


def old_file(tmp_path: Path) -> Path:
    file = tmp_path / "state.db"
    connection = sqlite3.connect(file)
    connection.executescript(OLD)
    connection.close()
    return file


def test_a_file_of_an_earlier_release_gets_what_it_lacks(tmp_path: Path) -> None:
    file = old_file(tmp_path)
    for _ in range(2):
        store = Store(file)
        found = OperationJournal(store, FakeClock()).unfinished("t")
        assert [operation.id for operation in found] == [2]
        assert store.all("database", "t", Fish) == {"shop": Fish(weight_g=2)}
        # All that there is has to be compared with its images once.
        assert set(UnnotedNames(store, "t").find()) == {"old", "shop"}
        store.close()


def test_an_upgrade_that_was_stopped_anywhere_is_completed(tmp_path: Path) -> None:
    whole = Store(tmp_path / "whole.db")
    expected = _schema(whole)
    whole.close()
    later = [(kind, name) for kind, name in expected if kind == "index" or name == "pruned"]
    for kind, name in later:
        if name.startswith("sqlite_"):
            continue
        file = tmp_path / f"without-{name}.db"
        made = Store(file)
        with made.transaction() as connection:
            connection.execute(f"DROP {kind} {name}")
        made.close()
        again = Store(file)
        assert _schema(again) == expected, name
        again.close()


def test_marks_are_made_with_their_triggers_or_not_at_all(tmp_path: Path) -> None:
    file = old_file(tmp_path)
    with sqlite3.connect(file) as connection:
        # In the way of the last statement of that step alone.
        connection.execute(
            "CREATE TRIGGER unnoted_delete AFTER DELETE ON operations BEGIN SELECT 1; END"
        )
    connection.close()
    with pytest.raises(Exception, match="unnoted_delete"):
        Store(file)
    with sqlite3.connect(file) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert not {"unnoted", "unnoted_insert", "unnoted_update"} & names
        connection.execute("DROP TRIGGER unnoted_delete")
    connection.close()
    store = Store(file)
    assert set(UnnotedNames(store, "t").find()) == {"old", "shop"}
    store.close()


def test_an_earlier_release_marks_what_it_changes_too(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    store = Store(file)
    store.put("database", "t", "shop", Fish())
    unnoted_names = UnnotedNames(store, "t")
    unnoted_names.settle(unnoted_names.find())
    assert unnoted_names.find() == {}
    with sqlite3.connect(file) as connection:
        connection.execute(
            "INSERT INTO records VALUES ('database', 't', 'shop', '{}') "
            "ON CONFLICT (kind, lab, name) DO UPDATE SET body = excluded.body"
        )
        connection.execute("UPDATE OR REPLACE records SET name = 'store' WHERE name = 'shop'")
    connection.close()
    assert set(unnoted_names.find()) == {"shop", "store"}
    store.close()


@pytest.mark.parametrize(
    ("query", "values", "index"),
    [
        (operations.UNFINISHED_OF_LAB, ("t",), "operations_unfinished"),
        (operations._HOLDER, ("t", "x", "x"), "operations_unfinished"),
        (history._OF_SUBJECTS, ("t", '["x"]', '[""]', 1), "operations_of_subject"),
        (history._OF_KINDS, ("t", '["x"]'), "operations_of_kind"),
        (retention._NEWER, ("t", "x", 1, 100), "operations_of_subject"),
        (unnoted._OF_NAMES, ("t", '["x"]'), "records_of_name"),
    ],
)
def test_queries_read_what_an_index_leads_to(
    tmp_path: Path, query: str, values: tuple[object, ...], index: str
) -> None:
    store = Store(tmp_path / "state.db")
    with store.transaction() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    said = " | ".join(row["detail"] for row in plan)
    assert index in said
    assert "SCAN operations" not in said
    assert "SCAN records" not in said
    store.close()


def _schema(store: Store) -> list[tuple[str, str]]:
    with store.transaction() as connection:
        rows = connection.execute("SELECT type, name FROM sqlite_master ORDER BY name").fetchall()
    return [tuple(row) for row in rows]
