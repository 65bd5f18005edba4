"""Backups that nobody can delete for a while, in a bucket that has object lock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from grampus.core.errors import RefusedError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.databases.backup.backup_schedules import BackupSchedules
from grampus.databases.backup.backups import DatabaseBackups, TakenBackup
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.places import TargetPlace
from tests.fakes.s3 import FakeS3, serving
from tests.unit.databases.world import World

from .existing import place, put_database, write_rows


@pytest.fixture
def service() -> Iterator[FakeS3]:
    with serving(FakeS3(locking={"backups"})) as made:
        yield made


@pytest.fixture
def bucket(service: FakeS3, tmp_path: Path) -> TargetPlace:
    return service.place(tmp_path)


def kept(world: World, bucket: TargetPlace) -> KeptBackups:
    return KeptBackups(world.home, world.clock, bucket)


def take(
    world: World,
    bucket: TargetPlace,
    rows: str,
    *,
    days: int | None = None,
    keep: int | None = None,
    full: bool = False,
) -> TakenBackup:
    world.clock.sleep(86400)
    write_rows(world, rows)
    return DatabaseBackups(world.service().operations).create(
        "demo", bucket, wanted="full" if full else None, keep=keep, lock_days=days
    )


def until_of(service: FakeS3, backup_id: str) -> set[str]:
    return {
        until
        for name, until in service.retained.items()
        if name.startswith(f"backups/one/{backup_id}/")
    }


def written(moment: datetime | None) -> str:
    assert moment is not None
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def set_now(world: World, service: FakeS3, moment: datetime) -> None:
    world.clock.sleep((moment - world.clock.now()).total_seconds())
    service.now = written(world.clock.now())


def test_backup_is_locked_with_all_that_it_stands_on(
    world: World, service: FakeS3, bucket: TargetPlace
) -> None:
    put_database(world)
    first = take(world, bucket, "one", days=7).manifest
    assert until_of(service, first.id) == {written(first.locked_until)}
    assert first.locked_until == world.clock.now() + timedelta(days=7)
    second = take(world, bucket, "two", days=7).manifest
    assert second.base is not None
    for backup in (first, second):
        assert until_of(service, backup.id) == {written(second.locked_until)}
    take(world, bucket, "three", days=1)  # a shorter lock takes nothing from a longer one
    assert until_of(service, first.id) == {written(second.locked_until)}
    assert [v.problem for v in kept(world, bucket).verify()] == [None] * 3


def test_locked_backup_stays_and_goes_once_its_lock_is_over(
    world: World, service: FakeS3, bucket: TargetPlace
) -> None:
    put_database(world)
    set_now(world, service, world.clock.now() + timedelta(days=1))
    locked = take(world, bucket, "one", days=7).manifest
    newer = take(world, bucket, "two", full=True, keep=1)
    assert newer.deleted == ()
    assert any(f"{locked.id} is kept: it is locked until" in said for said in world.progress.notes)
    with pytest.raises(RefusedError, match="is locked until") as caught:
        kept(world, bucket).delete(locked.id)
    assert caught.value.code == "locked"
    assert sorted(kept(world, bucket).observe().backups) == [locked.id, newer.manifest.id]
    assert service.hidden == {}
    assert locked.locked_until is not None
    set_now(world, service, locked.locked_until)
    assert take(world, bucket, "three", full=True, keep=2).deleted == (locked.id,)
    assert not [name for name in (*service.objects, *service.hidden) if locked.id in name]


def test_what_a_locked_backup_stands_on_stays_with_it(
    world: World, service: FakeS3, bucket: TargetPlace
) -> None:
    put_database(world)
    first = take(world, bucket, "one").manifest
    second = take(world, bucket, "two", days=30).manifest
    service.retained = {n: u for n, u in service.retained.items() if first.id not in n}
    assert take(world, bucket, "three", full=True, keep=1).deleted == ()
    assert {first.id, second.id} <= set(kept(world, bucket).observe().backups)


def test_lock_that_cannot_be_looked_up_keeps_the_backup(
    world: World, service: FakeS3, bucket: TargetPlace
) -> None:
    put_database(world)
    locked = take(world, bucket, "one", days=1).manifest
    service.refused["get-retention"] = (403, "AccessDenied")
    with pytest.raises(TargetError):
        kept(world, bucket).delete(locked.id)
    assert locked.id in kept(world, bucket).observe().backups


def test_bucket_without_object_lock_and_directory_are_refused(
    world: World, service: FakeS3, bucket: TargetPlace, tmp_path: Path
) -> None:
    put_database(world)
    service.locking.clear()
    schedules = BackupSchedules(world.service().operations)
    for where in (bucket, place(tmp_path / "shelf")):
        with pytest.raises(RefusedError) as caught:
            take(world, where, "one", days=7)
        assert caught.value.code == "no-object-lock"
        schedule = BackupSchedule(place=where, every_s=3600, object_lock_days=7)
        with pytest.raises(RefusedError) as caught:
            schedules.put("demo", schedule)
        assert caught.value.code == "no-object-lock"
    assert world.volumes.snapshots("demo") == []
    take(world, bucket, "one")  # and without a lock nothing is asked of it
    assert "get-retention" not in service.seen


def test_backup_without_a_lock_leaves_no_version_where_versions_are_kept(
    world: World, service: FakeS3, bucket: TargetPlace
) -> None:
    put_database(world)
    backup = take(world, bucket, "one").manifest
    kept(world, bucket).delete(backup.id)
    assert not [name for name in (*service.objects, *service.hidden) if backup.id in name]


def test_lock_that_fails_leaves_the_backup_whole(
    world: World, service: FakeS3, bucket: TargetPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_database(world)
    service.refused["put-retention"] = (403, "AccessDenied")
    with pytest.raises(TargetError):
        take(world, bucket, "one", days=7)
    service.refused.clear()
    assert [v.problem for v in kept(world, bucket).verify()] == [None]
    monkeypatch.setenv(VARIABLE, "db.backup/data/after=error")
    with pytest.raises(FailpointError):
        take(world, bucket, "two", days=7)
    assert len(kept(world, bucket).observe().backups) == 2
