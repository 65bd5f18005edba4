"""What may happen to a database, and to the place of backups, while a backup is being written."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.streams import ByteReader
from grampus.core.units import GIB
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from tests.fakes.interruption import Killed
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.world import LAB, World

from .existing import place, write_rows


class BusyVolumes(FakeVolumes):
    """Volumes that let something happen while one of them is read."""

    meanwhile: Callable[[], object] | None = None

    @contextmanager
    def exporting(
        self, name: str, snapshot: str, *, since: str | None = None
    ) -> Iterator[ByteReader]:
        with super().exporting(name, snapshot, since=since) as source:
            if self.meanwhile is not None:
                self.meanwhile()
            yield source


@pytest.fixture
def volumes(world: World) -> BusyVolumes:
    """Those of `world`, with a database `demo` that has one backup."""
    made = BusyVolumes(world.fleet, world.fuse, world.clock)
    world.volumes = made
    world.create()
    return made


def take(world: World, shelf: Path, rows: str = "one") -> BackupManifest:
    world.clock.sleep(3600)
    write_rows(world, rows)
    return DatabaseBackups(world.service().operations).create("demo", place(shelf)).manifest


def snapshots(world: World) -> dict[str, bool]:
    """Whether they are protected, by name."""
    return {info.name: info.protected for info in world.volumes.snapshots("demo")}


def delete_snapshots(world: World) -> None:
    service = DatabaseSnapshots(world.service().operations)
    for name in snapshots(world):
        service.delete("demo", name)


REFUSED: list[tuple[str, Callable[[World], object], str]] = [
    ("delete", lambda w: w.service().delete("demo"), "backup-running"),
    (
        "trash",
        lambda w: DatabaseTrash(w.service().operations).trash("demo"),
        "backup-running",
    ),
    (
        "rename",
        lambda w: DatabaseNames(w.service().operations).rename("demo", "store"),
        "backup-running",
    ),
    ("snapshot-delete", delete_snapshots, "protected"),
]


@pytest.mark.parametrize(("act", "code"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_the_backup_is_read_from_stays(
    world: World, volumes: BusyVolumes, shelf: Path, act: Callable[[World], object], code: str
) -> None:
    first = take(world, shelf)
    refused: list[str] = []

    def try_it() -> None:
        with pytest.raises(RefusedError) as caught:
            act(world)
        refused.append(caught.value.code)

    volumes.meanwhile = try_it
    second = take(world, shelf, "two")
    assert refused == [code]
    assert second.base is not None
    assert second.base.id == first.id
    assert snapshots(world) == {second.snapshot: False}
    volumes.meanwhile = None
    act(world)


def test_other_commands_work_on_the_database_meanwhile(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    volumes.meanwhile = lambda: (
        world.service().resize("demo", 20 * GIB),
        world.service().stop("demo"),
    )
    take(world, shelf)
    view = world.service().show("demo")
    assert (view.status, view.record.spec.size_bytes) == ("stopped", 20 * GIB)
    assert world.journal.unfinished(LAB) == []


def test_another_backup_waits_its_turn(world: World, volumes: BusyVolumes, shelf: Path) -> None:
    codes: list[str] = []

    def back_up() -> None:
        with pytest.raises(RefusedError) as caught:
            DatabaseBackups(world.service().operations).create("demo", place(shelf))
        codes.append(caught.value.code)

    volumes.meanwhile = back_up
    manifest = take(world, shelf)
    assert codes == ["busy"]
    assert snapshots(world) == {manifest.snapshot: False}


def test_a_running_backup_is_not_taken_for_a_cut_off_one(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    told: list[list[str]] = []
    volumes.meanwhile = lambda: told.append(world.service().converge())
    take(world, shelf)
    assert told == [[]]


def test_snapshot_that_went_all_the_same_makes_no_backup(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    def take_away() -> None:
        for name in snapshots(world):
            volumes.ensure_snapshot_released("demo", name)  # as `rbd snap rm` would, by force

    volumes.meanwhile = take_away
    with pytest.raises(GrampusError) as caught:
        take(world, shelf)
    assert caught.value.code == "snapshot-gone"
    assert_nothing_is_left(world, shelf)


def test_base_that_somebody_protected_stays_protected(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    first = take(world, shelf)
    volumes.ensure_snapshot_protected("demo", first.snapshot, protected=True)
    second = take(world, shelf, "two")
    assert snapshots(world) == {first.snapshot: True, second.snapshot: False}


def test_target_that_is_full_leaves_nothing(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    # The limit stands for the full disk: the journal's own file is longer by then, so it is lifted
    # as soon as the data were refused.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    @contextmanager
    def exporting(name: str, snapshot: str, *, since: str | None = None) -> Iterator[ByteReader]:
        try:
            with FakeVolumes.exporting(volumes, name, snapshot, since=since) as source:
                resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
                yield source
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    volumes.exporting = exporting  # type: ignore[method-assign]
    try:
        with pytest.raises(TargetError) as caught:
            take(world, shelf)
    finally:
        signal.signal(signal.SIGXFSZ, former)
    assert caught.value.code == "target-full"
    assert_nothing_is_left(world, shelf)


def test_target_that_goes_in_the_middle_leaves_nothing(
    world: World, volumes: BusyVolumes, shelf: Path, tmp_path: Path
) -> None:
    volumes.meanwhile = lambda: shelf.rename(tmp_path / "unplugged")
    with pytest.raises(TargetError) as caught:
        take(world, shelf)
    assert caught.value.code in {"target-unusable", "target-gone"}
    assert snapshots(world) == {}
    assert not shelf.exists()
    (tmp_path / "unplugged").rename(shelf)
    left = KeptBackups(world.home, world.clock, place(shelf)).observe()
    assert left.backups == {}
    assert len(left.incomplete) == 1  # what could not be taken away is told


def test_another_file_system_in_the_middle_is_not_written_to(
    world: World, volumes: BusyVolumes, shelf: Path, tmp_path: Path
) -> None:
    def change() -> None:
        shelf.rename(tmp_path / "unplugged")
        (shelf / "demo").mkdir(parents=True)  # what is below the mount

    volumes.meanwhile = change
    with pytest.raises(TargetError):
        take(world, shelf)
    assert [path for path in shelf.rglob("*") if path.is_file()] == []


def test_interrupted_in_the_middle_leaves_nothing(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    def press_ctrl_c() -> None:
        raise KeyboardInterrupt

    volumes.meanwhile = press_ctrl_c
    with pytest.raises(KeyboardInterrupt):
        take(world, shelf)
    assert_nothing_is_left(world, shelf)


def test_database_is_deleted_after_a_backup_that_was_killed(
    world: World, volumes: BusyVolumes, shelf: Path
) -> None:
    def die() -> None:
        raise Killed

    volumes.meanwhile = die
    with pytest.raises(Killed):
        take(world, shelf)
    world.service().delete("demo")
    assert len(world.service().converge()) == 1
    assert world.journal.unfinished(LAB) == []
    left = KeptBackups(world.home, world.clock, place(shelf)).observe()
    assert (left.backups, left.incomplete) == ({}, ())


def assert_nothing_is_left(world: World, shelf: Path) -> None:
    left = KeptBackups(world.home, world.clock, place(shelf)).observe()
    assert (left.backups, left.incomplete) == ({}, ())
    assert snapshots(world) == {}
    assert world.journal.unfinished(LAB) == []
