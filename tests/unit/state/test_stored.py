from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from grampus.state.store import Store
from grampus.state.stored import StoredRecord, copy_of_lab, put_record, records_of_lab


class Thing(BaseModel):
    size: int
    parts: dict[str, list[str]] = {}


def test_records_of_any_kind_come_out_as_they_went_in(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "state.db"), Store(None)
    store.put("thing", "t", "b", Thing(size=2))
    store.put("thing", "t", "a", Thing(size=1, parts={"x": ["y"]}))
    store.put("another", "t", "a", Thing(size=3))
    store.put("thing", "elsewhere", "c", Thing(size=4))
    records = records_of_lab(store, "t")
    assert [(record.kind, record.name) for record in records] == [
        ("another", "a"),
        ("thing", "a"),
        ("thing", "b"),
    ]
    for record in records:
        put_record(other, "t", record)
    assert records_of_lab(other, "t") == records
    assert other.get("thing", "t", "a", Thing) == Thing(size=1, parts={"x": ["y"]})
    store.close()


def test_a_copy_is_not_the_state(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    store = Store(file)
    store.put("thing", "t", "a", Thing(size=1))
    copy = copy_of_lab(file, "t")
    put_record(copy, "t", StoredRecord(kind="thing", name="b", body={"size": 2}))
    assert [record.name for record in records_of_lab(copy, "t")] == ["a", "b"]
    assert [record.name for record in records_of_lab(store, "t")] == ["a"]
    store.close()


def test_without_a_file_a_copy_is_empty_and_none_is_made(tmp_path: Path) -> None:
    assert records_of_lab(copy_of_lab(tmp_path / "state.db", "t"), "t") == []
    assert list(tmp_path.iterdir()) == []
