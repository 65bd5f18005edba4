"""Databases on the hosts of the OSDs and on others, and the cores that hosts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.environments.environment_plan import environment_name
from grampus.bench.environments.layouts import decide_budgets, decide_hosts
from grampus.bench.environments.offers import decide_capabilities
from grampus.bench.matrix.capabilities import why_not_runnable
from tests.fakes.interruption import stopped_runs
from tests.fakes.sysbench_host import FakeCommand
from tests.unit.bench.environments.fake_hosts import QUOTAS
from tests.unit.bench.environments.test_environments_decisions import LAB
from tests.unit.bench.environments.world import EnvironmentWorld, make_cell

APART = make_cell(workload="update-index")
TOGETHER = make_cell(workload="update-index", layout="hyperconverged")
OSD_HOSTS, OTHERS = ("h1", "h2", "h3"), ("h4", "h5", "h6")


def _world(directory: Path) -> EnvironmentWorld:
    """One host of each kind."""
    world = EnvironmentWorld(directory)
    world.layout.osd_hosts, world.layout.other_hosts = ("h1",), ("h2",)
    return world


def _measure(world: EnvironmentWorld, *cells: object) -> None:
    for cell in cells:
        world.place().measure(cell, warmup_s=2, measure_s=6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layout", "others", "hosts"),
    [
        ("hyperconverged", OTHERS, OSD_HOSTS),
        ("decoupled", OTHERS, OTHERS),
        ("decoupled", (), OSD_HOSTS),
    ],
)
def test_where_databases_are(layout: str, others: tuple[str, ...], hosts: tuple[str, ...]) -> None:
    assert decide_hosts(layout, OSD_HOSTS, others) == hosts


def test_either_layout_has_the_same_cores_in_total() -> None:
    apart = decide_budgets("decoupled", OSD_HOSTS, OTHERS, cores=2.0)
    together = decide_budgets("hyperconverged", OSD_HOSTS, OTHERS, cores=2.0)
    assert set(apart) == {*OSD_HOSTS, *OTHERS}
    assert set(together) == set(OSD_HOSTS)
    assert sum(apart.values()) == pytest.approx(sum(together.values())) == pytest.approx(2.0)
    assert decide_budgets("decoupled", OSD_HOSTS, (), cores=2.0) == {}


def test_environments_of_both_layouts_are_side_by_side(tmp_path: Path) -> None:
    assert environment_name(APART) != environment_name(TOGETHER)
    world = _world(tmp_path)
    assert world.place().prepare([APART, TOGETHER]) == {}
    found = {record.spec.name: record.spec.host for record in world.databases.records.values()}
    assert found == {f"{environment_name(APART)}-1": "h2", f"{environment_name(TOGETHER)}-1": "h1"}


def test_load_generators_of_volumes_and_pools_are_where_databases_would_be(
    tmp_path: Path,
) -> None:
    world = _world(tmp_path)
    cells = [
        make_cell(workload="rados-read", clients=2, layout="hyperconverged"),
        make_cell(workload="fio-randread", volumes=2, block_bytes=4096),
    ]
    world.place().prepare(cells)
    fills = [len(host.clients) for host in world.hosts]
    assert fills == [2, 0]
    assert [len(host.sizes) for host in world.hosts] == [0, 2]


def test_a_trial_has_the_budgets_of_its_layout_and_no_more(tmp_path: Path) -> None:
    world = _world(tmp_path)
    world.place().prepare([APART, TOGETHER])
    _measure(world, APART)
    assert {"h1": 1.0, "h2": 1.0} in world.layout.imposed
    assert world.layout.quotas == QUOTAS
    world.layout.imposed.clear()
    _measure(world, TOGETHER)
    assert {"h1": 2.0} in world.layout.imposed
    assert not any("h2" in found for found in world.layout.imposed)
    assert world.layout.quotas == QUOTAS


def test_a_daemon_that_may_use_less_than_its_host_keeps_its_limit(tmp_path: Path) -> None:
    world = _world(tmp_path)
    world.place().prepare([APART])
    seen = []
    ordinary = world.hosts[0].plays["sysbench"]

    def play(argv: list[str]) -> FakeCommand:
        seen.append(dict(world.layout.quotas["h1"]))
        return ordinary(argv)

    world.hosts[0].plays["sysbench"] = play
    _measure(world, APART)
    # Of 2.0 cores of an OSD, 1.0 of a MON, and 1.0 for the host.
    assert seen[-1] == {"": 1.0, "mon-h1": 1.0}


def test_without_hosts_of_both_kinds_no_budget_is_imposed(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([APART])
    _measure(world, APART)
    assert world.layout.imposed == []


def test_a_kill_at_any_moment_of_a_trial_leaves_no_budget_behind(tmp_path: Path) -> None:
    def start(_: int) -> EnvironmentWorld:
        world = _world(tmp_path)
        world.place().prepare([APART, TOGETHER])
        return world

    for point, world in stopped_runs(
        start, lambda world: _measure(world, APART, TOGETHER), more_than=40
    ):
        match point % 3:
            case 0:
                assert world.place().prepare([APART, TOGETHER]) == {}
                assert world.layout.quotas == QUOTAS, point
            case 1:
                _measure(world, TOGETHER)
                assert world.layout.quotas == QUOTAS, point
            case _:
                with world.place().quiet():
                    assert world.layout.quotas == QUOTAS, point
        world.place().dismantle()
        assert world.is_empty, point


def test_a_lab_with_hosts_of_both_kinds_offers_both_layouts() -> None:
    offered = decide_capabilities(LAB.__class__(**{**LAB.__dict__, "other_hosts": 3}))
    assert why_not_runnable(TOGETHER, offered) is None
    assert why_not_runnable(APART, offered) is None
