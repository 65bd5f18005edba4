"""When a volume grows and by how much, and when its database is closed to writers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grampus.ceph.fullness import PoolRoom
from grampus.core.units import GIB, MIB
from grampus.databases.growth.decide_growth import (
    FileSystem,
    Growth,
    Look,
    decide_growth,
    decide_guarding,
    decide_release_bytes,
    decide_reserve_bytes,
)
from grampus.databases.growth.decide_reserve import decide_reserve
from grampus.databases.growth.growth_rule import GrowthRule, GuardState
from grampus.databases.settings import decide_server_settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESERVE = decide_reserve(decide_server_settings("mysql", 10 * GIB, 512 * MIB, 1.0))
ROOM = PoolRoom("databases", available_bytes=100 * GIB, until_nearly_full_bytes=90 * GIB)
BY_PERCENT = GrowthRule(when_percent=80, step_percent=25, up_to_bytes=40 * GIB)
BY_BYTES = GrowthRule(when_percent=90, step_bytes=2 * GIB, up_to_bytes=13 * GIB)
RESERVE_BYTES = 64 * MIB + 80 * MIB  # one extension of a tablespace, one binary log of 10 GiB / 128
CLOSED = GuardState(state="closed", since=NOW, reason="full", release_bytes=200 * MIB)


def look(free_bytes: int, **changes: object) -> Look:
    seen = Look(
        database="shop",
        now=NOW,
        file_system=FileSystem(10 * GIB, free_bytes),
        volume_bytes=10 * GIB,
        written_bytes_per_s=0.0,
        reserve=RESERVE,
        rule=BY_PERCENT,
        guard=None,
        room=ROOM,
    )
    return replace(seen, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "to_bytes"),
    [
        (look(2 * GIB + MIB), None),
        (look(2 * GIB), 12 * GIB + 512 * MIB),
        # One step is not enough: taken until it is below 80 % again, by the size of the time.
        (look(0), 10 * GIB * 5**2 // 4**2),
        (look(0, rule=BY_PERCENT.model_copy(update={"when_percent": 50})), 10 * GIB * 5**4 // 4**4),
        (look(GIB, rule=BY_BYTES), 12 * GIB),
        # The ceiling cuts the step short.
        (
            look(0, rule=BY_BYTES, volume_bytes=12 * GIB, file_system=FileSystem(12 * GIB, 0)),
            13 * GIB,
        ),
        # So does the pool.
        (
            look(GIB, room=replace(ROOM, until_nearly_full_bytes=100 * MIB + 1)),
            10 * GIB + 100 * MIB,
        ),
        (look(0, rule=None), None),
        (look(0, room=None), None),
    ],
)
def test_how_far_it_grows(seen: Look, to_bytes: int | None) -> None:
    wanted = decide_growth(seen)
    if to_bytes is not None:
        to_bytes -= to_bytes % MIB
    assert wanted == Growth(to_bytes=to_bytes)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (look(GIB, volume_bytes=40 * GIB), "it has reached the limit of its rule, 40 GiB"),
        (look(GIB, room=replace(ROOM, problem="1 full osd(s) (OSD_FULL)")), "1 full osd(s)"),
        (look(GIB, room=replace(ROOM, until_nearly_full_bytes=15 * MIB)), "has only 15 MiB left"),
        (look(GIB, room=replace(ROOM, until_nearly_full_bytes=0)), "has only 0 B left"),
    ],
)
def test_why_it_cannot_grow(seen: Look, why: str) -> None:
    wanted = decide_growth(seen)
    assert wanted.to_bytes is None
    assert wanted.refusal is not None
    assert why in wanted.refusal
    assert wanted.refusal.startswith("The volume of shop is 90% full and cannot grow: ")


@given(
    size_mib=st.integers(512, 10**6),
    free_ratio=st.floats(0, 1),
    when=st.integers(10, 95),
    percent=st.integers(1, 100),
    ceiling=st.floats(1, 50),
    room_mib=st.integers(0, 10**6),
)
def test_growth_is_within_every_bound(
    size_mib: int, free_ratio: float, when: int, percent: int, ceiling: float, room_mib: int
) -> None:
    size_bytes, room_bytes = size_mib * MIB, room_mib * MIB
    rule = GrowthRule(
        when_percent=when, step_percent=percent, up_to_bytes=int(size_bytes * ceiling)
    )
    file_system = FileSystem(size_bytes, int(size_bytes * free_ratio))
    room = replace(ROOM, until_nearly_full_bytes=room_bytes)
    wanted = decide_growth(
        look(0, rule=rule, file_system=file_system, volume_bytes=size_bytes, room=room)
    )
    assert wanted.to_bytes is None or wanted.refusal is None
    if wanted.to_bytes is not None:
        assert size_bytes < wanted.to_bytes <= min(rule.up_to_bytes, size_bytes + room_bytes)
        assert wanted.to_bytes % MIB == 0


@pytest.mark.parametrize(
    ("written_bytes_per_s", "is_released", "reserve_bytes"),
    [
        (0, False, RESERVE_BYTES),
        (20 * MIB, False, RESERVE_BYTES + 200 * MIB),
        (0, True, RESERVE_BYTES // 4),
        (20 * MIB, True, RESERVE_BYTES // 4 + 200 * MIB),
        (10 * GIB, False, 10 * GIB // 4),  # a quarter of the file system at most
        (-5, False, RESERVE_BYTES),
    ],
)
def test_reserve(written_bytes_per_s: float, is_released: bool, reserve_bytes: int) -> None:
    file_system = FileSystem(10 * GIB, GIB)
    assert reserve_bytes == decide_reserve_bytes(
        RESERVE, file_system, written_bytes_per_s, is_released=is_released
    )


def test_closed_below_the_reserve_alone() -> None:
    assert decide_guarding(look(RESERVE_BYTES)).change is None
    closed = decide_guarding(look(RESERVE_BYTES - 1)).change
    assert closed is not None
    assert closed.state == "closed"
    assert closed.reason == "its volume has 144.0 MiB left"
    assert closed.release_bytes == decide_release_bytes(RESERVE, RESERVE_BYTES) > RESERVE_BYTES


def test_closed_when_the_pool_is_about_to_hold_up_writes() -> None:
    nearly = replace(ROOM, available_bytes=RESERVE_BYTES - MIB)
    closed = decide_guarding(look(5 * GIB, room=nearly)).change
    assert closed is not None
    assert closed.reason == "the pool 'databases' has 143 MiB left"


@pytest.mark.parametrize(("free_bytes", "opens"), [(200 * MIB, True), (200 * MIB - 1, False)])
def test_opened_again_with_room_enough_alone(free_bytes: int, opens: bool) -> None:
    decided = decide_guarding(look(free_bytes, guard=CLOSED))
    assert (decided.opens, decided.change) == (opens, None)


@given(free_bytes=st.integers(0, 10 * GIB), rate=st.floats(0, GIB))
def test_what_was_just_opened_is_not_closed_again_at_once(free_bytes: int, rate: float) -> None:
    closed = decide_guarding(look(free_bytes, written_bytes_per_s=rate)).change
    if closed is None:
        return
    opened_at = look(closed.release_bytes, guard=closed)
    assert decide_guarding(opened_at).opens
    assert decide_guarding(replace(opened_at, guard=None)).change is None
    assert closed.release_bytes > free_bytes


@pytest.mark.parametrize(
    ("passed_s", "free_bytes", "opens", "closes"),
    [
        (60, 100 * MIB, False, False),  # it may use most of the reserve
        (60, 10 * MIB, False, True),
        (900, 100 * MIB, False, True),  # its time is over
        (900, 150 * MIB, True, False),  # more than the reserve is left
        (60, 150 * MIB, False, False),
        (60, 200 * MIB, True, False),  # so much room that nothing need be watched
    ],
)
def test_released_for_a_while(passed_s: float, free_bytes: int, opens: bool, closes: bool) -> None:
    released = CLOSED.model_copy(update={"state": "released", "until": NOW + timedelta(minutes=15)})
    now = NOW + timedelta(seconds=passed_s)
    decided = decide_guarding(look(free_bytes, guard=released, now=now))
    assert (decided.opens, decided.change is not None) == (opens, closes)
