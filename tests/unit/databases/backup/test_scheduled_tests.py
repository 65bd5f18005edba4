"""Scheduled restore tests at the ports: when they come, what is kept, and who is told."""

from __future__ import annotations

from pathlib import Path

from grampus.databases.backup.backup_schedules import BackupSchedules
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.backup.restore_tests import RestoreTests
from grampus.databases.backup.scheduled_tests import CarriedTest, ScheduledTests
from grampus.databases.backup.states import BackupStates
from grampus.databases.clones.cloning import DatabaseClones
from tests.unit.databases.world import LAB, World

from .existing import place
from .test_restore_tests import answer, names, take

HOUR, DAY = 3600, 86400


def scheduled(world: World) -> ScheduledTests:
    service = world.service()
    tests = RestoreTests(service, DatabaseClones(service.operations, service.planner))
    return ScheduledTests(service.operations, tests)


def put(world: World, shelf: Path, test_every_s: int | None = DAY) -> None:
    schedule = BackupSchedule(place=place(shelf), every_s=HOUR, test_every_s=test_every_s)
    BackupSchedules(world.service().operations).put("demo", schedule)


def carry_out(world: World) -> CarriedTest:
    service = scheduled(world)
    (one,) = [service.test(name) for name in service.scheduled()]
    return one


def test_one_test_an_interval(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    put(world, shelf)
    first = carry_out(world)
    assert first.tested is not None
    assert (first.tested.manifest.id, first.found, first.problem) == (manifest.id, None, None)
    assert carry_out(world).tested is None
    world.clock.sleep(DAY)
    assert carry_out(world).tested is not None
    assert names(world) == ["demo"]


def test_state_tells_of_the_last_one(world: World, shelf: Path) -> None:
    take(world, shelf)
    put(world, shelf)
    carry_out(world)
    state = BackupStates(world.service().operations).find("demo")
    assert state is not None
    assert state.last_tested_at is not None
    assert state.test_problem is None


def test_what_was_forgotten_is_read_from_the_place(world: World, shelf: Path) -> None:
    take(world, shelf)
    put(world, shelf)
    carry_out(world)
    world.store.remove("backup-state", LAB, "demo")
    assert carry_out(world).tested is None


def test_nothing_to_test_is_no_problem(world: World, shelf: Path) -> None:
    world.create()
    put(world, shelf)
    assert (carry_out(world).tested, carry_out(world).problem) == (None, None)


def test_without_an_interval_nothing_is_tested(world: World, shelf: Path) -> None:
    take(world, shelf)
    put(world, shelf, None)
    assert scheduled(world).scheduled() == {}


def test_what_was_found_wrong_is_told_until_a_test_is_good(world: World, shelf: Path) -> None:
    take(world, shelf)
    put(world, shelf)
    answer(world, "Corrupt")
    assert "shop.orders" in (carry_out(world).found or "")
    again = carry_out(world)
    assert again.tested is None
    assert "shop.orders" in (again.found or "")
    answer(world)
    world.clock.sleep(DAY)
    assert carry_out(world).found is None


def test_one_that_cannot_be_tried_is_tried_again(world: World, shelf: Path) -> None:
    take(world, shelf)
    put(world, shelf)
    away = shelf.with_name("away")
    shelf.rename(away)
    assert (carry_out(world).tested, carry_out(world).problem) == (None, None)
    away.rename(shelf)
    assert carry_out(world).tested is not None


def test_plan_changes_nothing(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    put(world, shelf)
    before = world.inventory()
    (one,) = scheduled(world).plan_all()
    assert manifest.id in one.plan[0]
    assert one.tested is None
    assert world.inventory() == before
