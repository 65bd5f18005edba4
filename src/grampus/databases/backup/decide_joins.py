"""Which pieces of archived binary logs become one, and which are spent by that (pure).

A look every two seconds makes 43,200 pieces a day. A bigger piece is written first; it counts for
those within it from then on, and they are deleted a while later. So at every point between, what
is listed leads from the first byte to the last, for whoever lists before, after or meanwhile.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from grampus.databases.backup.binlogs import PIECE_BYTES, Piece, in_order

# Of the log that is being written, so many at least: each time costs a reading and a writing.
JOINED_AT_LEAST = 32
JOINED_AT_MOST = 1000  # read one after another, for nothing if that is cut off


def without_parts(pieces: Iterable[Piece]) -> list[Piece]:
    """In order, without those that lie within a bigger one."""
    return in_order(_with_parts(pieces))


def decide_spent(pieces: Iterable[Piece]) -> dict[Piece, tuple[Piece, ...]]:
    """What lies within each piece that was made of others, in order."""
    return {whole: tuple(parts) for whole, parts in _with_parts(pieces).items() if parts}


def _with_parts(pieces: Iterable[Piece]) -> dict[Piece, list[Piece]]:
    found: dict[Piece, list[Piece]] = {}
    whole: Piece | None = None
    # Of those that begin at the same byte, the biggest comes first.
    for piece in sorted(pieces, key=lambda one: (one.file, one.start_bytes, -one.end_bytes)):
        if whole is not None and _is_part(piece, whole):
            found[whole].append(piece)
        else:
            whole = piece
            found[whole] = []
    return found


def _is_part(piece: Piece, whole: Piece) -> bool:
    """It begins within `whole`, as the order has it."""
    is_within = piece.file == whole.file and piece.end_bytes <= whole.end_bytes
    return is_within and piece.size_bytes < whole.size_bytes


def leads_through(whole: Piece, parts: Sequence[Piece]) -> bool:
    """Whether the parts hold all that the whole one does."""
    at = whole.start_bytes
    for part in parts:
        if part.start_bytes > at:
            return False
        at = max(at, part.end_bytes)
    return at >= whole.end_bytes


def decide_joins(pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """The pieces of one stretch that are to become one each, of at most PIECE_BYTES.

    `pieces` are in order, none of them within another. The newest stays as it is, whatever comes:
    where the archive ends is known by it.
    """
    files = [list(found) for _, found in itertools.groupby(pieces, key=lambda piece: piece.file)]
    if not files:
        return []
    runs = [run for complete in files[:-1] for run in _packed(complete)]
    newest = _newest_run(files[-1][:-1])
    return [*runs, newest] if len(newest) >= JOINED_AT_LEAST else runs


def _packed(pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """A log that is complete, in few; what was packed so is left alone afterwards."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and _fits(runs[-1][0], runs[-1][-1], piece) and len(runs[-1]) < JOINED_AT_MOST:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return [tuple(run) for run in runs if len(run) > 1]


def _newest_run(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The longest run to the end in which no piece is bigger than all others together.

    So a byte is only ever written again into a piece of at least twice the size: at most as often
    as the first size doubles up to PIECE_BYTES, however slowly the log grows.
    """
    begin, biggest_bytes = len(pieces), 0
    for at in range(len(pieces) - 1, max(-1, len(pieces) - 1 - JOINED_AT_MOST), -1):
        piece, last = pieces[at], pieces[-1]
        if piece is not last and piece.end_bytes != pieces[at + 1].start_bytes:
            break
        total_bytes = last.end_bytes - piece.start_bytes
        if total_bytes > PIECE_BYTES:
            break
        biggest_bytes = max(biggest_bytes, piece.size_bytes)
        if 2 * biggest_bytes <= total_bytes:
            begin = at
    return tuple(pieces[begin:])


def _fits(first: Piece, last: Piece, following: Piece) -> bool:
    follows = following.start_bytes == last.end_bytes
    return follows and following.end_bytes - first.start_bytes <= PIECE_BYTES
