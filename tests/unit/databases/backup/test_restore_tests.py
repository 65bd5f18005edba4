"""Restore tests at the ports: databases come and go, and the result stays beside the backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.decide_tested import name_of_scratch
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.restore_tests import RestoreTests
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.verify.decide_scratch import TEST_LABEL
from grampus.databases.verify.decide_tables import LIST_TABLES
from tests.unit.databases.world import LAB, World

from .existing import place, write_rows
from .replay_world import ReplayWorld

TABLES = ("mysql", "db"), ("shop", "orders")


def answer(world: World, verdict: str = "OK") -> None:
    """What every server of this world says of its tables."""
    for host in world.hosts.values():
        listed = [f"{s.encode().hex()}\t{t.encode().hex()}\t16384\n" for s, t in TABLES]
        host.admin_answers[LIST_TABLES] = "".join(listed)
        for schema, table in TABLES:
            host.admin_answers[f"CHECK TABLE `{schema}`.`{table}` EXTENDED"] = (
                f"{schema}.{table}\tcheck\tstatus\t{verdict}\n"
            )
        host.admin_answers["CHECKSUM TABLE `shop`.`orders`"] = "shop.orders\t4711\n"


def take(world: World, shelf: Path) -> BackupManifest:
    world.create()
    write_rows(world, "one")
    answer(world)
    return DatabaseBackups(world.service().operations).create("demo", place(shelf)).manifest


def trials(world: World) -> RestoreTests:
    service = world.service()
    return RestoreTests(service, DatabaseClones(service.operations, service.planner))


def names(world: World) -> list[str]:
    return [view.record.spec.name for view in world.service().list()]


def test_good_backup_is_compared_and_noted(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    before = world.inventory()
    tested = trials(world).test("demo", place(shelf))
    assert (tested.test.tables, tested.test.compared, tested.test.problem) == (2, True, None)
    kept = KeptBackups(world.home, world.clock, place(shelf)).observe()
    assert kept.tests == {manifest.id: tested.test}
    assert world.inventory() == before


def test_database_may_be_gone(world: World, shelf: Path) -> None:
    take(world, shelf)
    world.service().delete("demo")
    tested = trials(world).test("demo", place(shelf))
    assert (tested.test.compared, tested.test.problem) == (False, None)
    assert names(world) == []


def test_broken_table_is_told(world: World, shelf: Path) -> None:
    take(world, shelf)
    answer(world, "Corrupt")
    tested = trials(world).test("demo", place(shelf))
    assert "shop.orders" in (tested.test.problem or "")
    assert names(world) == ["demo"]


def test_damaged_backup_is_an_answer(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    data = shelf / manifest.id / "image.sealed"
    data.write_bytes(data.read_bytes()[:-1])
    tested = trials(world).test("demo", place(shelf))
    assert "ends within chunk" in (tested.test.problem or "")
    assert names(world) == ["demo"]


def test_leftovers_of_a_test_that_was_cut_off_go_with_the_next(world: World, shelf: Path) -> None:
    take(world, shelf)
    service, name = world.service(), name_of_scratch("new", "demo")
    clones = DatabaseClones(service.operations, service.planner)
    clones.clone(CloneRequest("demo", name, labels={TEST_LABEL: "new"}))
    trials(world).test("demo", place(shelf))
    assert names(world) == ["demo"]


def test_a_database_that_has_such_a_name_alone_is_left_alone(world: World, shelf: Path) -> None:
    take(world, shelf)
    world.create(name := name_of_scratch("new", "demo"))
    with pytest.raises(RefusedError) as caught:
        trials(world).test("demo", place(shelf))
    assert caught.value.code == "name-taken"
    assert names(world) == ["demo", name]


def test_plan_says_what_it_would_do(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    plan = trials(world).plan("demo", place(shelf))
    assert manifest.id in plan[0]
    assert any(manifest.snapshot in line for line in plan)
    assert names(world) == ["demo"]
    assert trials(world).names(place(shelf)) == ["demo"]
    with pytest.raises(NotFoundError):
        trials(world).test("other", place(shelf))


def test_backup_goes_with_its_test(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    trials(world).test("demo", place(shelf))
    kept = KeptBackups(world.home, world.clock, place(shelf))
    kept.delete(manifest.id)
    assert kept.observe().tests == {}
    assert world.journal.unfinished(LAB) == []


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[ReplayWorld]:
    """With a backup, and binary logs that lead on from it."""
    with closing(ReplayWorld(tmp_path)) as made:
        made.fill()
        answer(made)
        yield made


def test_latest_moment_of_the_archived_logs_is_restored_too(logged: ReplayWorld) -> None:
    before = names(logged)
    tested = trials(logged).test("demo", place(logged.shelf))
    assert tested.test.problem is None
    assert tested.test.logs_until == logged.clock.now()
    assert names(logged) == before
    plan = trials(logged).plan("demo", place(logged.shelf))
    assert any("by its archived binary logs" in line for line in plan)


def test_logs_that_cannot_be_applied_are_the_answer(logged: ReplayWorld) -> None:
    before = names(logged)
    for host in logged.logging_hosts.values():
        host.apply_error = "Could not execute Update_rows event"
    problem = trials(logged).test("demo", place(logged.shelf)).test.problem
    assert problem is not None
    assert "Update_rows" in problem
    assert names(logged) == before


def test_host_without_room_says_nothing_of_the_logs(logged: ReplayWorld) -> None:
    for host in logged.logging_hosts.values():
        host.free_bytes = 1000
    with pytest.raises(RefusedError) as caught:
        trials(logged).test("demo", place(logged.shelf))
    assert caught.value.code == "host-full"
