from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from grampus.core.errors import GrampusError
from grampus.state.history import OperationHistory
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from tests.fakes.clock import FakeClock


class Fish(BaseModel):
    """A record of the tests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    weight_g: int = 0


# Opens the store, says so, and writes records with the other children.
WRITER = """
import sys
from pathlib import Path
from grampus.state.store import Store
from pydantic import BaseModel

class Fish(BaseModel):
    name: str
    weight_g: int = 0

store = Store(Path(sys.argv[1]))
for number in range(25):
    store.put("fish", "sea", f"{sys.argv[2]}-{number}", Fish(name=sys.argv[2], weight_g=number))
store.close()
"""


@pytest.mark.parametrize(
    "name", ["cod", "", "x' or '1'='1", "%", "_", "käse", "a\nb", "🐬", "a" * 10_000]
)
def test_record_comes_back_under_its_very_name(store: Store, name: str) -> None:
    store.put("fish", "sea", name, Fish(name=name, weight_g=5))
    assert store.get("fish", "sea", name, Fish) == Fish(name=name, weight_g=5)
    assert store.get("fish", "sea", f"{name}x", Fish) is None
    store.remove("fish", "sea", name)
    assert store.get("fish", "sea", name, Fish) is None


def test_newer_record_replaces_the_older_one(store: Store) -> None:
    store.put("fish", "sea", "cod", Fish(name="cod", weight_g=1))
    store.put("fish", "sea", "cod", Fish(name="cod", weight_g=2))
    assert store.all("fish", "sea", Fish) == {"cod": Fish(name="cod", weight_g=2)}


def test_kind_lab_and_name_tell_records_apart(store: Store) -> None:
    for kind, lab, name in (
        ("fish", "sea", "cod"),
        ("fish", "lake", "cod"),
        ("bird", "sea", "cod"),
        ("fish", "sea", "bass"),
    ):
        store.put(kind, lab, name, Fish(name=f"{kind}/{lab}/{name}"))
    assert {name: fish.name for name, fish in store.all("fish", "sea", Fish).items()} == {
        "bass": "fish/sea/bass",
        "cod": "fish/sea/cod",
    }
    assert list(store.all("fish", "sea", Fish)) == ["bass", "cod"]
    store.remove("fish", "sea", "cod")
    assert store.get("fish", "lake", "cod", Fish) == Fish(name="fish/lake/cod")
    assert store.get("bird", "sea", "cod", Fish) == Fish(name="bird/sea/cod")


def test_all_labs_at_once(store: Store) -> None:
    store.put("lab", "one", "one", Fish(name="1"))
    store.put("lab", "two", "two", Fish(name="2"))
    assert list(store.all("lab", None, Fish)) == ["one", "two"]


def test_removing_what_is_not_there_does_nothing(store: Store) -> None:
    store.remove("fish", "sea", "cod")
    store.remove_lab("sea")
    assert store.all("fish", None, Fish) == {}


def test_removing_a_lab_takes_all_its_kinds_and_nothing_else(store: Store) -> None:
    for kind, lab in (("fish", "sea"), ("bird", "sea"), ("fish", "lake")):
        store.put(kind, lab, "x", Fish(name=lab))
    journal = OperationJournal(store, FakeClock())
    journal.begin("lab.down", "sea", "sea", {})
    store.remove_lab("sea")
    assert store.all("fish", None, Fish) == {"x": Fish(name="lake")}
    assert store.all("bird", None, Fish) == {}
    # The journal is what the removal itself is written down in.
    assert [op.kind for op in journal.unfinished("sea")] == ["lab.down"]


def test_what_was_written_is_there_when_opened_again(tmp_path: Path) -> None:
    first = Store(tmp_path / "deep" / "er" / "state.db")
    first.put("fish", "sea", "cod", Fish(name="cod"))
    first.close()
    second = Store(tmp_path / "deep" / "er" / "state.db")
    assert second.get("fish", "sea", "cod", Fish) == Fish(name="cod")
    second.close()


def test_only_its_owner_may_read_the_file(store: Store, tmp_path: Path) -> None:
    store.put("fish", "sea", "cod", Fish(name="cod"))
    files = list(tmp_path.glob("state.db*"))
    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_commits_survive_a_power_cut_once_they_return(store: Store) -> None:
    with store.transaction() as connection:
        synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    assert (synchronous, mode) == (2, "wal")  # 2 is FULL


def test_transaction_that_fails_changes_nothing(store: Store) -> None:
    def fail_half_way() -> None:
        with store.transaction() as connection:
            connection.execute("insert into records values ('fish', 'sea', 'cod', '{}')")
            raise GrampusError("Half way.")

    with pytest.raises(GrampusError, match="Half way"):
        fail_half_way()
    assert store.all("fish", None, Fish) == {}


def write_from_three_processes(file: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file), f"child{number}"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    # All have ended before one can fail the test.
    said = [child.communicate()[1] for child in children]
    assert [(child.returncode, text) for child, text in zip(children, said, strict=True)] == [
        (0, "")
    ] * 3


def test_processes_that_begin_together_share_one_file(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    write_from_three_processes(file)
    store = Store(file)
    assert len(store.all("fish", "sea", Fish)) == 75
    store.close()


def _garbage(file: Path) -> None:
    file.write_bytes(b"this is no database at all, and long enough to be looked at " * 100)


def _damaged_page(file: Path) -> None:
    store = Store(file)
    for number in range(200):
        store.put("fish", "sea", f"cod{number}", Fish(name="c" * 200))
    store.close()
    content = bytearray(file.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    file.write_bytes(content)


def _directory(file: Path) -> None:
    file.mkdir()


def _other_tables(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("create table records (something_else)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", [_garbage, _damaged_page, _directory, _other_tables])
def test_damaged_file_is_one_clear_error(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    file = tmp_path / "state.db"
    damage(file)

    def use() -> None:
        store = Store(file)
        try:
            store.all("fish", None, Fish)
        finally:
            store.close()

    with pytest.raises(GrampusError) as caught:
        use()
    assert caught.value.code == "state-unusable"
    assert str(file) in caught.value.problem
    assert "\n" not in caught.value.problem
    assert "damaged" in caught.value.remedy


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ('{"name": "cod", "colour": "red"}', "colour: Extra inputs"),
        ("{}", "name: Field required"),
        ('{"name": "cod", "weight_g": "heavy"}', "weight_g: "),
        ("not json", "its text: Invalid JSON"),
        ("", "its text: Invalid JSON"),
    ],
)
def test_record_of_another_version_is_named_with_what_is_wrong(
    store: Store, body: str, what: str
) -> None:
    with store.transaction() as connection:
        connection.execute("insert into records values ('fish', 'sea', 'cod', ?)", (body,))

    def get_one() -> object:
        return store.get("fish", "sea", "cod", Fish)

    def get_all() -> object:
        return store.all("fish", "sea", Fish)

    for read in (get_one, get_all):
        with pytest.raises(GrampusError, match="The fish 'cod' in ") as caught:
            read()
        assert what in caught.value.problem
        assert caught.value.code == "state-unreadable"


@pytest.mark.parametrize("parent", ["/dev/null", "/proc/none-such"])
def test_place_that_cannot_hold_a_file_is_the_systems_error(parent: str) -> None:
    with pytest.raises(OSError, match="irectory"):
        Store(Path(parent) / "grampus" / "state.db")


def test_without_a_file_it_is_empty_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(None)
    assert store.all("lab", None, Fish) == {}
    assert OperationJournal(store, FakeClock()).unfinished("default") == []
    store.close()
    assert list(tmp_path.iterdir()) == []


def _written_before_actors_were_kept(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute(
        "create table operations (id integer primary key, kind varchar not null, "
        "lab varchar not null, subject varchar not null, spec varchar not null, "
        "status varchar not null, step varchar not null, error varchar not null, "
        "started_at varchar not null, changed_at varchar not null)"
    )
    connection.execute(
        "insert into operations values "
        "(7, 'a.b', 'sea', 'sponge', '{}', 'running', 'flour', '', '2026-11-01', '2026-11-02')"
    )
    connection.commit()
    connection.close()


def test_a_file_of_an_older_version_keeps_its_operations_and_gets_the_new_column(
    tmp_path: Path,
) -> None:
    file = tmp_path / "state.db"
    _written_before_actors_were_kept(file)
    for _ in range(2):  # the second time it has the column
        store = Store(file)
        (found,) = OperationHistory(store, "sea").of_subjects(["sponge"])
        assert (found.id, found.step, found.actor) == (7, "flour", "")
        store.close()
    store = Store(file)
    assert OperationJournal(store, FakeClock(), actor="anna").begin("c.d", "sea", "x", {}).id == 8
    assert [o.actor for o in OperationHistory(store, "sea").of_kinds(["c.d"])] == ["anna"]
    store.close()


def test_processes_that_add_the_column_together_do_not_get_in_each_others_way(
    tmp_path: Path,
) -> None:
    file = tmp_path / "state.db"
    _written_before_actors_were_kept(file)
    write_from_three_processes(file)


def test_a_file_without_a_log_is_opened_once_its_writer_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    _written_before_actors_were_kept(file)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    store = Store(file, clock=FakeClock(on_sleep=writer.commit))
    store.put("fish", "sea", "cod", Fish(name="cod"))
    store.close()
    writer.close()


def test_a_file_whose_writer_does_not_end_is_refused_at_the_deadline(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    _written_before_actors_were_kept(file)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with pytest.raises(GrampusError, match="Gave up waiting for other processes that use"):
        Store(file, clock=FakeClock())
    writer.close()


# -- what is kept of all records of a kind ---------------------------------------------------------

_SET_WEIGHT = "UPDATE records SET body = json_set(body, '$.weight_g', 9) WHERE name = 'cod'"


def _change_by_sql(file: Path, statement: str) -> None:
    """As another program, or an earlier release, changes the file."""
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda file, store: store.put("fish", "sea", "cod", Fish(name="cod", weight_g=9)),
        lambda file, store: store.put(
            "fish", "sea", "cod", Fish(name="cod", weight_g=9), is_noted=False
        ),
        lambda file, store: store.put("fish", "sea", "eel", Fish(name="eel", weight_g=9)),
        lambda file, store: store.remove("fish", "sea", "cod"),
        lambda file, store: store.remove_lab("sea"),
        lambda file, store: _change_by_sql(file, _SET_WEIGHT),
        lambda file, store: _change_by_sql(file, "DELETE FROM records WHERE name = 'cod'"),
        lambda file, store: _change_by_sql(file, "UPDATE records SET kind = 'bird'"),
        lambda file, store: _change_by_sql(file, "UPDATE records SET lab = 'lake'"),
        lambda file, store: _change_by_sql(file, "UPDATE records SET name = 'eel'"),
    ],
)
def test_what_is_kept_of_all_records_follows_whoever_changes_one(
    tmp_path: Path, change: Callable[[Path, Store], None]
) -> None:
    file = tmp_path / "state.db"
    store, other = Store(file), Store(file)
    store.put("fish", "sea", "cod", Fish(name="cod", weight_g=1))

    def read(kept: Store) -> tuple[object, object]:
        return kept.field("fish", "sea", "$.weight_g"), kept.all("fish", "sea", Fish)

    assert read(store) == read(store) == ({"cod": 1}, {"cod": Fish(name="cod", weight_g=1)})
    change(file, other)
    changed = read(store)
    assert changed != ({"cod": 1}, {"cod": Fish(name="cod", weight_g=1)})
    assert changed == (
        {name: fish.weight_g for name, fish in changed[1].items()},  # type: ignore[attr-defined]
        {row: store.get("fish", "sea", row, Fish) for row in store.names("fish", "sea")},
    )
    for one in (store, other):
        one.close()


def test_it_is_read_once_and_nobody_can_change_it_for_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    store.put("fish", "sea", "cod", Fish(name="cod", weight_g=1))
    store.field("fish", "sea", "$.weight_g").clear()
    store.all("fish", "sea", Fish).clear()
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    assert store.field("fish", "sea", "$.weight_g") == {"cod": 1}
    assert list(store.all("fish", "sea", Fish)) == ["cod"]
    store.put("bird", "sea", "gull", Fish(name="gull"))
    assert store.field("fish", "sea", "$.weight_g") == {"cod": 1}
    assert not [one for one in statements if "FROM records" in one]
    store.close()


def test_another_file_of_that_name_is_another_store(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    for weight_g in (1, 2):
        store = Store(file)
        store.put("fish", "sea", "cod", Fish(name="cod", weight_g=weight_g))
        assert store.field("fish", "sea", "$.weight_g") == {"cod": weight_g}
        store.close()
        file.unlink()
