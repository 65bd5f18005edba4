from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.backup.binlogs import (
    PIECE_BYTES,
    TAIL_BYTES,
    BinlogFile,
    Piece,
    Stretch,
    StretchFacts,
    decide_copies,
    decide_point,
    in_order,
    name_before,
    parse_binary_logs,
    parse_piece,
    require_contiguous,
    require_same_history,
    tail_of,
)
from grampus.databases.backup.decide_schedule import BinlogPlace
from grampus.databases.backup.model import BackupManifest

from .made import START, by_id, made_backup

UUID = "4f958cc3-e615-11f1-956b-223fda4be3b2"


def file(number: int, size_bytes: int) -> BinlogFile:
    return BinlogFile(f"binlog.{number:06d}", size_bytes)


def piece(number: int, start_bytes: int, end_bytes: int) -> Piece:
    return Piece(f"binlog.{number:06d}", start_bytes, end_bytes)


def test_name_comes_back_and_sorts_as_the_server_wrote() -> None:
    pieces = [piece(1, 0, 900), piece(1, 900, 1000), piece(2, 0, 10**12), piece(10, 0, 1)]
    names = [made.name for made in pieces]
    assert names == sorted(names)
    assert [parse_piece(name) for name in names] == pieces


def test_order_outlasts_the_digits_of_names() -> None:
    pieces = [piece(999_999, 0, 9), piece(1_000_000, 0, 4), piece(1_000_000, 4, 9)]
    assert in_order(sorted(pieces, key=lambda one: one.name)) == pieces


@pytest.mark.parametrize(
    ("last", "is_known"),
    [(piece(1, 0, 9), True), (piece(1, 9, 12), True), (piece(999_999, 0, 9), False)],
)
def test_names_from_a_piece_on_are_that_one_and_all_later_ones(
    last: Piece, *, is_known: bool
) -> None:
    before = name_before(last)
    assert (before is not None) is is_known
    if before is not None:
        earlier = [piece(1, 0, 9)] if last.start_bytes else []
        later = [last, piece(1, last.end_bytes, last.end_bytes + 1), piece(2, 0, 10**12)]
        assert all(one.name < before for one in earlier)
        assert all(one.name > before for one in later)


@pytest.mark.parametrize("name", ["stretch", "covered", "binlog.000001/x", "binlog.000001/a-b-c"])
def test_other_names_are_no_pieces(name: str) -> None:
    assert parse_piece(name) is None


def test_binary_logs_are_read_as_the_server_lists_them() -> None:
    rows = [("binlog.000001", "157", "No"), ("binlog.000002", "9", "No")]
    assert parse_binary_logs(rows) == [file(1, 157), file(2, 9)]


@pytest.mark.parametrize(
    ("archived", "files", "copies"),
    [
        ([], [file(1, 100)], [piece(1, 0, 100)]),
        ([], [file(3, 100), file(4, 5)], [piece(3, 0, 100), piece(4, 0, 5)]),
        ([piece(1, 0, 100)], [file(1, 100)], []),
        ([piece(1, 0, 100)], [file(1, 140)], [piece(1, 100, 140)]),
        (
            [piece(1, 0, 100)],
            [file(1, 140), file(2, 50), file(3, 7)],
            [piece(1, 100, 140), piece(2, 0, 50), piece(3, 0, 7)],
        ),
        # The server has let go what was archived already.
        ([piece(1, 0, 9), piece(2, 0, 9)], [file(2, 9), file(3, 4)], [piece(3, 0, 4)]),
        ([], [file(1, 0), file(2, 3)], [piece(2, 0, 3)]),
        (
            [],
            [file(1, 2 * PIECE_BYTES + 1)],
            [
                piece(1, 0, PIECE_BYTES),
                piece(1, PIECE_BYTES, 2 * PIECE_BYTES),
                piece(1, 2 * PIECE_BYTES, 2 * PIECE_BYTES + 1),
            ],
        ),
    ],
)
def test_what_is_new_is_copied(
    archived: list[Piece], files: list[BinlogFile], copies: list[Piece]
) -> None:
    assert decide_copies(archived[-1] if archived else None, files, "shop") == copies


@pytest.mark.parametrize(
    ("archived", "files", "what"),
    [
        ([piece(1, 0, 100)], [file(2, 100)], "no longer has binlog.000001"),
        ([piece(5, 0, 100)], [file(1, 900)], "no longer has binlog.000005"),
        ([piece(1, 0, 100)], [], "no longer has"),
        ([piece(1, 0, 100)], [file(1, 99)], "shorter"),
        ([piece(1, 0, 100)], [file(1, 100), file(3, 9)], "binlog.000003 after binlog.000001"),
        ([], [file(1, 100), file(3, 9)], "binlog.000003 after"),
    ],
)
def test_gap_is_an_error_and_never_skipped(
    archived: list[Piece], files: list[BinlogFile], what: str
) -> None:
    with pytest.raises(GrampusError, match=what) as caught:
        decide_copies(archived[-1] if archived else None, files, "shop")
    assert caught.value.code == "archive-gap"
    assert "--new-stretch" in caught.value.remedy


def test_history_that_was_rolled_back_is_a_gap() -> None:
    last = Piece("binlog.000001", 0, 3, tail_of(b"abc"))
    require_same_history(last, b"abc", "shop")
    with pytest.raises(GrampusError, match="differs from the archived one"):
        require_same_history(last, b"abd", "shop")


