"""Environments on OSDs of their own: made before them, removed behind them, filled at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.drivers.together import JointSample
from grampus.bench.environments.environment_records import OSD_SET_RECORD, BenchOsdSet
from grampus.bench.environments.fills import TOLERANCE_PERCENT, fill_pool
from grampus.bench.environments.osd_needs import decide_osd_needs
from grampus.core.units import GIB
from tests.fakes.interruption import stopped_runs
from tests.unit.bench.environments.world import LAB, EnvironmentWorld, make_cell

FLASH = make_cell(workload="update-index")
DISKS = make_cell(workload="update-index", media="hdd")
OBJECTS = make_cell(workload="rados-write", media="hdd")
FULL = make_cell(workload="update-index", fill_percent=87)
ALL = (FLASH, DISKS, OBJECTS, FULL)
NEARLY_FULL = {"severity": "HEALTH_WARN", "summary": {"message": "2 nearfull osd(s)"}}


def _is_measured(world: EnvironmentWorld) -> bool:
    assert world.osd_sets.unlimited == set(), "measured at the machine's pace"
    place = world.place()
    return all(
        isinstance(
            place.measure(cell, warmup_s=cell.warmup_s, measure_s=cell.measure_s).outcome,
            JointSample,
        )
        for cell in ALL
    )


def _name(world: EnvironmentWorld, cell: object) -> str:
    needs = decide_osd_needs(cell, world.osd_sets.place_osds())  # type: ignore[arg-type]
    assert needs is not None
    return needs.name


def test_arms_stand_side_by_side_each_on_its_own_osds(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    assert world.place().prepare(ALL) == {}
    disks = _name(world, DISKS)
    assert sorted(world.osd_sets.sets) == sorted([disks, _name(world, FULL)])
    pools = {record.spec.pool for record in world.databases.records.values()}
    assert pools == {"databases", f"{disks}-3-copies", f"{_name(world, FULL)}-3-copies"}
    assert len([pool for pool, on in world.pools.on.items() if on == disks]) == 2
    assert _is_measured(world)
    world.place().dismantle()
    assert world.is_empty


def test_what_cells_stand_on_is_made_anew_while_the_cluster_stays_quiet(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    with world.place().quiet():
        world.place().prepare(ALL)
        quiet = world.cluster.flags.copy()
        assert quiet
        world.place().remove_prepared()
        assert world.holds_nothing
        assert world.cluster.flags == quiet
        assert world.place().prepare(ALL) == {}
        assert _is_measured(world)
    world.place().dismantle()
    assert world.is_empty


def test_osds_are_filled_with_what_stands_on_them_counted(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([FULL])
    name = _name(world, FULL)
    assert abs(world.osd_sets.observe_fill(name).percent - 87) <= TOLERANCE_PERCENT
    assert world.pools.pools[fill_pool(world.osd_sets.sets[name])] == 2, "a copy on each host"
    filled = world.osd_sets.used_bytes[name]
    world.place().prepare([FULL])
    assert world.osd_sets.used_bytes[name] == filled


def test_what_osds_tell_late_is_not_written_once_more(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    name = _name(world, FULL)
    world.osd_sets.used_bytes[name] = 2 * GIB
    world.osd_sets.untold[name] = (2 * GIB, world.clock.monotonic_s() + 10)
    assert world.place().prepare([FULL]) == {}
    assert abs(world.osd_sets.observe_fill(name).percent - 87) <= TOLERANCE_PERCENT


@pytest.mark.parametrize(
    ("check", "is_fit"),
    [("OSD_NEARFULL", True), ("OSD_BACKFILLFULL", True), ("OSD_FULL", False)],
)
def test_nearly_full_osds_are_fit_as_long_as_they_are_there(
    tmp_path: Path, check: str, is_fit: bool
) -> None:
    world = EnvironmentWorld(tmp_path)
    world.cluster.status["health"] = {"status": "HEALTH_WARN", "checks": {check: NEARLY_FULL}}
    assert "nearfull" in (world.place().why_unfit() or "")
    world.place().prepare([FULL])
    assert (world.place().why_unfit() is None) == is_fit
    world.place().dismantle()
    assert "nearfull" in (world.place().why_unfit() or "")


@pytest.mark.parametrize(
    ("free_bytes", "used_bytes", "sentence"),
    [
        (15 * GIB, None, "Filling the OSDs takes"),
        (100 * GIB, 14 * GIB, "full already, and were to be 87% full"),
    ],
)
def test_what_cannot_be_filled_is_a_reason_for_its_cells_alone(
    tmp_path: Path, free_bytes: int, used_bytes: int | None, sentence: str
) -> None:
    world = EnvironmentWorld(tmp_path)
    world.free_bytes = free_bytes
    if used_bytes is not None:
        world.osd_sets.used_bytes[_name(world, FULL)] = used_bytes
    reasons = world.place().prepare(ALL)
    assert set(reasons) == {FULL.cell_id}
    assert sentence in reasons[FULL.cell_id]


def test_osds_that_do_not_come_up_are_a_reason_for_their_cells_alone(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.osd_sets.failing = True
    reasons = world.place().prepare([FLASH, DISKS])
    assert set(reasons) == {DISKS.cell_id}
    assert "No OSD of the set came up" in reasons[DISKS.cell_id]


def test_a_set_that_no_benchmark_made_is_left_alone(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    needs = decide_osd_needs(DISKS, world.osd_sets.place_osds())
    assert needs is not None
    world.osd_sets.sets[needs.name] = needs
    reasons = world.place().prepare([DISKS])
    assert "no benchmark made it" in reasons[DISKS.cell_id]
    world.place().dismantle()
    assert needs.name in world.osd_sets.sets


def test_a_kill_at_any_moment_of_preparing_is_gone_on_from(tmp_path: Path) -> None:
    runs = stopped_runs(
        lambda _: EnvironmentWorld(tmp_path), lambda world: world.place().prepare(ALL), more_than=40
    )
    for point, world in runs:
        known = world.store.all(OSD_SET_RECORD, LAB, BenchOsdSet)
        assert set(world.osd_sets.sets) <= set(known), point
        assert world.place().prepare(ALL) == {}, point
        fill = world.osd_sets.observe_fill(_name(world, FULL))
        assert abs(fill.percent - 87) <= TOLERANCE_PERCENT, point
        assert _is_measured(world)
        world.place().dismantle()
        assert world.is_empty, point


def test_a_kill_at_any_moment_of_dismantling_is_gone_on_from(tmp_path: Path) -> None:
    def start(_: int) -> EnvironmentWorld:
        world = EnvironmentWorld(tmp_path)
        world.place().prepare(ALL)
        return world

    for point, world in stopped_runs(start, lambda world: world.place().dismantle(), more_than=15):
        world.place().dismantle()
        assert world.is_empty, point
