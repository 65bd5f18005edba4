"""Backups of databases at the ports: what is taken, what stays behind, what is let go."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.databases.backup.backups import DatabaseBackups, TakenBackup
from grampus.databases.backup.kept import KeptBackups, Verdict
from grampus.databases.backup.model import BackupManifest
from grampus.state.locks import hold_lock
from grampus.volumes.model import CloneSource
from tests.fakes.interruption import Killed, burn_points
from tests.unit.databases.world import LAB, World
from tests.unit.operation_runner import planned

from .existing import place, put_database, write_rows

GTID = "SELECT @@GLOBAL.gtid_executed"


def backups(world: World) -> DatabaseBackups:
    return DatabaseBackups(world.service().operations)


def kept(world: World, shelf: Path) -> KeptBackups:
    return KeptBackups(world.home, world.clock, place(shelf))


def take(world: World, shelf: Path, rows: str, **wishes: object) -> TakenBackup:
    """A backup with these rows, an hour later than the one before."""
    world.clock.sleep(3600)
    write_rows(world, rows)
    return backups(world).create("demo", place(shelf), **wishes)  # type: ignore[arg-type]


def snapshots(world: World, name: str = "demo") -> list[str]:
    return [snapshot.name for snapshot in world.volumes.snapshots(name)]


def content(world: World, shelf: Path, manifest: BackupManifest) -> str:
    return b"".join(kept(world, shelf).catalogue.open(manifest)).decode()


def test_first_is_full_and_the_next_holds_what_is_new(world: World, shelf: Path) -> None:
    put_database(world)
    first = take(world, shelf, "one").manifest
    second = take(world, shelf, "two").manifest
    assert (first.kind, first.base) == ("full", None)
    assert second.kind == "incremental"
    assert second.base is not None
    assert second.base.id == first.id
    assert "accounts" in content(world, shelf, first)
    assert "two" in content(world, shelf, second)
    assert "accounts" not in content(world, shelf, second)


def test_after_a_rotation_the_next_is_full_and_all_can_be_read(world: World, shelf: Path) -> None:
    put_database(world)
    taken = [take(world, shelf, "one"), take(world, shelf, "two")]
    keys = kept(world, shelf).keys
    keys.settle_next(keys.ensure_next().id)
    taken += [take(world, shelf, "three"), take(world, shelf, "four")]
    kinds = [one.manifest.kind for one in taken]
    assert kinds == ["full", "incremental", "full", "incremental"]
    assert "is encrypted with another key" in taken[2].why
    assert [one.manifest.key_id == keys.ensure_current().id for one in taken] == [
        *(False, False),
        *(True, True),
    ]
    assert {verdict.problem for verdict in kept(world, shelf).verify()} == {None}


def test_manifest_tells_of_the_database_as_it_was(world: World, shelf: Path) -> None:
    record = put_database(world)
    host = world.hosts[record.spec.host]
    host.admin_answers[GTID] = "uuid:1-5,\\nother:1\n"
    manifest = take(world, shelf, "one").manifest
    assert manifest.gtid_executed == "uuid:1-5,other:1"
    assert manifest.taken_at == world.clock.now()
    database = manifest.database
    assert (database.name, database.memory_bytes, database.cpus) == ("demo", 2**29, 0.5)
    assert (database.created_at, database.user) == (record.created_at, "demo")


def test_stopped_database_is_backed_up_too(world: World, shelf: Path) -> None:
    put_database(world)
    write_rows(world, "one")
    world.service().stop("demo")
    manifest = backups(world).create("demo", place(shelf)).manifest
    assert manifest.gtid_executed is None
    assert "one" in content(world, shelf, manifest)


def test_only_the_snapshot_of_the_newest_backup_stays(world: World, shelf: Path) -> None:
    put_database(world)
    world.volumes.ensure_snapshot("demo", "before-upgrade")
    for rows in ("one", "two", "three"):
        newest = take(world, shelf, rows).manifest
    assert snapshots(world) == ["before-upgrade", newest.snapshot]


def test_each_place_has_its_own_chain(world: World, shelf: Path, tmp_path: Path) -> None:
    put_database(world)
    elsewhere = tmp_path / "elsewhere"
    first, other = take(world, shelf, "one").manifest, take(world, elsewhere, "two").manifest
    assert other.kind == "full"
    assert sorted(snapshots(world)) == sorted([first.snapshot, other.snapshot])
    assert take(world, shelf, "three").manifest.kind == "incremental"


@pytest.mark.parametrize("reason", ["protected", "cloned"])
def test_snapshot_with_another_use_is_left(world: World, shelf: Path, reason: str) -> None:
    put_database(world)
    first = take(world, shelf, "one").manifest
    if reason == "protected":
        world.volumes.ensure_snapshot_protected("demo", first.snapshot, protected=True)
    else:
        clone_of(world, first.snapshot)
    second = take(world, shelf, "two").manifest
    assert snapshots(world) == [first.snapshot, second.snapshot]


def clone_of(world: World, snapshot: str) -> None:
    spec = world.volumes.get("demo").spec
    source = CloneSource(pool=spec.pool, image=spec.image, snapshot=snapshot)
    world.volumes.ensure_cloned(spec.model_copy(update={"name": "c", "image": "db-c"}), source)


def test_full_one_when_the_snapshot_is_gone_or_when_asked_for(world: World, shelf: Path) -> None:
    put_database(world)
    first = take(world, shelf, "one").manifest
    assert take(world, shelf, "two", wanted="full").manifest.kind == "full"
    for snapshot in snapshots(world):
        world.volumes.ensure_snapshot_absent("demo", snapshot)
    with pytest.raises(RefusedError, match="no longer has the snapshot"):
        take(world, shelf, "three", wanted="incremental")
    assert take(world, shelf, "three").manifest.kind == "full"
    assert first.id in kept(world, shelf).observe().backups


def test_retention_lets_old_chains_go(world: World, shelf: Path) -> None:
    put_database(world)
    first = take(world, shelf, "one").manifest
    second = take(world, shelf, "two").manifest
    third = take(world, shelf, "three", wanted="full", keep=2)
    assert third.deleted == ()
    fourth = take(world, shelf, "four", keep=2)
    assert fourth.deleted == (second.id, first.id)
    left = kept(world, shelf).observe()
    assert left.backups.keys() == {third.manifest.id, fourth.manifest.id}
    assert left.incomplete == ()


def test_retention_waits_while_another_backup_is_taken_there(world: World, shelf: Path) -> None:
    put_database(world)
    first = take(world, shelf, "one").manifest
    target_id = kept(world, shelf).target.ensure_id()
    with hold_lock(world.home, f"backups.{target_id}", world.clock, shared=True):
        taken = take(world, shelf, "two", wanted="full", keep=1)
        with pytest.raises(RefusedError) as caught:
            kept(world, shelf).delete(first.id)
    assert caught.value.code == "busy"
    assert taken.deleted == ()
    assert any("Older backups are deleted next time" in note for note in world.progress.notes)
    assert len(kept(world, shelf).observe().backups) == 2


def test_backups_outlive_their_database(world: World, shelf: Path) -> None:
    put_database(world)
    manifest = take(world, shelf, "one").manifest
    world.service().delete("demo")
    assert kept(world, shelf).verify() == [Verdict(manifest.id, None)]
    assert "one" in content(world, shelf, manifest)


def test_later_database_of_that_name_begins_anew(world: World, shelf: Path) -> None:
    put_database(world)
    first = take(world, shelf, "one").manifest
    world.service().delete("demo")
    world.clock.sleep(60)
    put_database(world)
    taken = take(world, shelf, "two", keep=1)
    assert taken.manifest.kind == "full"
    assert taken.deleted == ()
    assert first.id in kept(world, shelf).observe().backups


def test_base_is_not_deleted_under_its_increments(world: World, shelf: Path) -> None:
    put_database(world)
    first, second = take(world, shelf, "one").manifest, take(world, shelf, "two").manifest
    with pytest.raises(RefusedError, match=second.id):
        kept(world, shelf).delete(first.id)
    kept(world, shelf).delete(second.id)
    kept(world, shelf).delete(first.id)
    assert kept(world, shelf).observe().backups == {}


def test_verdicts_tell_of_damage_and_of_what_stands_on_it(world: World, shelf: Path) -> None:
    put_database(world)
    first, second = take(world, shelf, "one").manifest, take(world, shelf, "two").manifest
    data = shelf / first.id / "image.sealed"
    data.write_bytes(data.read_bytes()[:-1])
    verdicts = {v.backup_id: v.problem for v in kept(world, shelf).verify(database="demo")}
    assert "ends within chunk 0" in (verdicts[first.id] or "")
    assert verdicts[second.id] is None  # it is whole by itself; the first one's verdict says no
    kept(world, shelf).catalogue.remove(first.id)
    (verdict,) = kept(world, shelf).verify()
    assert "missing" in (verdict.problem or "")


def test_nothing_there_says_where_to_look(world: World, shelf: Path) -> None:
    with pytest.raises(NotFoundError, match="--to"):
        kept(world, shelf).observe()
    with pytest.raises(NotFoundError):
        backups(world).create("demo", place(shelf))
    assert not shelf.exists()


def test_plan_changes_nothing(world: World, shelf: Path) -> None:
    put_database(world)
    before = world.inventory()
    plan = planned(world.runner, lambda: backups(world).create("demo", place(shelf)))
    assert plan[0].startswith("The backup will be full: ")
    assert plan[1].startswith("Take the snapshot ")
    assert (world.inventory(), shelf.exists()) == (before, False)
    assert kept(world, shelf).keys.ids() == []


def test_stream_that_ends_badly_leaves_nothing(world: World, shelf: Path) -> None:
    put_database(world)
    world.fuse.error = GrampusError("rbd: the cluster is gone", code="command-failed")
    world.fuse.left = 8  # after the stream was read, before the command has ended well
    with pytest.raises(GrampusError, match="the cluster is gone"):
        take(world, shelf, "one")
    assert snapshots(world) == []
    assert world.inventory()["unfinished"] == []
    left = kept(world, shelf).observe()
    assert (left.backups, left.incomplete) == ({}, ())


def cut_off(tmp_path: Path, point: int) -> bool:
    """A second backup that dies at its n-th change; whether it died. Then the next command."""
    world = World(tmp_path / f"home-{point}")
    shelf = tmp_path / f"shelf-{point}"
    put_database(world)
    first = take(world, shelf, "one").manifest
    world.fuse.left = point
    died = False
    try:
        second = take(world, shelf, "two")
    except Killed:
        died = True
    world.fuse.left = None
    told = world.service().converge()
    left = kept(world, shelf).observe()
    assert world.journal.unfinished(LAB) == []
    assert left.incomplete == ()
    assert bool(told) == died
    if not died:
        assert left.backups.keys() == {first.id, second.manifest.id}
    elif len(left.backups) == 1:
        # Undone: the next increment can start where this one did.
        assert snapshots(world) == [first.snapshot]
    else:
        newest = max(left.backups.values(), key=lambda backup: backup.taken_at)
        assert newest.snapshot in snapshots(world)
    # Whatever it was cut off at, the next backup is an increment and can be verified.
    third = take(world, shelf, "three").manifest
    assert third.kind == "incremental"
    assert snapshots(world) == [third.snapshot]
    assert [verdict.problem for verdict in kept(world, shelf).verify()] == [None] * (
        len(left.backups) + 1
    )
    world.close()
    return died


def test_one_that_is_whole_stays_and_the_snapshot_before_it_goes(
    world: World, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_database(world)
    take(world, shelf, "one")
    monkeypatch.setenv(VARIABLE, "db.backup/data/after=error")
    with pytest.raises(FailpointError):
        take(world, shelf, "two")
    newest = max(kept(world, shelf).observe().backups.values(), key=lambda each: each.taken_at)
    assert snapshots(world) == [newest.snapshot]


def test_backup_cut_off_anywhere_is_whole_or_nothing(tmp_path: Path) -> None:
    points = 0
    for point in burn_points():
        if not cut_off(tmp_path, point):
            break
        points += 1
    assert points >= 5


def test_target_that_has_gone_does_not_hold_up_the_database(world: World, shelf: Path) -> None:
    put_database(world)
    world.fuse.left = 8
    with pytest.raises(Killed):
        take(world, shelf, "one")
    world.fuse.left = None
    for path in sorted(shelf.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    shelf.rmdir()
    assert world.service().converge() == [
        "The backup of the database demo was interrupted. It is now undone."
    ]
    assert snapshots(world) == []