def test_tail_is_of_the_end_alone() -> None:
    end = b"e" * TAIL_BYTES
    assert tail_of(b"x" + end) == tail_of(b"y" + end)
    assert piece(1, 10, 20).tail_start_bytes == 10
    assert piece(1, 0, TAIL_BYTES + 5).tail_start_bytes == 5


@pytest.mark.parametrize(
    ("pieces", "first", "count"),
    [
        ([piece(1, 0, 9)], 1, 1),
        ([piece(1, 0, 9), piece(1, 9, 12), piece(2, 0, 4)], 1, 3),
        ([piece(1, 0, 9), piece(2, 0, 4), piece(3, 0, 4)], 2, 2),
        ([piece(9, 0, 9), piece(10, 0, 4)], 9, 2),
    ],
)
def test_contiguous_pieces_begin_with_the_file(pieces: list[Piece], first: int, count: int) -> None:
    assert require_contiguous(pieces, f"binlog.{first:06d}") == tuple(pieces[-count:])


@pytest.mark.parametrize(
    ("pieces", "first"),
    [
        ([], 1),
        ([piece(1, 0, 9)], 2),
        ([piece(2, 0, 9)], 1),
        ([piece(1, 5, 9)], 1),
        ([piece(1, 0, 9), piece(1, 10, 12)], 1),
        ([piece(1, 0, 9), piece(2, 3, 12)], 1),
        ([piece(1, 0, 9), piece(3, 0, 12)], 1),
        ([piece(1, 0, 9), piece(1, 0, 12)], 1),
    ],
)
def test_missing_piece_is_found(pieces: list[Piece], first: int) -> None:
    with pytest.raises(GrampusError) as caught:
        require_contiguous(pieces, f"binlog.{first:06d}")
    assert caught.value.code == "archive-gap"


def backup(number: int, binlog: int | None, uuid: str = UUID) -> BackupManifest:
    place = None if binlog is None else BinlogPlace(server_uuid=uuid, file=f"binlog.{binlog:06d}")
    return made_backup(number).model_copy(update={"binlog": place})


def stretch(hours: float | None, *pieces: Piece, uuid: str = UUID) -> Stretch:
    facts = StretchFacts(server_uuid=uuid, begun_at=START)
    until = None if hours is None else START + timedelta(hours=hours)
    return Stretch("0001", facts, until, pieces)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


def linked(_backup: BackupManifest, _stretch: Stretch) -> bool:
    return True


WHOLE = stretch(10, piece(1, 0, 9), piece(2, 0, 9), piece(3, 0, 9))


@pytest.mark.parametrize(
    ("hours", "expected"), [(1.5, 1), (2.5, 2), (10, 2), (1 + 1 / 3600, 1), (2, 1)]
)
def test_moment_is_reached_from_the_newest_backup_before_it(hours: float, expected: int) -> None:
    one, two = backup(1, 1), backup(2, 2)
    point = decide_point(by_id(one, two), [WHOLE], "shop", at(hours), linked)
    newest = {1: one, 2: two}[expected]
    assert point.chain == (newest,)
    assert newest.binlog is not None
    assert point.pieces[0].file == newest.binlog.file


@pytest.mark.parametrize("hours", [0.5, 1, 10.1])
def test_moment_that_cannot_be_reached_says_which_can(hours: float) -> None:
    with pytest.raises(RefusedError, match="02:00:01 UTC to 2026-11-22 11:00:00") as caught:
        decide_point(by_id(backup(1, 1)), [WHOLE], "shop", at(hours), linked)
    assert caught.value.code == "not-archived"


@pytest.mark.parametrize(
    ("made", "known"),
    [
        (backup(1, None), [WHOLE]),
        (backup(1, 1, uuid="another"), [WHOLE]),
        (backup(1, 1), []),
        (backup(1, 1), [stretch(None, piece(1, 0, 9))]),
        (backup(1, 1), [stretch(10, piece(2, 0, 9))]),
        (backup(1, 1), [stretch(10, piece(1, 0, 9), piece(3, 0, 9))]),
    ],
)
def test_no_moment_is_promised_over_a_gap(made: BackupManifest, known: list[Stretch]) -> None:
    with pytest.raises(RefusedError, match="db backup archive"):
        decide_point(by_id(made), known, "shop", at(1.5), linked)


def test_what_has_no_archive_is_not_told_to_archive() -> None:
    made = backup(1, None)
    mariadb = made.database.model_copy(update={"flavour": "mariadb"})
    with pytest.raises(RefusedError, match="logs of mariadb are not archived") as caught:
        decide_point(
            by_id(made.model_copy(update={"database": mariadb})), [], "shop", at(1.5), linked
        )
    assert caught.value.code == "not-archived"
    assert "archive`" not in caught.value.remedy


@pytest.mark.parametrize("start_bytes", [0, 4096])
def test_a_short_log_that_was_closed_since_is_the_same_one(start_bytes: int) -> None:
    in_use = bytes(21) + b"\x01" + bytes(100)
    closed = bytes(122)
    last = Piece("binlog.000002", start_bytes, start_bytes + 122, tail_of(in_use))
    require_same_history(last, in_use, "shop")
    if start_bytes == 0:
        require_same_history(last, closed, "shop")
    else:  # there it is no flag
        with pytest.raises(GrampusError):
            require_same_history(last, closed, "shop")
    with pytest.raises(GrampusError):
        require_same_history(last, closed[:-1] + b"x", "shop")
