"""Whether archived logs go on where a backup was taken (INV-63): a table, and at the ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grampus.core.errors import RefusedError
from grampus.databases.backup.binlog_links import LogHead, leads_on, read_head
from grampus.databases.backup.decide_schedule import BinlogPlace

from .made_binlogs import SERVER, begin, transaction
from .replay_world import ReplayWorld

TAKEN = datetime(2026, 11, 27, 4, 0, 0, tzinfo=UTC)
FILE = "binlog.000003"


def head(previous: int, first: int | None = None, after_s: float = 0.0, made_s: int = 1) -> LogHead:
    log = begin({SERVER: (1, previous)} if previous else {}, at_s=made_s)
    if first is not None:
        log += transaction(first, TAKEN + timedelta(seconds=after_s))
    found = read_head(FILE, [log], to_first=True)
    assert found is not None
    return found


def place(digest: str | None) -> BinlogPlace:
    return BinlogPlace(server_uuid=SERVER, file=FILE, head=digest)


def test_log_is_known_by_what_it_begins_with() -> None:
    noted = place(head(9).digest)
    assert leads_on(noted, None, TAKEN, head(9, 10, 7.0))
    assert not leads_on(noted, None, TAKEN, head(9, 10, 7.0, made_s=2))
    assert not leads_on(noted, None, TAKEN, head(8))
    assert not leads_on(noted, None, TAKEN, None)


def test_bit_that_says_that_a_log_is_open_does_not_count() -> None:
    closed = begin()
    is_open = closed[:21] + bytes([closed[21] | 1]) + closed[22:]
    heads = [read_head(FILE, [log]) for log in (closed, is_open)]
    assert heads[0] == heads[1] is not None


OLD = [
    ("goes on", "1-12", head(9, 10, -60.0), True),
    ("nothing of it was executed yet", "1-9", head(9, 10, 60.0), True),
    ("has no transaction yet", "1-9", head(9), True),
    ("lacks what was before it", "1-8", head(9, 10, 60.0), False),
    ("reset: the same numbers, committed later", "1-12", head(0, 1, 3600.0), False),
    ("reset: fewer so far", "1-12", head(0), False),
    ("reset: more before it", "1-12", head(40, 41, 3600.0), False),
    ("a number in between was never logged", "1-12", head(8, 13, 60.0), False),
]


@pytest.mark.parametrize(
    ("executed", "found", "expected"), [case[1:] for case in OLD], ids=[case[0] for case in OLD]
)
def test_backup_of_an_earlier_release_is_linked_by_its_transactions(
    executed: str, found: LogHead, *, expected: bool
) -> None:
    assert leads_on(place(None), f"{SERVER}:{executed}", TAKEN, found) is expected


def test_backup_without_transactions_is_linked_to_nothing() -> None:
    assert not leads_on(place(None), None, TAKEN, head(9))


@pytest.mark.parametrize("cut", [1, 3, 40, 60])
def test_half_a_head_is_none(cut: int) -> None:
    assert read_head(FILE, [begin()[:cut]]) is None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplayWorld]:
    with closing(ReplayWorld(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("archived_before", [True, False])
def test_no_restore_crosses_a_reset(world: ReplayWorld, *, archived_before: bool) -> None:
    world.begin()
    world.clock.sleep(60)
    world.commit("two")
    if archived_before:
        world.archive()
    world.clock.sleep(60)
    world.reset()
    for row in ("three", "four", "five", "six"):
        world.clock.sleep(60)
        world.commit(row)
    world.clock.sleep(60)
    for _ in range(2):
        world.archive()
    with pytest.raises(RefusedError) as caught:
        world.restore(world.clock.now())
    assert caught.value.code == "not-archived"
    world.back_up()
    world.clock.sleep(60)
    world.commit("seven")
    world.clock.sleep(60)
    world.archive()
    world.restore(world.clock.now())
    assert world.rows() == ["one", "seven"]  # the fake's rows, but for those that logs bring
