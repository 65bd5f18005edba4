"""What runs beside the load of a trial: monitors, and a controller."""

from __future__ import annotations

from pathlib import Path

from grampus.bench.environments.environment_plan import environment_name
from grampus.bench.measured_ports import IoDevice
from grampus.hosts.port import BlockLimit
from grampus.state.matrix_layers import SeriesPoint
from tests.unit.bench.environments.measured_cells import FIO, UPDATE, measure
from tests.unit.bench.environments.world import EnvironmentWorld, make_cell


def test_what_the_monitors_saw_comes_with_a_trial(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([UPDATE, FIO])
    world.add_device()
    point = SeriesPoint(at_s=1, kind="machine", name="machine", values={"cpu_share": 0.5})
    world.monitors.points, world.monitors.gaps = [point], ["A gap."]
    for cell in (UPDATE, FIO):
        watched = measure(world, cell).watched
        assert watched is not None
        assert point in watched.points
        assert watched.gaps == ("A gap.",)
        (names,) = {tuple(sorted(watched.subjects.volumes))}
        assert names == tuple(f"{environment_name(cell)}-{number}" for number in (1, 2))
        told = {one.name for one in watched.points if one.kind == "client"}
        assert told == {f"{name}.1" for name in names}
    update, fio = world.monitors.watches
    assert len(update.subjects.servers) == len(update.databases) == 2
    assert update.subjects.threads == 2 * UPDATE.point.threads
    assert fio.subjects.threads == 2 * FIO.point.threads
    assert (fio.subjects.servers, fio.databases) == ({}, {})
    assert update.lasts_s >= UPDATE.warmup_s + UPDATE.measure_s


def test_monitors_know_limits_and_drivers(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cell = make_cell(workload="fio-randwrite")
    world.place().prepare([cell])
    name = f"{environment_name(cell)}-1"
    limit = BlockLimit("/dev/loop3", write_iops=150)
    world.devices.devices += [
        IoDevice("daemon", "osd-0", "h1", "/dev/loop3", limit),
        IoDevice("volume", name, "h1", "/dev/loop4", control_socket="/control"),
    ]
    watched = measure(world, cell).watched
    assert watched is not None
    assert watched.subjects.limits == {"osd-0@h1": limit}
    assert watched.subjects.volumes == {name: f"volumed-{name}@h1"}
    assert watched.subjects.client_cores == 2


def test_monitors_are_left_out_where_a_cell_says_so(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    cell = make_cell(workload="point-select", monitors="none")
    assert environment_name(cell) == environment_name(make_cell(workload="point-select"))
    world.place().prepare([cell])
    measured = measure(world, cell)
    assert (measured.watched, world.monitors.watches) == (None, [])
    assert measured.client is not None


def test_a_controller_runs_beside_the_load_where_a_cell_says_so(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    alone, served = (
        make_cell(workload="point-select", controller=one) for one in ("none", "serving")
    )
    assert environment_name(alone) == environment_name(served)
    world.place().prepare([alone, served])
    assert measure(world, alone).client is not None
    assert world.controllers == []
    assert measure(world, served).client is not None
    assert world.controllers == ["begun", "ended"]
