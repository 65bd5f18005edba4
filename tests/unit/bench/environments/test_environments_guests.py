"""Environments of databases in virtual machines, with the product in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.environments.environment_plan import environment_name
from grampus.core.errors import RefusedError
from tests.unit.bench.environments.measured_cells import GUEST, measure, sample_of
from tests.unit.bench.environments.world import EnvironmentWorld, make_cell


def test_a_server_in_a_virtual_machine_is_filled_in_a_container_and_started_by_a_trial(
    tmp_path: Path,
) -> None:
    world = EnvironmentWorld(tmp_path)
    assert world.place().prepare([GUEST]) == {}
    names = [f"{environment_name(GUEST)}-{number}" for number in (1, 2)]
    assert world.databases.stopped == set(names)
    assert all(server.marker is not None for server in world.hosts[0].servers.values())
    assert world.guests.running == {}
    measured = measure(world, GUEST)
    assert world.guests.emulated in sample_of(measured).notes
    assert measured.undeciding == (world.guests.emulated,)
    assert sorted(world.guests.starts) == names
    # The client in the container of the machine, since there is no other.
    assert {f"vm-{name}" for name in names} <= world.hosts[0].asked_daemons
    assert all(
        parameters["innodb_flush_log_at_trx_commit"] == "1"
        for parameters in world.guests.running.values()
    )
    # The next trial finds it running; another setting takes another start.
    measure(world, GUEST)
    assert sorted(world.guests.starts) == names
    other = make_cell(
        workload="update-index", runtime="vm", driver="librbd", databases=1, trx_commit=2
    )
    assert environment_name(other) == environment_name(GUEST)
    measure(world, other)
    assert sorted(world.guests.starts) == [names[0], names[0], names[1]]
    assert world.databases.restarts == []


def test_a_whole_environment_in_virtual_machines_is_not_looked_into(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([GUEST])
    measure(world, GUEST)
    running = dict(world.guests.running)
    assert world.place().prepare([GUEST]) == {}
    assert world.guests.running == running
    # One more database: all of it is gone through again, in containers.
    more = make_cell(workload="update-index", runtime="vm", driver="librbd", databases=3)
    assert world.place().prepare([GUEST, more]) == {}
    assert world.guests.running == {}
    assert len(world.databases.stopped) == 3
    sample_of(measure(world, more))


def test_a_container_and_a_virtual_machine_stand_side_by_side(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    container = make_cell(workload="update-index")
    assert environment_name(container) != environment_name(GUEST)
    assert world.place().prepare([container, GUEST]) == {}
    measured = measure(world, container)
    assert world.guests.emulated not in sample_of(measured).notes
    assert measured.undeciding == ()
    sample_of(measure(world, GUEST))
    clients = {
        config for command in world.hosts[0].clients for config in command if "cnf" in config
    }
    assert len(clients) == 3


def test_a_database_that_somebody_started_is_not_opened_twice(tmp_path: Path) -> None:
    world = EnvironmentWorld(tmp_path)
    world.place().prepare([GUEST])
    world.databases.stopped.clear()
    with pytest.raises(RefusedError, match="is attached"):
        measure(world, GUEST)
