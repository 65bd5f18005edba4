"""Restores at the ports: the rows of the backup, a server of its own, all of it or nothing."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.restores import DatabaseRestores, RestoredDatabase, RestoreRequest
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES
from tests.fakes.interruption import Killed, burn_points
from tests.unit.databases.world import World
from tests.unit.operation_runner import planned

from .existing import ROWS, place, put_database, write_rows


def take(world: World, shelf: Path, rows: str, name: str = "demo") -> BackupManifest:
    world.clock.sleep(3600)
    write_rows(world, rows, name)
    return DatabaseBackups(world.service().operations).create(name, place(shelf)).manifest


def restores(world: World) -> DatabaseRestores:
    return DatabaseRestores(world.service())


def restore(world: World, shelf: Path, **wishes: object) -> RestoredDatabase:
    return restores(world).restore(RestoreRequest("again", place(shelf), **wishes))  # type: ignore[arg-type]


def rows(world: World, name: str = "again") -> str | None:
    attachment = world.volumes.get(name).attachment
    assert attachment is not None
    return world.hosts[attachment.host].read_file(PurePosixPath(attachment.mount_path) / ROWS)


def test_each_backup_comes_back_as_it_was(world: World, shelf: Path) -> None:
    world.create()
    first, second = take(world, shelf, "one"), take(world, shelf, "two")
    take(world, shelf, "three")
    assert restore(world, shelf, backup_id=second.id).manifest == second
    assert rows(world) == "two"
    world.service().delete("again")
    restore(world, shelf, backup_id=first.id)
    assert rows(world) == "one"
    assert rows(world, "demo") == "three"


def test_restored_one_is_a_database_of_its_own(world: World, shelf: Path) -> None:
    source = world.create(memory_bytes=2**29, cpus=0.5, write_path="journal")
    take(world, shelf, "one")
    record = restore(world, shelf).record
    service = world.service()
    assert (record.phase, record.user) == ("ready", "demo")
    assert record.spec.address != source.record.spec.address
    assert record.spec.server_id != source.record.spec.server_id
    endpoint = service.endpoint("again")
    assert endpoint.user == "demo"
    assert endpoint.password != source.endpoint.password
    assert (record.spec.memory_bytes, record.spec.cpus) == (2**29, 0.5)
    assert record.spec.write_path == world.volumes.get("again").spec.write_path == "journal"
    assert world.volumes.snapshots("again") == []
    assert world.volumes.images["again"].facts["database"] == "again"
    assert world.service().show("again").status == "running"


@pytest.mark.parametrize("log_bytes", [None, EXTERNAL_LOG_BYTES])
def test_its_file_system_is_where_it_was(world: World, shelf: Path, log_bytes: int | None) -> None:
    """Also that of a database of an earlier release, whose log is inside."""
    spec = world.create(write_path="journal").record.spec
    assert spec.external_log_bytes == EXTERNAL_LOG_BYTES
    found = spec.model_copy(update={"external_log_bytes": log_bytes})
    world.service().operations.records.change("demo", spec=found)
    take(world, shelf, "one")
    record = restore(world, shelf).record
    made = world.volumes.get("again").spec
    assert (record.spec.external_log_bytes, made.external_log_bytes) == (log_bytes, log_bytes)


def test_other_limits_can_be_asked_for(world: World, shelf: Path) -> None:
    world.create()
    take(world, shelf, "one")
    record = restore(world, shelf, memory_bytes=2**30, cpus=2.0, host="h2").record
    assert (record.spec.memory_bytes, record.spec.cpus, record.spec.host) == (2**30, 2.0, "h2")


def test_database_may_be_gone_and_its_name_be_taken_again(world: World, shelf: Path) -> None:
    world.create()
    take(world, shelf, "one")
    world.service().delete("demo")
    restores(world).restore(RestoreRequest("demo", place(shelf)))
    assert rows(world, "demo") == "one"


def test_nothing_that_is_there_is_overwritten(world: World, shelf: Path) -> None:
    world.create()
    take(world, shelf, "one")
    with pytest.raises(RefusedError, match="already exists"):
        restores(world).restore(RestoreRequest("demo", place(shelf)))


def test_latest_of_several_must_be_named(world: World, shelf: Path) -> None:
    for name in ("demo", "other"):
        world.create(name)
        take(world, shelf, name, name)
    with pytest.raises(UsageError, match="demo, other"):
        restore(world, shelf)
    restore(world, shelf, source="demo")
    assert rows(world) == "demo"


@pytest.mark.parametrize(
    ("wishes", "error"),
    [
        ({"backup_id": "demo/20200101t000000z"}, NotFoundError),
        ({"source": "nobody"}, NotFoundError),
        ({"host": "h9"}, NotFoundError),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_changed(
    world: World, shelf: Path, wishes: dict[str, str], error: type[GrampusError]
) -> None:
    world.create()
    take(world, shelf, "one")
    before = world.inventory()
    with pytest.raises(error):
        restore(world, shelf, **wishes)
    assert world.inventory() == before


@pytest.mark.parametrize("where", ["image.sealed", "manifest.json"])
def test_damaged_backup_makes_no_database(world: World, shelf: Path, where: str) -> None:
    world.create()
    first = take(world, shelf, "one")
    take(world, shelf, "two")
    file = shelf / first.id / where
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    before = world.inventory()
    with pytest.raises(BackupDamagedError):
        restore(world, shelf)
    assert world.inventory() == before


def test_plan_changes_nothing(world: World, shelf: Path) -> None:
    world.create()
    manifest = take(world, shelf, "one")
    before = world.inventory()
    request = RestoreRequest("again", place(shelf))
    steps = planned(world.runner, lambda: restores(world).restore(request))
    assert any(manifest.id in step for step in steps)
    assert world.inventory() == before


def test_moment_that_is_not_archived_is_refused(world: World, shelf: Path) -> None:
    put_database(world)
    manifest = take(world, shelf, "one")
    with pytest.raises(RefusedError) as caught:
        restore(world, shelf, moment=manifest.taken_at)
    assert caught.value.code == "not-archived"


def cut_off(tmp_path: Path, point: int) -> bool:
    """A restore that dies at its n-th change; whether it died. Then the next command."""
    world = World(tmp_path / f"home-{point}")
    shelf = tmp_path / f"shelf-{point}"
    put_database(world)
    take(world, shelf, "one")
    take(world, shelf, "two")
    before = world.inventory()
    world.fuse.left = point
    try:
        restore(world, shelf)
    except Killed:
        world.fuse.left = None
        assert world.service().converge()
        assert world.inventory() == before
        return True
    else:
        assert rows(world) == "two"
        return False
    finally:
        world.close()


def test_restore_cut_off_anywhere_leaves_nothing(tmp_path: Path) -> None:
    points = 0
    for point in burn_points():
        if not cut_off(tmp_path, point):
            break
        points += 1
    assert points >= 20
