from __future__ import annotations

import random

import pytest

from grampus.databases.backup.binlogs import PIECE_BYTES, Piece, in_order, require_contiguous
from grampus.databases.backup.decide_joins import (
    JOINED_AT_LEAST,
    JOINED_AT_MOST,
    decide_joins,
    decide_spent,
    leads_through,
    without_parts,
)


def piece(number: int, start_bytes: int, end_bytes: int) -> Piece:
    return Piece(f"binlog.{number:06d}", start_bytes, end_bytes)


def row(number: int, *sizes: int) -> list[Piece]:
    """Pieces of one log, of those sizes."""
    at, made = 0, []
    for size_bytes in sizes:
        made.append(piece(number, at, at + size_bytes))
        at += size_bytes
    return made


def whole(parts: tuple[Piece, ...]) -> Piece:
    return Piece(parts[0].file, parts[0].start_bytes, parts[-1].end_bytes)


@pytest.mark.parametrize(
    ("pieces", "found", "spent"),
    [
        (row(1, 5, 5), row(1, 5, 5), {}),
        ([piece(1, 0, 10), *row(1, 5, 5)], [piece(1, 0, 10)], {piece(1, 0, 10): row(1, 5, 5)}),
        (  # as after a deletion that was cut off
            [piece(1, 0, 10), piece(1, 5, 10), piece(1, 10, 12)],
            [piece(1, 0, 10), piece(1, 10, 12)],
            {piece(1, 0, 10): [piece(1, 5, 10)]},
        ),
        (row(1, 5) + row(2, 5), row(1, 5) + row(2, 5), {}),
        # These do not come of joining, and nothing of them is spent.
        ([piece(1, 0, 6), piece(1, 4, 9)], [piece(1, 0, 6), piece(1, 4, 9)], {}),
    ],
)
def test_what_lies_within_a_bigger_piece_is_spent(
    pieces: list[Piece], found: list[Piece], spent: dict[Piece, list[Piece]]
) -> None:
    assert without_parts(pieces[::-1]) == found
    assert decide_spent(pieces[::-1]) == {one: tuple(parts) for one, parts in spent.items()}


@pytest.mark.parametrize(
    ("parts", "is_all"),
    [(row(1, 4, 6), True), (row(1, 4), False), ([piece(1, 4, 10)], False), ([], False)],
)
def test_parts_hold_all_of_it_or_not(parts: list[Piece], *, is_all: bool) -> None:
    assert leads_through(piece(1, 0, 10), parts) is is_all


SMALL = [3] * JOINED_AT_LEAST
HALF = PIECE_BYTES // 2


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        ([], []),
        (row(1, *SMALL), []),  # the newest stays out
        (row(1, *SMALL, 9), [row(1, *SMALL)]),
        (row(1, *SMALL, *SMALL, 9), [row(1, *SMALL, *SMALL)]),
        (row(1, 99 * 99, *SMALL, 9), [row(1, 99 * 99, *SMALL)[1:]]),  # too big to be written again
        (row(1, 90, *SMALL, 9), [row(1, 90, *SMALL)]),
        (row(1, *SMALL, 99 * 99, 3, 3, 9), []),
        # A log that is complete, in as few as possible.
        (row(1, 3, 4) + row(2, 5), [row(1, 3, 4)]),
        (row(1, 7) + row(2, 5), []),
        (row(1, HALF, HALF, 1) + row(2, 5), [row(1, HALF, HALF)]),
        (row(1, HALF + 1, HALF, 1) + row(2, 5), [row(1, HALF + 1, HALF, 1)[1:]]),
        (row(1, PIECE_BYTES, PIECE_BYTES) + row(2, 5), []),
        # What a lost piece has cut in two is not made to look whole.
        ([piece(1, 0, 4), piece(1, 4, 5), piece(1, 6, 7), *row(2, 5)], [row(1, 4, 1)]),
    ],
)
def test_pieces_become_one(pieces: list[Piece], joined: list[list[Piece]]) -> None:
    assert decide_joins(pieces) == [tuple(parts) for parts in joined]


def test_so_many_at_most() -> None:
    (first, second) = decide_joins(row(1, *[1] * (JOINED_AT_MOST + 2)) + row(2, 5))
    assert (len(first), len(second)) == (JOINED_AT_MOST, 2)


@pytest.mark.parametrize("seed", range(6))
def test_few_pieces_stay_and_none_is_written_often(seed: int) -> None:
    """Half a day of looks in which a log grows slowly, or in bursts; and then it is complete."""
    choose = random.Random(seed)  # noqa: S311 - a test's choice
    sizes = [choose.choice([200, 200, 3000, 40_000 * (seed % 3)]) or 200 for _ in range(20_000)]
    kept: list[Piece] = []
    written_bytes = at = most = 0
    for count, size_bytes in enumerate(sizes):
        kept.append(piece(1, at, at + size_bytes))
        at += size_bytes
        if count % 300 == 0:
            for parts in decide_joins(kept):
                written_bytes += whole(parts).size_bytes
                kept = without_parts([*kept, whole(parts)])
                require_contiguous(kept, kept[0].file)
            most = max(most, len(kept))
    assert most < 300 + JOINED_AT_LEAST + 12 + at // PIECE_BYTES * 2
    assert written_bytes < 12 * at
    kept += row(2, 5)
    while joins := decide_joins(kept):
        kept = without_parts([*kept, *map(whole, joins)])
    require_contiguous(kept, kept[0].file)
    assert len(kept) <= 2 * at // PIECE_BYTES + 3
    assert in_order(kept) == kept
