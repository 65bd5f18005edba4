"""Pieces of archived binary logs joined to bigger ones: the same bytes at every point between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import NotFoundError
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlogs import Coverage, Piece, StretchFacts, require_contiguous
from grampus.databases.backup.decide_joins import JOINED_AT_LEAST
from grampus.databases.backup.directory_target import DirectoryTarget
from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.joining import Joined, join_pieces
from grampus.databases.backup.keys import BackupKey, BackupKeys
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse, Killed, burn_points

LOG = "binlog.000001"


class FusedTarget(DirectoryTarget):
    """A directory whose user may be killed before and after each change."""

    def __init__(self, root: Path, fuse: Fuse) -> None:
        super().__init__(root)
        self._fuse = fuse

    def put(self, name: str, content: bytes) -> None:
        self._fuse.burn()
        super().put(name, content)
        self._fuse.burn()

    def discard(self, name: str) -> None:
        self._fuse.burn()
        super().discard(name)
        self._fuse.burn()


class Shelf:
    """An archive with two logs: one complete, of six pieces, and one that is being written."""

    def __init__(self, root: Path, key: BackupKey, *, is_filled: bool = False) -> None:
        self.root = root
        self.fuse = Fuse()
        target = FusedTarget(root, self.fuse)
        target.ensure_id()
        self.archive = BinlogArchive(target, key, "shop")
        self.logs: dict[str, bytes] = {}
        if not is_filled:
            self.fill()

    def copy(self, root: Path, key: BackupKey) -> Shelf:
        """The same elsewhere, so that it need not be made again."""
        shutil.copytree(self.root, root)
        shelf = Shelf(root, key, is_filled=True)
        shelf.logs = dict(self.logs)
        return shelf

    def fill(self) -> None:
        now = FakeClock().now()
        self.archive.begin(StretchFacts(server_uuid="a", begun_at=now), after=None)
        for number in range(6):
            self.add(1, f"<{number}>".encode())
        for number in range(JOINED_AT_LEAST + 4):
            self.add(2, f"[{number}]".encode())
        self.archive.cover("0001", Coverage(until=now))

    def add(self, number: int, content: bytes) -> None:
        name = f"binlog.{number:06d}"
        was = self.logs.get(name, b"")
        self.logs[name] = was + content
        self.archive.add("0001", Piece(name, len(was), len(was) + len(content)), content)

    def pieces(self) -> list[Piece]:
        (stretch,) = self.archive.stretches()
        return list(require_contiguous(stretch.pieces, LOG))

    def log(self, name: str) -> Iterator[bytes]:
        """As it is listed now, read when it is asked for."""
        return self.archive.read_log("0001", [one for one in self.pieces() if one.file == name])

    def require_same(self) -> None:
        assert {name: b"".join(self.log(name)) for name in self.logs} == self.logs

    def files(self) -> list[Path]:
        return sorted((self.root / "shop/binlogs/0001" / LOG).iterdir())


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> BackupKey:
    return BackupKeys(tmp_path_factory.mktemp("keys"), BackupKey).ensure_current()


@pytest.fixture
def shelf(tmp_path: Path, key: BackupKey) -> Shelf:
    return Shelf(tmp_path / "shelf", key)


def flip_last_bit(path: Path) -> None:
    """Damage: a byte of its own choosing may be what is there already, as ciphertext is random."""
    *kept, last = path.read_bytes()
    path.write_bytes(bytes([*kept, last ^ 1]))


def test_pieces_are_joined_first_and_dropped_by_the_next_call(shelf: Shelf) -> None:
    newest = shelf.pieces()[-1]
    assert join_pieces(shelf.archive) == Joined(made=2, dropped=0)
    shelf.require_same()
    assert len(shelf.files()) == 7
    spent = 6 + JOINED_AT_LEAST + 3  # all but the newest
    assert join_pieces(shelf.archive) == Joined(made=0, dropped=spent)
    shelf.require_same()
    assert len(shelf.files()) == 1
    assert (len(shelf.pieces()), shelf.pieces()[-1]) == (3, newest)
    assert join_pieces(shelf.archive) == Joined(0, 0)


def test_archive_goes_on_where_it_was_after_its_pieces_were_joined(shelf: Shelf) -> None:
    known = shelf.archive.end()
    assert known is not None
    for _ in range(2):
        join_pieces(shelf.archive)
        assert shelf.archive.end(known.remembered) == shelf.archive.end() == known


def test_cut_off_anywhere_the_same_bytes_are_read(tmp_path: Path, key: BackupKey) -> None:
    made = Shelf(tmp_path / "made", key)
    join_pieces(made.archive)
    made.add(2, b"[more]")
    made.add(3, b"!")
    for point in burn_points():
        shelf = made.copy(tmp_path / str(point), key)
        shelf.fuse.left = point
        try:
            join_pieces(shelf.archive)
        except Killed:
            shelf.fuse.left = None
            shelf.require_same()
            join_pieces(shelf.archive)
            join_pieces(shelf.archive)
            shelf.require_same()
            assert len(shelf.pieces()) == 3
            continue
        assert point > 2 * (6 + JOINED_AT_LEAST)
        return


@pytest.mark.parametrize("read", [0, 1, 3])
def test_reading_goes_on_while_pieces_are_joined(shelf: Shelf, read: int) -> None:
    """As a restore does, which has listed them before."""
    reading = shelf.log(LOG)
    found = [next(reading) for _ in range(read)]
    for _ in range(2):
        join_pieces(shelf.archive)
    found += reading
    assert b"".join(found) == shelf.logs[LOG]


def test_what_came_later_is_not_read_with_it(shelf: Shelf) -> None:
    pieces = [one for one in shelf.pieces() if one.file == LOG]
    reading = shelf.archive.read_log("0001", pieces[1:3])
    for _ in range(2):
        join_pieces(shelf.archive)
    assert b"".join(reading) == b"<1><2>"


def test_piece_that_is_gone_for_good_is_an_error(shelf: Shelf) -> None:
    reading = shelf.log(LOG)
    shelf.files()[2].unlink()
    with pytest.raises(NotFoundError):
        list(reading)


def test_damaged_piece_is_no_reason_to_drop_its_parts(shelf: Shelf) -> None:
    before = set(shelf.files())
    join_pieces(shelf.archive)
    (made,) = set(shelf.files()) - before
    flip_last_bit(made)
    with pytest.raises(BackupDamagedError):
        join_pieces(shelf.archive)
    assert set(shelf.files()) == before
    shelf.require_same()
    join_pieces(shelf.archive)
    join_pieces(shelf.archive)
    shelf.require_same()


def test_damaged_piece_stays_where_its_parts_hold_less(shelf: Shelf) -> None:
    before = set(shelf.files())
    join_pieces(shelf.archive)
    (made,) = set(shelf.files()) - before
    flip_last_bit(made)
    min(before).unlink()
    with pytest.raises(BackupDamagedError):
        join_pieces(shelf.archive)
    assert made.exists()
