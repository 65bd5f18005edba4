"""Which moment a volume shows: every state that never was is found."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence

import pytest

from tests.proof.ledger_cut import (
    BLOCK_BYTES,
    MAGIC,
    Event,
    Flushed,
    Issued,
    classify_cut,
    forget_flushes,
    parse_events,
    parse_run,
    parse_versions,
)

BASE = (1, 1, 1, 1)
# Writer 0 has the blocks 0 and 2, writer 1 has 1 and 3; in the order in which it happened.
EVENTS: tuple[Event, ...] = (
    Issued(0, 1, ((0, 2), (2, 3), (0, 4))),
    Issued(1, 1, ((1, 5),)),
    Flushed(0, 1),
    Flushed(1, 1),
    Issued(1, 2, ((3, 6), (1, 7))),
    Flushed(1, 2),
    Issued(0, 2, ((2, 8), (0, 9))),
)


@pytest.mark.parametrize(
    ("found", "lost", "unflushed"),
    [
        ((4, 7, 3, 6), 0, 0),  # exactly what was flushed
        ((4, 7, 8, 6), 0, 1),  # and the first write after it
        ((9, 7, 8, 6), 0, 2),  # and all
        ((4, 5, 3, 1), 1, 0),  # as it was before the last flush
        ((4, 5, 3, 6), 1, 0),  # half of the last flushed batch
        ((1, 1, 1, 1), 3, 0),
        ((2, 1, 3, 1), 2, 0),
    ],
)
def test_a_moment_of_the_past_is_told_with_what_is_lost_of_it(
    found: Sequence[int], lost: int, unflushed: int
) -> None:
    cut = classify_cut(BASE, EVENTS, found)
    if (lost, found) == (2, (2, 1, 3, 1)):
        # The first batch is there but for its last write: it is lost like the others.
        assert [one.writes for one in cut.lost] == [1, 1, 2]
        return
    assert (cut.faults, len(cut.lost), cut.unflushed_kept) == ((), lost, unflushed)
    assert (cut.flushes, cut.flushed_writes) == (3, 6)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((9, 7, 3, 6), "block 2 holds version 3"),  # a later write of the same writer is there
        ((4, 7, 1, 6), "block 2 holds version 1"),
        ((2, 7, 3, 6), "flushed before batch 2 of writer 1"),  # the order between writers
        ((4, 5, 8, 6), "flushed before batch 2 of writer 0"),
        ((4, 7, None, 6), "block 2 is torn"),
        ((4, 7, 99, 6), "block 2 holds version 99"),  # was never written
        ((4, 7, 3), "3 blocks instead of 4"),
    ],
)
def test_a_state_that_never_was_is_a_fault(found: Sequence[int | None], says: str) -> None:
    cut = classify_cut(BASE, EVENTS, found)
    assert any(says in fault for fault in cut.faults), cut.faults


def test_what_was_written_before_the_last_look_may_not_come_back() -> None:
    base = (4, 7, 3, 6)
    assert classify_cut(base, (), base).faults == ()
    assert classify_cut(base, (), (9, 7, 3, 6)).fault_count == 1  # had been lost in a crash


def test_random_histories_are_moments_and_their_mixtures_are_not() -> None:
    draws = random.Random(5)  # noqa: S311
    for _ in range(200):
        events, states = _history(draws)
        moment = draws.choice(states)
        assert classify_cut([1] * 8, events, moment).faults == ()
    # One block of a much older moment than the rest: it is found unless nothing tells them apart.
    seen = 0
    for _ in range(200):
        events, states = _history(draws)
        mixed = list(states[-1])
        block = draws.randrange(8)
        mixed[block] = states[0][block]
        last_of_writer = max(states[-1][block % 2 :: 2]) == states[-1][block]
        if mixed != states[-1] and not last_of_writer:
            seen += 1
            assert classify_cut([1] * 8, events, mixed).fault_count >= 1
    assert seen > 50


def _history(draws: random.Random) -> tuple[list[Event], list[list[int]]]:
    """Batches of two writers one after the other, and the volume after each write."""
    state, states = [1] * 8, [[1] * 8]
    events: list[Event] = []
    version = 1
    for batch in range(1, 12):
        writer = draws.randrange(2)
        writes = []
        for _ in range(draws.randint(1, 5)):
            version += 1
            writes.append((writer + 2 * draws.randrange(4), version))
        events.append(Issued(writer, batch, tuple(writes)))
        for block, number in writes:
            state = [*state[:block], number, *state[block + 1 :]]
            states.append(state)
        events.append(Flushed(writer, batch))
    return events, states


def _line(kind: str, **values: object) -> str:
    return json.dumps({"kind": kind, **values}) + "\n"


LEDGER = (
    _line("begun", format=1, run=77, offset_bytes=0, blocks=4)
    + _line("prepared")
    + _line("issued", writer=0, batch=1, writes=[[0, 2], [2, 3]])
    + _line("flushed", writer=0, batch=1)
    + _line("issued", writer=1, batch=1, writes=[[1, 4]])
    + _line("flushed", writer=1, batch=1)
    + '{"kind":"issued","wri\n\n'
    + _line("settled", found=[[0, 2]])
)


def test_a_ledger_is_read_and_a_cut_line_is_left_out() -> None:
    assert parse_run(LEDGER) == 77
    assert parse_events(LEDGER) == [
        Issued(0, 1, ((0, 2), (2, 3))),
        Flushed(0, 1),
        Issued(1, 1, ((1, 4),)),
        Flushed(1, 1),
    ]
    with pytest.raises(ValueError, match="does not begin"):
        parse_run("\n")


def test_lost_flushes_are_forgotten_and_nothing_else() -> None:
    cut = classify_cut(BASE, parse_events(LEDGER), (2, 1, 3, 1))
    forgotten = forget_flushes(LEDGER, cut.lost)
    assert LEDGER.replace(_line("flushed", writer=1, batch=1), "") == forgotten
    assert forget_flushes(LEDGER, ()) == LEDGER


def _block(number: int, version: int, *, run: int = 77, torn: int | None = None) -> bytes:
    sectors = []
    for sector in range(8):
        of = version + (torn is not None and sector >= torn)
        sectors.append(struct.pack("<QQQQ", MAGIC, run, number, of).ljust(512, b"\x5a"))
    return b"".join(sectors)


def test_blocks_say_their_version_and_others_say_none() -> None:
    content = (
        _block(0, 9)
        + _block(1, 9, torn=5)
        + _block(7, 9)  # another block's
        + _block(3, 9, run=78)
        + bytes(BLOCK_BYTES)
        + _block(5, 12)
    )
    assert parse_versions(content, 77) == [9, None, None, None, None, 12]
