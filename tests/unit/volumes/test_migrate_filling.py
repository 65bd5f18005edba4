"""Migrations into pools that others fill meanwhile: when a copy stops, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grampus.ceph.fullness import PoolRoom
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB, MIB, TIB
from grampus.volumes.decide_migration import decide_left_bytes, find_scarcity
from grampus.volumes.model import VolumeRecord, WritePath

from .cluster import POOL
from .world import IMAGE, World

THERE = "archive"
MOVED = IMAGE.replace(POOL, THERE)


def _attached(world: World, write_path: WritePath = "journal") -> None:
    world.build_volumed()
    world.create(write_path=write_path)
    world.attach()


def _record(world: World) -> VolumeRecord:
    return world.service().get("demo")


def test_a_volume_may_leave_a_pool_that_is_full(world: World) -> None:
    _attached(world)
    world.cluster.warnings = {
        "POOL_FULL": f"pool '{POOL}' is full (no space)",
        "OSD_FULL": "osd.0 is full",
    }
    assert world.service().migrations.migrate("demo", THERE).spec.pool == THERE


def _fill(world: World) -> None:
    """Others fill the pool while the copy is at its middle, and users write on."""
    world.cluster.available_bytes = GIB // 2 + 255 * MIB
    world.cluster.images[MOVED].data = "written since"


def _migrate_filling(world: World) -> GrampusError:
    with pytest.raises(GrampusError) as stopped:
        world.service().migrations.migrate("demo", THERE)
    assert stopped.value.code == "pool-filling"
    assert stopped.value.remedy
    return stopped.value


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
def test_a_pool_that_fills_up_in_the_middle_is_left_again(
    world: World, write_path: WritePath
) -> None:
    _attached(world, write_path)
    world.image.used_bytes = GIB
    before = world.inventory()
    world.cluster.copy_looks = [lambda: _fill(world), lambda: pytest.fail("it went on")]
    error = _migrate_filling(world)
    assert f"Grampus returns the volume to '{POOL}'" in error.problem
    record = _record(world)
    assert (record.spec.pool, record.migration, record.host) == (POOL, None, "h1")
    assert world.image.data == "written since"
    assert world.inventory() == before
    assert world.service().is_attached("demo")
    with pytest.raises(RefusedError) as refused:
        world.service().migrations.migrate("demo", THERE)
    assert refused.value.code == "pool-full"


def test_what_is_copied_already_needs_no_room_any_more(world: World) -> None:
    _attached(world)
    world.image.used_bytes = GIB
    reserve_bytes = 256 * MIB

    def leave(ratio: float) -> None:
        world.cluster.available_bytes = int(ratio * GIB) + reserve_bytes
        world.cluster.stored_bytes = GIB - int(ratio * GIB)

    world.cluster.copy_looks = [lambda: leave(0.76), lambda: leave(0.51), lambda: leave(0.26)]
    assert world.service().migrations.migrate("demo", THERE).migration is None


def test_a_copy_that_is_faster_than_the_clusters_figures_stops_in_time(world: World) -> None:
    _attached(world)
    world.image.used_bytes = GIB

    def leave_too_little() -> None:
        world.cluster.available_bytes = GIB + 255 * MIB

    unseen: list[Callable[[], object]] = [_nothing, leave_too_little]  # nothing is counted yet
    world.cluster.copy_looks = [*unseen, lambda: pytest.fail("it went on")]
    assert f"Grampus returns the volume to '{POOL}'" in _migrate_filling(world).problem


@pytest.mark.parametrize(
    ("copied", "taken_bytes", "left_bytes"),
    [
        (0.0, 0, 8 * GIB),
        (0.5, 4 * GIB, 4 * GIB),
        (0.5, 1 * GIB, 7 * GIB),  # not counted yet, or the count is ahead
        (0.25, 7 * GIB, 6 * GIB),  # others write there
        (0.5, -GIB, 8 * GIB),  # others have removed something
        (1.0, 8 * GIB, 0),
        (1.0, 9 * GIB, 0),
    ],
)
def test_what_is_to_come_still(copied: float, taken_bytes: int, left_bytes: int) -> None:
    assert decide_left_bytes(8 * GIB, copied, taken_bytes) == left_bytes


def test_a_copy_that_is_gone_on_with_knows_how_far_it_was(world: World) -> None:
    _attached(world)
    world.image.used_bytes = GIB

    def fail() -> None:
        raise GrampusError("The connection broke.")

    world.cluster.copy_looks = [*[_nothing] * 8, fail]
    for _ in range(2):  # and knows it the second time, too
        with pytest.raises(GrampusError, match=r"connection broke|was not copied"):
            world.service().migrations.migrate("demo", THERE)
        world.cluster.available_bytes = 500 * MIB
        world.cluster.stored_bytes = int(0.8 * GIB)
        world.cluster.copy_looks = [fail]
    world.cluster.copy_looks = []
    assert world.service().migrations.migrate("demo", THERE).migration is None


def _nothing() -> None:
    """All is as it was."""


def test_a_look_that_fails_is_no_reason_to_stop(world: World) -> None:
    _attached(world)
    broken: list[int] = []

    def break_once() -> None:
        world.fuse.left, world.fuse.error = 0, GrampusError("No MON answers.")
        broken.append(1)

    world.cluster.copy_looks = [break_once, _nothing]
    assert world.service().migrations.migrate("demo", THERE).migration is None
    assert (broken, world.fuse.left) == ([1], None)


def test_a_pool_that_fills_up_meanwhile_is_left_by_whoever_goes_on_with_the_copy(
    world: World,
) -> None:
    _attached(world)
    before = world.inventory()
    world.cluster.fails_copies = True
    with pytest.raises(GrampusError):
        world.service().migrations.migrate("demo", THERE)
    world.cluster.fails_copies = False
    world.cluster.available_bytes = 255 * MIB
    assert "waits" in world.service().converge()[0]
    (said,) = world.service().converge(completes=True)
    assert "does not have enough space" in said
    assert world.inventory() == before


def _hold_writes(world: World) -> None:
    world.cluster.warnings = {"POOL_FULL": f"pool '{THERE}' is full (no space)"}


def _hold_writes_at_home(world: World) -> None:
    world.cluster.available_bytes = 0
    world.cluster.warnings = {"POOL_FULL": f"pool '{POOL}' is full (running out of quota)"}


def _snapshot_by_others(world: World) -> None:
    world.cluster.available_bytes = 0
    image = world.cluster.images[MOVED]
    image.snapshots["late"] = image.snapshots["early"]


@pytest.mark.parametrize("spoil", [_hold_writes, _hold_writes_at_home, _snapshot_by_others])
def test_where_the_way_back_is_not_safe_the_copy_waits_instead(
    world: World, spoil: Callable[[World], None]
) -> None:
    _attached(world)
    world.service().ensure_snapshot("demo", "early")
    world.cluster.copy_looks = [lambda: spoil(world), lambda: pytest.fail("it went on")]
    error = _migrate_filling(world)
    assert "Grampus has stopped the copy" in error.problem
    assert world.cluster.moving[MOVED].state == "executing"
    assert world.service().is_attached("demo")
    assert world.service().migrations.find("demo") is not None
    world.cluster.copy_looks = []
    world.cluster.available_bytes, world.cluster.warnings = 100 * GIB, {}
    assert world.service().migrations.migrate("demo", THERE).migration is None


@pytest.mark.parametrize(
    ("there", "former", "left_bytes", "found"),
    [
        ({"available_bytes": 20 * GIB}, {}, 19 * GIB, None),
        ({"available_bytes": 20 * GIB}, {}, 19 * GIB + 1, True),
        # The reserve is of what the pool holds and could hold, and no less than some of it.
        ({"available_bytes": 10 * GIB, "stored_bytes": 10 * GIB}, {}, 9 * GIB + 1, True),
        ({"available_bytes": 300 * MIB}, {}, 44 * MIB, None),
        ({"available_bytes": 300 * MIB}, {}, 45 * MIB, True),
        ({"overfull": "full", "holds_writes": True}, {}, 0, False),
        ({"overfull": "backfillfull"}, {}, 0, True),
        ({"available_bytes": GIB}, {"holds_writes": True, "overfull": "full"}, 0, None),
        ({"available_bytes": 0}, {"holds_writes": True, "overfull": "full"}, 0, False),
        ({"problem": "1 nearfull osd(s)"}, {"problem": "1 nearfull osd(s)"}, 0, None),
    ],
)
def test_when_a_copy_must_not_go_on(
    there: dict[str, Any], former: dict[str, Any], left_bytes: int, *, found: bool | None
) -> None:
    rooms = [
        PoolRoom(**{"pool": "p", "available_bytes": TIB, "until_nearly_full_bytes": 0} | one)
        for one in (there, former)
    ]
    scarcity = find_scarcity(rooms[0], rooms[1], left_bytes)
    assert (None if scarcity is None else scarcity.can_go_back) == found
