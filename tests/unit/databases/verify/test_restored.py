"""A verification that restores the newest backup, at the ports: real backups, made-up servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.cli.db_verify import conclusion, rows_of_damage, verification_document
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.databases.backup.backup_schedules import BackupSchedules
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.restore_tests import RestoreTests
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.verify.decide_verified import Verification
from grampus.databases.verify.restored import NewestBackups
from tests.unit.databases.backup.existing import place, write_rows
from tests.unit.databases.backup.test_restore_tests import answer
from tests.unit.databases.stopped_case import verification
from tests.unit.databases.world import World
from tests.unit.operation_runner import planned


def take(world: World, shelf: Path) -> BackupManifest:
    world.create()
    write_rows(world, "one")
    answer(world)
    return DatabaseBackups(world.service().operations).create("demo", place(shelf)).manifest


def newest(world: World) -> NewestBackups:
    service = world.service()
    tests = RestoreTests(service, DatabaseClones(service.operations, service.planner))
    return NewestBackups(service.operations, tests)


def verify(world: World, *, scrub: bool = False, tables: bool = False) -> Verification:
    restore = newest(world).prepare("demo", None)
    return verification(world).verify(
        "demo", scrub=scrub, tables=tables, repair=False, restore=restore
    )


def test_the_restore_is_a_part_of_what_is_kept(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    before = world.inventory()
    verified = verify(world, scrub=True, tables=True)
    said = f"backup {manifest.id}: 2 tables restored, rows equal to its snapshot"
    assert verified.is_sound
    assert verified.summary.said.endswith(f"tables: 2 sound; {said}")
    assert world.service().get("demo").last_verification == verified.summary
    assert world.inventory() == before
    # As `db backup test` would have it.
    kept = KeptBackups(world.home, world.clock, place(shelf)).observe()
    assert kept.tests[manifest.id].problem is None
    document = verification_document(verified)["restore"]
    assert (document["outcome"], document["compared"]) == ("good", True)


def test_it_can_be_all_that_is_looked_at_and_needs_no_running_server(
    world: World, shelf: Path
) -> None:
    take(world, shelf)
    world.service().stop("demo")
    verified = verify(world)
    assert (verified.scrub, verified.tables, verified.is_sound) == (None, None, True)


def test_a_broken_backup_is_told_with_what_to_do(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    data = shelf / manifest.id / "image.sealed"
    data.write_bytes(data.read_bytes()[:-1])
    verified = verify(world)
    assert not verified.is_sound
    (row,) = rows_of_damage(verified)
    assert (row[:2], row[3]) == (["backup", manifest.id], "broken")
    assert "--full" in conclusion(verified)


def test_one_that_cannot_be_tried_loses_nothing_else(world: World, shelf: Path) -> None:
    take(world, shelf)
    restore = newest(world).prepare("demo", None)
    for host in world.hosts.values():
        host.serve_failure = "[ERROR] InnoDB: no"
    verified = verification(world).verify(
        "demo", scrub=True, tables=True, repair=False, in_place=True, restore=restore
    )
    assert verified.restored is not None
    assert (verified.restored.outcome, verified.is_sound) == ("untried", False)
    assert verified.tables is not None
    assert world.service().get("demo").last_verification == verified.summary


def test_a_plan_restores_nothing(world: World, shelf: Path) -> None:
    manifest = take(world, shelf)
    before = world.inventory()
    steps = planned(world.runner, lambda: verify(world))
    assert world.inventory() == before
    assert manifest.id in steps[0]
    assert steps[-1] == "Record the result with demo"
    assert [view.record.spec.name for view in world.service().list()] == ["demo"]


def test_without_a_backup_nothing_is_begun(world: World, shelf: Path) -> None:
    world.create()
    assert not newest(world).is_known("demo")
    for named in (None, place(shelf)):
        with pytest.raises(NotFoundError):
            newest(world).prepare("demo", named)
    with pytest.raises(NotFoundError, match="demi"):
        newest(world).prepare("demi", None)


def test_a_backup_of_an_earlier_database_of_that_name_is_none(world: World, shelf: Path) -> None:
    take(world, shelf)
    assert newest(world).is_known("demo")
    world.service().delete("demo")
    world.clock.sleep(60)
    world.create()
    assert not newest(world).is_known("demo")
    with pytest.raises(NotFoundError) as error:
        newest(world).prepare("demo", place(shelf))
    assert error.value.code == "no-backup"


def test_a_place_that_a_schedule_names_is_found(world: World, shelf: Path) -> None:
    take(world, shelf)
    schedule = BackupSchedule(place=place(shelf), every_s=3600)
    BackupSchedules(world.service().operations).put("demo", schedule)
    assert newest(world).prepare("demo", None)().outcome == "good"


def test_a_test_that_runs_already_is_waited_for_by_nobody(world: World, shelf: Path) -> None:
    take(world, shelf)
    busy = RefusedError("A restore test of demo runs already.", "Wait.", code="busy")

    class Busy:
        def plan(self, name: str, place: object) -> list[str]:
            raise AssertionError("nobody asks")

        def test(self, name: str, place: object) -> GrampusError:
            raise busy

    backups = NewestBackups(world.service().operations, Busy())  # type: ignore[arg-type]
    restored = backups.prepare("demo", None)()
    assert (restored.outcome, restored.said) == ("untried", busy.problem)


@pytest.mark.parametrize("left_out", [True, False])
def test_a_restore_that_was_left_out_is_told_in_a_line(world: World, left_out: bool) -> None:
    verified = Verification("demo", world.clock.now(), None, ())
    assert ("--restore" in conclusion(verified, is_restore_left_out=left_out)) is left_out
