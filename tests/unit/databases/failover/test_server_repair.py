"""INV-91: a server that clients cannot use is restarted or moved, and no other one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.failover.host_maintenance import HostMaintenances
from grampus.databases.failover.server_repair import (
    Repair,
    ServerRepairs,
    ensure_hung_server_absent,
    ensure_useless_driver_absent,
    repair_server,
)
from grampus.databases.failover.server_watch import SeenServer
from grampus.databases.model import HostMaintenance
from grampus.state.locks import hold_lock
from tests.unit.databases.stopped_case import write_rows
from tests.unit.databases.world import LAB

from .failover_world import FailoverWorld

EVERY_S = 5.0


class Controller:
    """The job, run every five seconds."""

    def __init__(self, world: FailoverWorld) -> None:
        self._world = world
        self._repairs = ServerRepairs()
        self.begun: list[str] = []

    def look(self) -> list[ControllerEvent]:
        events = self._repairs.run(self._world.service().operations, self._begin)
        self._world.clock.sleep(EVERY_S)
        return events

    def look_for(self, looks: int) -> list[str]:
        """The kinds of what was told, each once."""
        return list(dict.fromkeys(event.kind for _ in range(looks) for event in self.look()))

    def _begin(self, wanted: Mapping[str, SeenServer]) -> dict[str, Repair]:
        self.begun += wanted
        service = self._world.service()
        maintenances = HostMaintenances(service.operations, self._world.moves())
        return {name: repair_server(service, maintenances, seen) for name, seen in wanted.items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FailoverWorld]:
    made = FailoverWorld(tmp_path)
    made.create(host="h1")
    write_rows(made, "acknowledged")
    answer(made, "greets")
    yield made
    made.close()


@pytest.fixture
def controller(world: FailoverWorld) -> Controller:
    return Controller(world)


def answer(world: FailoverWorld, said: str, *hosts: str) -> None:
    """What these hosts get at the address of the database."""
    address = world.service().get("demo").spec.address
    for host in hosts or world.live_hosts:
        world.live_hosts[host].greetings = {address: said}


def test_servers_that_are_well_cost_one_command(
    world: FailoverWorld, controller: Controller
) -> None:
    before = {name: len(host.commands) for name, host in world.hosts.items()}
    assert controller.look_for(10) == []
    after = {name: len(host.commands) - before[name] for name, host in world.hosts.items()}
    assert after == {"h1": 0, "h2": 10, "h3": 0}


def test_a_server_that_hangs_is_killed_and_started(
    world: FailoverWorld, controller: Controller
) -> None:
    answer(world, "listens")
    daemon = world.hosts["h1"].daemons["mysqld-demo"]
    assert controller.look_for(5) == ["instance-hung", "server-restarted"]
    answer(world, "greets")
    assert world.hosts["h1"].daemons["mysqld-demo"] is not daemon
    assert world.service().show("demo").status == "running"
    assert world.service().get("demo").spec.host == "h1"
    assert controller.look_for(10) == []


def test_a_server_that_was_restarted_meanwhile_is_not_killed(world: FailoverWorld) -> None:
    """Between the look and the lock another command may have repaired it."""
    daemon = world.hosts["h1"].daemons["mysqld-demo"]
    for said in ("greets", "refused", "silent"):
        answer(world, said)
        ensure_hung_server_absent(world.service().operations, "demo", "h1")
        assert world.hosts["h1"].daemons["mysqld-demo"] is daemon, said
    answer(world, "listens")
    ensure_hung_server_absent(world.service().operations, "demo", "h2")
    assert world.hosts["h1"].daemons["mysqld-demo"] is daemon, "it is on another host"
    ensure_hung_server_absent(world.service().operations, "demo", "h1")
    assert "mysqld-demo" not in world.hosts["h1"].daemons


@pytest.mark.parametrize("said", ["silent", "listens"])
def test_servers_of_a_host_in_maintenance_are_left_alone(
    world: FailoverWorld, controller: Controller, said: str
) -> None:
    begun = HostMaintenance(host="h1", since=world.clock.now())
    world.service().operations.records.put_maintenance(begun)
    answer(world, said)
    assert controller.look_for(20) == []
    assert controller.begun == []


def test_a_driver_that_hangs_is_killed_and_the_database_started(
    world: FailoverWorld, controller: Controller
) -> None:
    """Its server greets all the same: a greeting needs no disk."""
    assert controller.look_for(4) == []
    world.volumes.stuck.add("demo")
    assert controller.look_for(8) == ["volume-stuck", "server-restarted"]
    assert (world.volumes.stuck, world.volumes.dead_drivers) == (set(), set())
    assert world.service().show("demo").status == "running"
    assert controller.look_for(10) == []


def test_a_driver_that_has_ended_is_replaced_though_its_server_greets(
    world: FailoverWorld, controller: Controller
) -> None:
    """A server that writes nothing does not notice that its disk is gone."""
    assert controller.look_for(4) == []
    world.volumes.dead_drivers.add("demo")
    assert controller.look_for(6) == ["driver-ended", "server-restarted"]
    assert world.volumes.dead_drivers == set()
    assert world.service().show("demo").status == "running"
    assert controller.look_for(10) == []


def test_a_driver_that_fails_is_replaced_though_its_server_greets(
    world: FailoverWorld, controller: Controller
) -> None:
    assert controller.look_for(4) == []
    world.volumes.failing.add("demo")
    assert controller.look_for(6) == ["driver-failed", "server-restarted"]
    assert (world.volumes.failing, world.volumes.dead_drivers) == (set(), set())
    assert world.service().show("demo").status == "running"
    assert controller.look_for(10) == []


def test_a_driver_that_has_ended_with_its_server_is_left_to_the_job_of_servers(
    world: FailoverWorld, controller: Controller
) -> None:
    world.volumes.dead_drivers.add("demo")
    answer(world, "refused")
    assert controller.look_for(20) == []


def test_a_driver_that_answers_again_is_left_alone(
    world: FailoverWorld, controller: Controller
) -> None:
    world.volumes.stuck.add("demo")
    assert controller.look_for(2) == []
    world.volumes.stuck.clear()
    assert controller.look_for(20) == []
    world.volumes.stuck.add("demo")
    ensure_useless_driver_absent(world.service().operations, "demo", "h2")
    world.volumes.stuck.clear()
    ensure_useless_driver_absent(world.service().operations, "demo", "h1")
    assert world.volumes.dead_drivers == set()


def test_a_database_whose_clients_are_cut_off_moves_to_where_they_reach_it(
    world: FailoverWorld, controller: Controller
) -> None:
    answer(world, "silent")
    assert controller.look_for(4) == ["clients-cut-off", "switched-over"]
    answer(world, "greets")
    assert world.service().show("demo").record.spec.host == "h2"
    assert controller.look_for(10) == []


def test_a_database_with_manual_failover_is_not_moved_but_its_server_is_restarted(
    world: FailoverWorld, controller: Controller
) -> None:
    world.service().set_failover("demo", "manual")
    answer(world, "silent")
    assert controller.look_for(4) == ["clients-cut-off"]
    (event,) = controller.look()
    assert "The failover of demo is manual." in event.text
    assert "grampus db switchover demo" in event.remedy
    assert controller.begun == []
    answer(world, "listens")
    assert controller.look_for(5) == ["instance-hung", "server-restarted"]


def test_one_host_that_sees_nobody_decides_nothing(
    world: FailoverWorld, controller: Controller
) -> None:
    answer(world, "silent", "h2")
    assert controller.look_for(50) == []
    answer(world, "silent", "h2", "h3")
    world.lose("h3")
    assert controller.look_for(50) == []
    assert controller.begun == []


def test_a_host_that_is_lost_is_left_to_the_failover(
    world: FailoverWorld, controller: Controller
) -> None:
    answer(world, "silent")
    world.lose("h1")
    assert controller.look_for(50) == []


def test_a_stopped_database_and_one_that_is_worked_on_are_left_alone(
    world: FailoverWorld, controller: Controller
) -> None:
    answer(world, "silent")
    world.service().stop("demo")
    assert controller.look_for(20) == []
    world.service().start("demo")
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        kinds = controller.look_for(6)
    assert kinds == ["clients-cut-off", "move-failed"]
    assert world.service().get("demo").spec.host == "h1"


def test_what_failed_is_told_until_it_has_succeeded(
    world: FailoverWorld, controller: Controller
) -> None:
    answer(world, "listens")
    world.hosts["h1"].serve_failure = "[ERROR] InnoDB: corrupted\n[ERROR] Aborting"
    kinds = controller.look_for(10)
    assert kinds == ["instance-hung", "restart-failed"]
    tried = len(controller.begun)
    assert {event.kind for event in controller.look()} == {"instance-hung", "restart-failed"}
    assert len(controller.begun) <= tried + 1
    world.hosts["h1"].serve_failure = ""
    assert "server-restarted" in controller.look_for(40)
    answer(world, "greets")
    assert controller.look_for(3) == []
