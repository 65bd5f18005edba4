"""How much more a pool takes, from what Ceph 20.2 answers."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.ceph.fullness import parse_pool_room
from grampus.core.errors import GrampusError
from grampus.core.units import GIB

USAGE = {
    "stats": {"total_bytes": 60 * GIB},
    "pools": [{"name": "databases", "stats": {"max_avail": 15 * GIB}}],
}
OSD_MAP = {
    "full_ratio": 0.95,
    "nearfull_ratio": 0.85,
    "pools": [{"pool_name": "databases", "size": 3}],
}


def check(message: str, *details: str) -> dict[str, Any]:
    return {
        "summary": {"message": message},
        "detail": [{"message": detail} for detail in details],
    }


def test_room_of_a_healthy_pool() -> None:
    room = parse_pool_room("databases", USAGE, OSD_MAP, {"checks": {}})
    assert room.available_bytes == 15 * GIB
    # A tenth of 60 GiB lies between the ratios: 2 GiB of what three copies are made of.
    assert room.until_nearly_full_bytes == pytest.approx(13 * GIB, abs=16)
    assert room.problem is None


def test_nothing_is_left_where_less_lies_before_full() -> None:
    usage = {**USAGE, "pools": [{"name": "databases", "stats": {"max_avail": GIB}}]}
    room = parse_pool_room("databases", usage, OSD_MAP, {"checks": {}})
    assert (room.available_bytes, room.until_nearly_full_bytes) == (GIB, 0)


@pytest.mark.parametrize(
    ("quota_bytes", "room"),
    [
        (4 * GIB, (GIB, GIB)),
        (2 * GIB, (0, 0)),
        (100 * GIB, (15 * GIB, 13 * GIB)),
        (17 * GIB + GIB // 2, (14 * GIB + GIB // 2, 13 * GIB)),
    ],
)
def test_a_quota_bounds_it_too(quota_bytes: int, room: tuple[int, int]) -> None:
    stats = {"max_avail": 15 * GIB, "stored": 3 * GIB, "quota_bytes": quota_bytes}
    usage = {**USAGE, "pools": [{"name": "databases", "stats": stats}]}
    found = parse_pool_room("databases", usage, OSD_MAP, {"checks": {}})
    assert found.available_bytes == room[0]
    assert found.until_nearly_full_bytes == pytest.approx(room[1], abs=16)


@pytest.mark.parametrize(
    ("checks", "problem"),
    [
        (
            {"OSD_NEARFULL": check("1 nearfull osd(s)", "osd.0 is near full")},
            "1 nearfull osd(s) (OSD_NEARFULL)",
        ),
        (
            {"POOL_FULL": check("1 pool(s) full", "pool 'databases' is full (no quota)")},
            "pool 'databases' is full (no quota) (POOL_FULL)",
        ),
        ({"POOL_FULL": check("1 pool(s) full", "pool 'others' is full (no quota)")}, None),
        ({"OSD_DOWN": check("1 osds down")}, None),
    ],
)
def test_what_is_full(checks: dict[str, Any], problem: str | None) -> None:
    assert parse_pool_room("databases", USAGE, OSD_MAP, {"checks": checks}).problem == problem


@pytest.mark.parametrize(
    ("checks", "overfull", "holds_writes"),
    [
        (
            {"POOL_FULL": check("1 pool(s) full", "pool 'databases' is full (no space)")},
            "pool 'databases' is full (no space) (POOL_FULL)",
            True,
        ),
        (
            {"POOL_BACKFILLFULL": check("1 pool(s)", "pool 'databases' is backfillfull")},
            "pool 'databases' is backfillfull (POOL_BACKFILLFULL)",
            False,
        ),
        ({"POOL_NEARFULL": check("1 pool(s)", "pool 'databases' is nearfull")}, None, False),
        # It may be an OSD that the pool has nothing on.
        ({"OSD_FULL": check("1 full osd(s)", "osd.0 is full")}, None, False),
    ],
)
def test_what_is_full_of_the_pool_alone(
    checks: dict[str, Any], overfull: str | None, *, holds_writes: bool
) -> None:
    room = parse_pool_room("databases", USAGE, OSD_MAP, {"checks": checks})
    assert (room.overfull, room.holds_writes) == (overfull, holds_writes)


def test_no_such_pool() -> None:
    with pytest.raises(GrampusError, match="no pool named 'other'"):
        parse_pool_room("other", USAGE, OSD_MAP, {})
