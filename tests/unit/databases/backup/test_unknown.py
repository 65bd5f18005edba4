"""A place of backups that does not answer, or cannot be read, is not taken for an empty one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grampus.core.errors import RefusedError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.databases.backup.backup_schedules import remove_spent_logs
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.decide_unread import decide_needed_unread, require_not_needed_unread
from grampus.databases.backup.directory_target import DirectoryTarget
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.places import TargetPlace
from tests.fakes.s3 import FakeS3, serving
from tests.unit.databases.world import LAB, World

from .existing import place, put_database, write_rows
from .made import by_id, made_backup, made_chain
from .test_archiving import Server

DENIED = (403, "AccessDenied")


class MutedS3(FakeS3):
    """Refuses every reading once a manifest was written, or all reading of data."""

    refuses_after_manifest = True
    refuses_data = False

    def answer(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes,
        if_none_match: str | None,
        *,
        locks: bool = False,
    ) -> tuple[int, bytes, dict[str, str]]:
        if self.refuses_data and method == "GET" and path.endswith("image.sealed"):
            return self._error(*DENIED)
        answered = super().answer(method, path, query, body, if_none_match, locks=locks)
        if self.refuses_after_manifest and method == "PUT" and path.endswith("manifest.json"):
            self.refused["get"] = DENIED
        return answered


@pytest.fixture
def service() -> Iterator[MutedS3]:
    made = MutedS3()
    with serving(made):
        yield made


@pytest.fixture
def bucket(service: MutedS3, tmp_path: Path) -> TargetPlace:
    return service.place(tmp_path)


def kept(world: World, where: TargetPlace) -> KeptBackups:
    return KeptBackups(world.home, world.clock, where)


def take(world: World, where: TargetPlace, rows: str, keep: int | None = None) -> BackupManifest:
    world.clock.sleep(3600)
    write_rows(world, rows)
    backups = DatabaseBackups(world.service().operations)
    return backups.create("demo", where, keep=keep).manifest


def test_whole_backup_stays_when_the_service_does_not_say_that_it_is(
    world: World, service: MutedS3, bucket: TargetPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_database(world)
    monkeypatch.setenv(VARIABLE, "db.backup/data/after=error")
    with pytest.raises(FailpointError):
        take(world, bucket, "one")
    assert world.journal.unfinished(LAB) == []
    service.refused.clear()
    contents = kept(world, bucket).observe()
    assert (len(contents.backups), contents.incomplete) == (1, ())
    [verdict] = kept(world, bucket).verify()
    assert verdict.problem is None


def test_service_that_does_not_answer_is_no_verdict_on_a_backup(
    world: World, service: MutedS3, bucket: TargetPlace
) -> None:
    put_database(world)
    service.refuses_after_manifest = False
    take(world, bucket, "one")
    service.refuses_data = True
    [verdict] = kept(world, bucket).verify()
    assert (verdict.is_known, verdict.words.startswith("unknown: ")) == (False, True)


def test_directory_without_its_disk_is_not_taken_for_an_empty_place(
    world: World, shelf: Path, tmp_path: Path
) -> None:
    server = Server(world, shelf)
    server.write(1, b"one")
    server.back_up()
    server.archive()
    for with_directory in (False, True):
        shelf.rename(tmp_path / "unplugged")
        if with_directory:
            shelf.mkdir()
        acts: list[Callable[[], object]] = [server.back_up, server.archive]
        for act in acts:
            with pytest.raises(TargetError, match="is not the place of") as caught:
                act()
            assert caught.value.code == "target-gone"
        if with_directory:
            assert list(shelf.iterdir()) == []
            shelf.rmdir()
        (tmp_path / "unplugged").rename(shelf)
    server.archive()
    server.require_restorable()


def test_user_may_begin_again_in_a_place_that_was_emptied(
    world: World, shelf: Path, tmp_path: Path
) -> None:
    server = Server(world, shelf)
    server.write(1, b"one")
    server.back_up()
    server.archive()
    shelf.rename(tmp_path / "gone")
    server.tell()
    backups = DatabaseBackups(world.service().operations)
    backups.create("demo", place(shelf), wanted="full", begins_again=True)
    assert server.archive().problem is None
    server.require_restorable()


def test_directory_that_cannot_be_read_is_not_taken_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, scandir = DirectoryTarget(tmp_path), os.scandir
    target.put("shop/1/manifest.json", b"x")
    (tmp_path / "lost+found").mkdir()
    closed = [tmp_path / "lost+found"]

    def scan(path: Path) -> object:
        if path in closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)  # root, who runs the tests, may read everything
    assert target.names() == ["shop/1/manifest.json"]
    closed.append(tmp_path / "shop/1")
    for below in ("", "shop", "shop/1"):
        with pytest.raises(TargetError):
            target.names(below)


def test_what_an_unreadable_backup_may_stand_on_is_needed() -> None:
    former, later = made_chain(3), made_chain(2, first=10)
    backups = by_id(*former, *later, made_backup(1, database="other"))
    between = "shop/20261122t060000z"
    assert decide_needed_unread(backups, [between]) == {one.id for one in former}
    assert decide_needed_unread(backups, ["shop/20261121t060000z"]) == set()
    for one in former:
        with pytest.raises(RefusedError, match="may depend on") as caught:
            require_not_needed_unread(backups, [between], one.id)
        assert caught.value.code == "has-increments"
    for one in later:
        require_not_needed_unread(backups, [between], one.id)


def test_nothing_is_let_go_that_an_unreadable_backup_may_need(world: World, shelf: Path) -> None:
    put_database(world)
    first = take(world, place(shelf), "one")
    second = take(world, place(shelf), "two")
    assert second.base is not None
    manifest = shelf / second.id / "manifest.json"
    written = manifest.read_bytes()
    manifest.write_bytes(b"{}")
    third = take(world, place(shelf), "three", keep=1)
    assert third.kind == "full"
    with pytest.raises(RefusedError):
        kept(world, place(shelf)).delete(first.id)
    manifest.write_bytes(written)
    assert sorted(kept(world, place(shelf)).observe().backups) == [first.id, second.id, third.id]


def test_logs_stay_while_a_backup_cannot_be_read(world: World, shelf: Path) -> None:
    server = Server(world, shelf)
    server.write(1, b"one")
    server.back_up()
    server.write(2, b"two")
    server.archive()
    server.back_up()
    server.write(3, b"three")
    server.archive()
    oldest = server.backups()[0]
    there = kept(world, place(shelf))
    (shelf / oldest / "manifest.json").write_bytes(b"{}")
    record = world.service().operations.records.get("demo")
    assert remove_spent_logs(there, server.open(), record) == []
    assert len(server.archived()) == 3
