"""Where a benchmark's pools are on somebody's cluster, and how much they may hold."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.own.placement import (
    Placement,
    Room,
    decide_groups,
    decide_placement,
    decide_quota_bytes,
    parse_room,
    require_room,
)
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB
from tests.unit.bench.own.somebodys_cluster import RULES, crush_rule, osd_tree


@pytest.mark.parametrize(
    ("asked", "tree", "expected"),
    [
        (None, osd_tree(4), Placement("replicated_rule", "host", 4, 4, None)),
        ("on-ssd", osd_tree(3), Placement("on-ssd", "osd", 3, 3, "ssd")),
        # A host whose only OSD is down takes no copy.
        (None, osd_tree(4, down=[1]), Placement("replicated_rule", "host", 3, 3, None)),
        (None, {"nodes": [], "stray": []}, Placement("replicated_rule", "host", 0, 0, None)),
    ],
)
def test_the_rule_and_what_it_takes(
    asked: str | None, tree: dict[str, Any], expected: Placement
) -> None:
    assert decide_placement(RULES, tree, asked=asked) == expected


def test_another_device_class_takes_none_of_these_osds() -> None:
    rules = [crush_rule(0, "slow", "default~hdd", "host")]
    assert decide_placement(rules, osd_tree(3), asked=None) == Placement(
        "slow", "host", 0, 0, "hdd"
    )


@pytest.mark.parametrize("asked", ["coded", "fast"])
def test_a_rule_must_be_there_and_be_one_for_copies(asked: str) -> None:
    with pytest.raises(NotFoundError):
        decide_placement(RULES, osd_tree(3), asked=asked)


def test_a_cluster_without_a_rule_for_copies_is_told_how_to_make_one() -> None:
    with pytest.raises(GrampusError, match="no CRUSH rule"):
        decide_placement([RULES[0]], osd_tree(3), asked=None)


@pytest.mark.parametrize(
    ("osds", "copies", "groups"), [(1, 3, 8), (3, 3, 32), (3, 2, 32), (12, 3, 128), (500, 3, 256)]
)
def test_placement_groups_are_a_power_of_two(osds: int, copies: int, groups: int) -> None:
    assert decide_groups(Placement("r", "host", 3, osds, None), copies) == groups


def test_the_room_is_that_of_the_device_class() -> None:
    df = {
        "stats": {"total_bytes": 100, "total_avail_bytes": 50},
        "stats_by_class": {"ssd": {"total_bytes": 40, "total_avail_bytes": 30}},
    }
    assert parse_room(df, None) == Room(100, 50)
    assert parse_room(df, "ssd") == Room(40, 30)
    assert parse_room(df, "nvme").used_share == 1.0


def test_a_pool_takes_a_fifth_of_what_is_left() -> None:
    assert decide_quota_bytes(Room(100 * GIB, 60 * GIB), 3) == 4 * GIB
    with pytest.raises(RefusedError, match="71% full") as caught:
        decide_quota_bytes(Room(100 * GIB, 29 * GIB), 3)
    assert caught.value.code == "cluster-full"


def test_environments_leave_half_of_it_to_the_load() -> None:
    require_room(GIB, 2 * GIB)
    with pytest.raises(RefusedError):
        require_room(GIB + 1, 2 * GIB)
