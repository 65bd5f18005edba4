"""Backup schedules at the ports: kept, carried out, and what fails keeps nobody else from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.backup.backup_schedules import BackupSchedules, CarriedBackup
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.decide_schedule import ArchiveEnd, BackupSchedule
from grampus.databases.backup.joining import holding_logs
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.states import BackupStates, Copied
from grampus.databases.backup.target import TARGET_FILE
from tests.fakes.interruption import Killed, burn_points
from tests.unit.databases.world import LAB, World
from tests.unit.operation_runner import planned

from .existing import place, put_database, write_rows

HOUR = 3600


def schedules(world: World) -> BackupSchedules:
    return BackupSchedules(world.service().operations)


def every_hour(shelf: Path, **changes: object) -> BackupSchedule:
    return BackupSchedule.model_validate({"place": place(shelf), "every_s": HOUR, **changes})


def carry_out(world: World, rows: str = "one") -> CarriedBackup:
    write_rows(world, rows)
    (carried,) = carry_out_all(world)
    return carried


def carry_out_all(world: World) -> list[CarriedBackup]:
    """As `grampus db backup due` does, one database after the other."""
    service = schedules(world)
    carried = [service.take(name) for name in service.scheduled()]
    for one in carried:
        service.let_go(one)
    return carried


def kinds(world: World, shelf: Path) -> list[str]:
    backups = KeptBackups(world.home, world.clock, place(shelf)).observe().backups.values()
    return [b.kind for b in sorted(backups, key=lambda backup: backup.taken_at)]


def test_one_backup_an_interval(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf))
    assert carry_out(world).taken is not None
    assert carry_out(world).is_quiet
    world.clock.sleep(HOUR)
    assert carry_out(world, "two").taken is not None
    assert kinds(world, shelf) == ["full", "incremental"]


@pytest.mark.parametrize(("archives", "is_taken"), [(True, True), (False, False)])
def test_logs_that_no_backup_leads_to_make_one_due_at_once(
    world: World, shelf: Path, *, archives: bool, is_taken: bool
) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf, archives=archives))
    world.service().operations.records.change("demo", desired="stopped")  # so none is archived
    assert carry_out(world).taken is not None
    states = BackupStates(world.service().operations)
    copied = Copied(world.clock.now(), ArchiveEnd(stretch="0001"))
    states.note_unreachable("demo", place(shelf), copied, "rolled back")
    world.clock.sleep(60)
    assert (carry_out(world, "two").taken is not None) is is_taken
    world.clock.sleep(60)
    assert carry_out(world, "three").is_quiet


def test_full_ones_have_an_interval_of_their_own(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf, full_every_s=2 * HOUR))
    for _ in range(5):
        carry_out(world)
        world.clock.sleep(HOUR)
    found = kinds(world, shelf)
    assert found.count("full") in (2, 3)
    assert "full full" not in " ".join(found)


def test_binary_logs_are_archived_of_databases_that_run_and_are_to_be(
    world: World, shelf: Path
) -> None:
    put_database(world, "plain")
    put_database(world)
    service = schedules(world)
    service.put("plain", every_hour(shelf))
    service.put("demo", every_hour(shelf, archives=True))
    assert list(service.archiving()) == ["demo"]
    world.hosts["h1"].daemons.clear()
    assert [problem.code for problem in service.archive("demo").problems] == ["not-running"]
    world.service().operations.records.change("demo", desired="stopped")
    assert service.archiving() == {}
    assert all(service.archive(name).is_quiet for name in ("plain", "demo", "gone"))


def test_joining_that_fails_with_one_keeps_no_other_from_its_own(
    world: World, shelf: Path, tmp_path: Path
) -> None:
    service = schedules(world)
    for name, directory in (("bad", tmp_path / "file"), ("demo", shelf)):
        put_database(world, name)
        service.put(name, every_hour(directory, archives=True))
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / TARGET_FILE).write_text("notes about backups")
    bad, good = service.join_logs()
    assert [problem.code for problem in bad.problems] == ["no-target"]
    assert good.is_quiet


def test_logs_are_not_let_go_while_their_pieces_are_joined(world: World, shelf: Path) -> None:
    put_database(world)
    service = schedules(world)
    service.put("demo", every_hour(shelf, full_every_s=HOUR, keep=1, archives=True))
    world.service().operations.records.change("demo", desired="stopped")  # so none is archived
    assert carry_out(world).taken is not None
    log = shelf / "demo/binlogs/0001/binlog.000001"
    log.mkdir(parents=True)
    target_id = KeptBackups(world.home, world.clock, place(shelf)).target.ensure_id()
    world.clock.sleep(HOUR)
    with holding_logs(world.home, world.clock, target_id, "demo"):
        found = carry_out(world, "two")
        world.service().operations.records.change("demo", desired="running")
        assert service.join_logs()[0].is_quiet
    assert (len(found.deleted), found.problems, log.exists()) == (1, [], True)


def test_old_ones_are_let_go(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf, full_every_s=HOUR, keep=1))
    first = carry_out(world).taken
    world.clock.sleep(HOUR)
    assert carry_out(world, "two").deleted == [first]


def test_backup_by_hand_counts(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf))
    write_rows(world, "one")
    DatabaseBackups(world.service().operations).create("demo", place(shelf))
    assert carry_out(world).is_quiet


def test_what_was_forgotten_is_read_from_the_place(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf))
    carry_out(world)
    world.store.remove("backup-state", LAB, "demo")
    assert carry_out(world).is_quiet


def test_state_tells_of_the_last_one(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf))
    states = BackupStates(world.service().operations)
    assert states.find("demo") is None
    taken = carry_out(world).taken
    found = states.find("demo")
    assert found is not None
    assert found.last_id == taken
    assert found.last_taken_at == found.last_full_at
    assert found.archived_until is None  # nothing is archived
    assert states.find("demo", place(shelf.with_name("other"))) is None


def test_what_fails_keeps_no_other_from_its_own(world: World, shelf: Path, tmp_path: Path) -> None:
    put_database(world, "bad")
    put_database(world)
    service = schedules(world)
    service.put("bad", every_hour(tmp_path / "not mounted" / "shelf"))
    service.put("demo", every_hour(shelf))
    by_name = {one.database: one for one in carry_out_all(world)}
    assert [problem.code for problem in by_name["bad"].problems] == ["no-target"]
    assert by_name["demo"].taken is not None


def test_database_that_is_worked_on_is_left_to_the_next_call(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf))
    with world.service().operations.locked("demo", lane="backup"):
        assert carry_out(world).is_quiet
    assert carry_out(world).taken is not None


def test_plan_changes_nothing(world: World, shelf: Path) -> None:
    put_database(world)
    assert planned(world.runner, lambda: schedules(world).put("demo", every_hour(shelf)))
    assert schedules(world).get("demo") is None
    schedules(world).put("demo", every_hour(shelf))
    before = world.inventory()
    (due,) = schedules(world).plan_all()
    assert due.taken is not None
    assert (world.inventory(), shelf.exists()) == (before, False)


def test_binary_logs_of_mariadb_are_refused(world: World, shelf: Path) -> None:
    world.create(flavour="mariadb")
    with pytest.raises(RefusedError) as caught:
        schedules(world).put("demo", every_hour(shelf, archives=True))
    assert caught.value.code == "flavour"
    schedules(world).put("demo", every_hour(shelf))


def test_schedule_is_noted_on_the_image_and_goes(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf))
    said = world.volumes.images["demo"].facts["backup-schedule"]
    assert BackupSchedule.model_validate_json(said) == every_hour(shelf)
    schedules(world).put("demo", None)
    assert world.volumes.images["demo"].facts["backup-schedule"] == "none"
    assert carry_out_all(world) == []


def test_change_cut_off_anywhere_is_finished(tmp_path: Path, shelf: Path) -> None:
    for point in burn_points():
        world = World(tmp_path / str(point))
        put_database(world)
        world.fuse.left = point
        try:
            schedules(world).put("demo", every_hour(shelf))
        except Killed:
            assert len(world.service().converge()) == 1
            assert schedules(world).get("demo") == every_hour(shelf)
            assert "backup-schedule" in world.volumes.images["demo"].facts
            world.close()
            continue
        world.close()
        assert point > 1
        return


def test_gap_is_told_until_it_is_over_and_makes_one_backup_due(world: World, shelf: Path) -> None:
    put_database(world)
    schedules(world).put("demo", every_hour(shelf, archives=True))
    world.service().operations.records.change("demo", desired="stopped")  # so none is archived
    assert carry_out(world).taken is not None
    states = BackupStates(world.service().operations)
    for gap, is_taken in (("0001/a", True), ("0001/a", False), ("0002/b", True), ("0002/b", False)):
        world.clock.sleep(60)
        states.note_gap("demo", place(shelf), f"There is a gap at {gap}.", after=gap)
        assert (carry_out(world, gap).taken is not None) is is_taken
        found = states.find("demo")
        assert found is not None
        assert (found.archive_problem, found.needs_backup) == (f"There is a gap at {gap}.", False)
    states.note_copied("demo", place(shelf), Copied(world.clock.now(), ArchiveEnd(stretch="0003")))
    found = states.find("demo")
    assert found is not None
    assert (found.archive_problem, found.gap_after) == (None, None)
    with pytest.raises(GrampusError):
        schedules(world).get("none")
