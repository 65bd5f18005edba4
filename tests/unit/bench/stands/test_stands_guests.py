"""Stands of databases in virtual machines, with the product in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.drivers.together import JointSample
from grampus.bench.matrix.cells import Cell
from grampus.bench.stands.plan import stand_name
from grampus.bench.visits.place import Measured
from grampus.core.errors import RefusedError
from tests.unit.bench.stands.world import StandWorld, make_cell

UPDATE = make_cell(workload="update-index", copies=2, databases=2)
READ = make_cell(workload="rados-read", clients=2)
WRITE = make_cell(workload="rados-write")
FIO = make_cell(workload="fio-randwrite", volumes=2, threads=32, block_bytes=4096)
CODED = make_cell(workload="fio-read", erasure_code="k2m1", block_bytes=4096)
IMAGE = make_cell(workload="rbd-randwrite", volumes=2, threads=4, block_bytes=4096)
GUEST = make_cell(workload="update-index", runtime="vm", driver="librbd", databases=2)
ALL = (UPDATE, READ, WRITE, FIO, CODED, IMAGE, GUEST)


def _world(directory: Path) -> StandWorld:
    return StandWorld(directory)


def _measured(world: StandWorld, cell: Cell) -> Measured:
    return world.place().measure(cell, warmup_s=cell.warmup_s, measure_s=cell.measure_s)


def _sample(measured: Measured) -> JointSample:
    assert isinstance(measured.outcome, JointSample), measured.outcome
    return measured.outcome


def test_a_server_in_a_virtual_machine_is_filled_in_a_container_and_started_by_a_visit(
    tmp_path: Path,
) -> None:
    world = _world(tmp_path)
    assert world.place().prepare([GUEST]) == {}
    names = [f"{stand_name(GUEST)}-{number}" for number in (1, 2)]
    assert world.databases.stopped == set(names)
    assert all(server.marker is not None for server in world.hosts[0].servers.values())
    assert world.guests.running == {}
    measured = _measured(world, GUEST)
    assert world.guests.emulated in _sample(measured).notes
    assert sorted(world.guests.starts) == names
    # The client in the container of the machine, since there is no other.
    assert {f"vm-{name}" for name in names} <= world.hosts[0].asked_daemons
    assert all(
        parameters["innodb_flush_log_at_trx_commit"] == "1"
        for parameters in world.guests.running.values()
    )
    # The next visit finds it running; another setting takes another start.
    _measured(world, GUEST)
    assert sorted(world.guests.starts) == names
    other = make_cell(
        workload="update-index", runtime="vm", driver="librbd", databases=1, trx_commit=2
    )
    assert stand_name(other) == stand_name(GUEST)
    _measured(world, other)
    assert sorted(world.guests.starts) == [names[0], names[0], names[1]]
    assert world.databases.restarts == []


def test_a_whole_stand_in_virtual_machines_is_not_looked_into(tmp_path: Path) -> None:
    world = _world(tmp_path)
    world.place().prepare([GUEST])
    _measured(world, GUEST)
    running = dict(world.guests.running)
    assert world.place().prepare([GUEST]) == {}
    assert world.guests.running == running
    # One more database: all of it is gone through again, in containers.
    more = make_cell(workload="update-index", runtime="vm", driver="librbd", databases=3)
    assert world.place().prepare([GUEST, more]) == {}
    assert world.guests.running == {}
    assert len(world.databases.stopped) == 3
    _sample(_measured(world, more))


def test_a_container_and_a_virtual_machine_stand_side_by_side(tmp_path: Path) -> None:
    world = _world(tmp_path)
    container = make_cell(workload="update-index")
    assert stand_name(container) != stand_name(GUEST)
    assert world.place().prepare([container, GUEST]) == {}
    assert world.guests.emulated not in _sample(_measured(world, container)).notes
    _sample(_measured(world, GUEST))
    clients = {
        config for command in world.hosts[0].clients for config in command if "cnf" in config
    }
    assert len(clients) == 3


def test_a_database_that_somebody_started_is_not_opened_twice(tmp_path: Path) -> None:
    world = _world(tmp_path)
    world.place().prepare([GUEST])
    world.databases.stopped.clear()
    with pytest.raises(RefusedError, match="is attached"):
        _measured(world, GUEST)
