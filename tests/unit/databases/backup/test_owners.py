"""Backups and archived binary logs belong to a database, not to a name (INV-66)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.databases.backup.backup_schedules import remove_spent_logs
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.decide_chain import decide_base, decide_retention
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.owners import decide_meant, group_by_owner, shared_names
from grampus.databases.backup.restores import DatabaseRestores, RestoreRequest
from grampus.databases.backup.stretch_names import (
    following_stretch,
    newest_stretch,
    owner_of_stretch,
    split_stretch,
)
from grampus.databases.backup.taking import BackupWork
from grampus.databases.model import DatabaseRecord
from tests.unit.databases.world import World

from .existing import place, put_database
from .made import START, TARGET_ID, by_id, made_backup
from .test_archiving import UUID, Server

ID_A, ID_B = "a" * 32, "b" * 32


def owned(number: int, database_id: str, *, name: str = "shop", born_h: int = 0) -> BackupManifest:
    made = made_backup(number, database=name)
    born = START + timedelta(hours=born_h)
    database = made.database.model_copy(
        update={"database_id": database_id, "created_at": born, "lab": f"lab-{database_id[:1]}"}
    )
    return made.model_copy(update={"database": database})


def set_id(world: World, database_id: str) -> DatabaseRecord:
    records = world.service().operations.records
    records.change("demo", id=database_id)
    return records.get("demo")


@pytest.fixture
def other_world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "other")
    yield made
    made.close()


class Labs:
    """Two labs that have a database `demo` each, and one place of backups."""

    def __init__(self, first: World, second: World, shelf: Path) -> None:
        second.clock.sleep(7)
        self.first, self.second = Server(first, shelf), Server(second, shelf)
        self.second.uuid = f"{UUID[:-4]}ffff"
        self.servers = {"one": self.first, "two": self.second}
        for (name, server), database_id in zip(self.servers.items(), (ID_A, ID_B), strict=True):
            set_id(server.world, database_id)
            server.write(1, name.encode())


@pytest.fixture
def labs(world: World, other_world: World, shelf: Path) -> Labs:
    return Labs(world, other_world, shelf)


def test_two_labs_archive_into_one_place_without_meeting(labs: Labs) -> None:
    for server in labs.servers.values():
        server.back_up()
    for turn in range(4):
        for name, server in labs.servers.items():
            archived = server.archive()
            assert archived.problem is None
            assert turn == 0 or archived.copied_bytes == len(b" +"), (name, turn)
            server.require_restorable()
            server.write(1, b" +")
    for database_id, server in zip((ID_A, ID_B), labs.servers.values(), strict=True):
        ends = server.state().archive_end
        assert ends is not None
        assert ends.stretch == f"{database_id}/0001"


def test_latest_is_the_database_of_the_lab_that_asks(labs: Labs, shelf: Path) -> None:
    labs.first.back_up()
    restores = DatabaseRestores(labs.second.world.service())
    wishes = RestoreRequest("again", place(shelf), source="demo")
    with pytest.raises(
        RefusedError, match="do not belong to the database 'demo' of this lab"
    ) as caught:
        restores.plan_restore(wishes)
    assert (caught.value.code, "--from-id aaaaaaaa" in str(caught.value)) == (
        "other-database",
        True,
    )
    labs.second.back_up()
    labs.first.back_up()
    own = restores.plan_restore(wishes).chain[-1]
    manifest = (
        KeptBackups(labs.second.world.home, labs.second.world.clock, place(shelf))
        .observe()
        .backups[own]
    )
    assert manifest.database.database_id == ID_B


def test_retention_and_bases_are_those_of_the_database_alone() -> None:
    mine, theirs = owned(1, ID_A), owned(2, ID_B)
    renamed = owned(3, ID_A, name="store")
    backups = by_id(mine, theirs, owned(4, ID_A))
    assert decide_retention(backups, mine.database, keep=1) == (mine.id,)
    assert decide_retention(backups, theirs.database, keep=1) == ()
    base = decide_base(
        by_id(mine, theirs), mine.database, TARGET_ID, [mine.snapshot, theirs.snapshot], wanted=None
    )
    assert base.backup == mine
    assert mine.database.is_same(renamed.database)


def test_backups_of_earlier_releases_belong_to_the_database_of_that_creation() -> None:
    old, new, other = owned(1, ""), owned(2, ID_A), owned(3, ID_B, born_h=5)
    grouped = group_by_owner([old, new, other])
    assert [(owner.id, [b.id for b in found]) for owner, found in grouped.items()] == [
        (ID_B, [other.id]),
        (ID_A, [old.id, new.id]),
    ]
    assert [owner.id for owner in group_by_owner([old])] == ["20261122t010000z"]
    assert set(shared_names([old, new])) == set()
    assert {found: o.short_id for found, o in shared_names([old, new, other]).items()} == {
        old.id: "aaaaaaaa",
        new.id: "aaaaaaaa",
        other.id: "bbbbbbbb",
    }


def record_of(backup: BackupManifest, world: World) -> DatabaseRecord:
    record = put_database(world, "demo")
    spec = record.spec.model_copy(update={"name": backup.database.name})
    was = backup.database
    changes = {"spec": spec, "id": was.database_id, "created_at": was.created_at}
    return record.model_copy(update=changes)


A1, A2 = owned(1, ID_A), owned(3, ID_A)
B1 = owned(2, ID_B, born_h=1)
OTHER = owned(9, "c" * 32, name="other")
MEANT = [
    ("the only one, which is gone", [A1, A2], "shop", None, None, [A1, A2]),
    ("the only one, unnamed", [A1, A2], None, None, None, [A1, A2]),
    ("the one that is here", [A1, B1, A2], "shop", None, B1, [B1]),
    ("by its id", [A1, B1, A2], "shop", "bbbb", None, [B1]),
    ("by its id alone", [A1, B1, A2, OTHER], None, "aaaaaaaa", None, [A1, A2]),
    ("by its id, though another is here", [A1, B1, A2], "shop", ID_A, B1, [A1, A2]),
    ("another name", [A1, B1, OTHER], "other", None, None, [OTHER]),
]


@pytest.mark.parametrize(
    ("backups", "name", "owner_id", "here", "expected"),
    [case[1:] for case in MEANT],
    ids=[case[0] for case in MEANT],
)
def test_one_database_is_meant(
    world: World,
    backups: list[BackupManifest],
    name: str | None,
    owner_id: str | None,
    here: BackupManifest | None,
    expected: list[BackupManifest],
) -> None:
    record = None if here is None else record_of(here, world)
    found = decide_meant(by_id(*backups), name, owner_id=owner_id, find_record=lambda _name: record)
    assert sorted(found) == sorted(one.id for one in expected)


UNCLEAR = [
    ("two are gone", [A1, B1], "shop", None, None, UsageError, "--from-id"),
    ("another's alone", [A1], "shop", None, B1, RefusedError, "--from-id aaaaaaaa"),
    ("none of that id", [A1], "shop", "dddd", None, NotFoundError, "id aaaaaaaa"),
    ("too short", [A1], "shop", "a", None, UsageError, "at least 4"),
    ("none of that name", [A1], "shopp", None, None, NotFoundError, "Did you mean 'shop'"),
    ("several names", [A1, OTHER], None, None, None, UsageError, "--of NAME"),
]


@pytest.mark.parametrize(
    ("backups", "name", "owner_id", "here", "error", "said"),
    [case[1:] for case in UNCLEAR],
    ids=[case[0] for case in UNCLEAR],
)
def test_an_unclear_wish_is_refused(
    world: World,
    backups: list[BackupManifest],
    name: str | None,
    owner_id: str | None,
    here: BackupManifest | None,
    error: type[Exception],
    said: str,
) -> None:
    record = None if here is None else record_of(here, world)
    with pytest.raises(error) as caught:
        decide_meant(by_id(*backups), name, owner_id=owner_id, find_record=lambda _name: record)
    assert said in str(caught.value)


def test_archive_of_an_earlier_release_is_gone_on_with_by_its_server(
    world: World, shelf: Path
) -> None:
    server = Server(world, shelf)
    server.write(1, b"one")
    server.back_up()
    server.archive()
    set_id(world, ID_A)
    for _ in range(2):
        server.write(1, b" two")
        archived = server.archive()
        assert (archived.stretch, archived.copied_bytes) == ("0001", 4)
        server.recall(None)  # and so it is without any memory
    server.require_restorable()
    server.roll_back()
    assert server.archive().stretch == f"{ID_A}/0001"
    assert server.archive().copied_bytes == 0
    assert [stretch.id for stretch in server.open().stretches()] == ["0001", f"{ID_A}/0001"]


def test_archive_of_an_earlier_release_by_another_server_is_left_alone(
    world: World, other_world: World, shelf: Path
) -> None:
    former = Server(other_world, shelf)
    former.write(1, b"theirs")
    former.archive()
    before = sorted(path for path in shelf.rglob("*") if path.is_file())
    server = Server(world, shelf)
    server.uuid = f"{UUID[:-4]}ffff"
    set_id(world, ID_A)
    server.write(1, b"ours")
    server.back_up()
    for _ in range(3):
        assert server.archive().stretch == f"{ID_A}/0001"
    server.require_restorable()
    server.join()
    record = world.service().operations.records.get("demo")
    kept = KeptBackups(world.home, world.clock, place(shelf))
    assert remove_spent_logs(kept, server.open(ID_A), record) == []
    assert all(path.exists() for path in before)


def test_logs_of_another_database_are_not_let_go(labs: Labs, shelf: Path) -> None:
    for server in labs.servers.values():
        server.back_up()
        for number in (2, 3):
            server.write(number, b"more")
            server.archive()
    labs.first.back_up("full")
    world = labs.first.world
    kept = KeptBackups(world.home, world.clock, place(shelf))
    record = world.service().operations.records.get("demo")
    kept.delete(labs.first.backups()[0])
    gone = remove_spent_logs(kept, labs.first.open(ID_A), record)
    assert gone
    assert all(name.startswith(f"demo/binlogs/{ID_A}/") for name in gone)
    labs.second.require_restorable()


def test_two_backups_of_one_second_do_not_become_one(
    world: World, other_world: World, shelf: Path
) -> None:
    """Each lab looks before the other has begun."""
    orders = []
    for one, database_id in ((world, ID_A), (other_world, ID_B)):
        put_database(one)
        set_id(one, database_id)
        kept = KeptBackups(one.home, one.clock, place(shelf))
        kept.target.ensure_id()
        kept.keys.ensure_current()
        orders.append(
            DatabaseBackups(one.service().operations).plan_create("demo", place(shelf)).order
        )
    assert orders[0].id == orders[1].id
    first, second = (
        BackupWork(one.service().operations.ports, order)
        for one, order in zip((world, other_world), orders, strict=True)
    )
    for work in (first, second):
        work.take_snapshot()
    first.keep()
    with pytest.raises(TargetError) as caught:
        second.keep()
    assert caught.value.code == "target-taken"
    second.remove_half()
    second.drop_snapshot()
    assert other_world.volumes.snapshots("demo") == []
    [verdict] = KeptBackups(world.home, world.clock, place(shelf)).verify()
    assert verdict.problem is None
    first.remove_half()
    assert KeptBackups(world.home, world.clock, place(shelf)).verify() == [verdict]


def test_backup_of_a_former_name_leads_to_nothing_under_the_new_one(
    world: World, shelf: Path
) -> None:
    """As after `db rename`: the logs are archived under the new name, apart from that backup."""
    server = Server(world, shelf)
    server.write(1, b"one")
    server.back_up()
    server.archive()
    state = server.state()
    assert state.leading is not None
    (shelf / "demo").rename(shelf / "former")
    leading = state.leading.model_copy(update={"id": state.leading.id.replace("demo", "former")})
    moved = state.model_copy(update={"leading": leading, "last_id": leading.id})
    world.service().operations.records.put_backup_state("demo", moved)
    for _ in range(2):
        assert server.archive().problem is not None
        assert (server.state().needs_backup, server.state().archived_until) == (True, None)
        assert server.state().last_id == leading.id
    server.back_up()
    assert server.archive().problem is None
    server.require_restorable()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0001/binlog.000001/0-1-x", ("0001", "binlog.000001/0-1-x")),
        (f"{ID_A}/0001/stretch", (f"{ID_A}/0001", "stretch")),
        ("0001/covered", ("0001", "covered")),
    ],
)
def test_stretch_of_a_name(name: str, expected: tuple[str, str]) -> None:
    assert split_stretch(name) == expected


def test_stretches_follow_one_another_over_a_change_of_release() -> None:
    assert following_stretch("", None) == "0001"
    assert following_stretch("", "0041") == "0042"
    assert following_stretch(ID_A, None) == f"{ID_A}/0001"
    assert following_stretch(ID_A, "0007") == f"{ID_A}/0008"
    assert following_stretch(ID_A, f"{ID_A}/0008") == f"{ID_A}/0009"
    zeros = "0" * 32
    assert newest_stretch(["0007", f"{zeros}/0001"]) == f"{zeros}/0001"
    assert newest_stretch([]) is None
    assert (owner_of_stretch("0007"), owner_of_stretch(f"{ID_A}/0001")) == ("", ID_A)
