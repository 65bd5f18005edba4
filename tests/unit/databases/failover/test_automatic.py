"""INV-90: the controller takes databases from a host that is lost, and from no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.failover.automatic import (
    MOST_RETRY_S,
    RETRY_AFTER_S,
    SUSPECT_EVERY_S,
    SUSPECT_LOOKS,
    AutomaticFailovers,
    Takeover,
    report_osds,
    take_over,
)
from grampus.databases.failover.host_states import (
    LOST_AFTER_ROUNDS,
    LOST_AFTER_S,
    HostSight,
    HostState,
    HostTrack,
)
from grampus.databases.failover.host_watch import (
    MONS_EVERY_S,
    HostMemory,
    HostWatch,
    SeenHost,
)
from grampus.hosts.port import CommandResult
from tests.unit.databases.stopped_case import write_rows

from .failover_world import FailoverWorld


class Controller:
    """The job, run each second."""

    def __init__(self, world: FailoverWorld) -> None:
        self._world = world
        self._failovers = AutomaticFailovers()
        self.begun: list[str] = []

    def look(self) -> list[ControllerEvent]:
        operations = self._world.service().operations

        def report(lost: Mapping[str, HostState]) -> None:
            for host, state in lost.items():
                report_osds(operations, host, state)

        return self._failovers.run(operations, self._begin, report)

    def look_for(self, seconds: float) -> list[ControllerEvent]:
        """What was told in this time; a state that lasts is in it once."""
        told: dict[tuple[str, str, str], ControllerEvent] = {}
        until_s = self._world.clock.monotonic_s() + seconds
        while self._world.clock.monotonic_s() < until_s:
            for event in self.look():
                told.setdefault((event.database, event.kind, event.text), event)
            self._world.clock.sleep(1.0)
        return list(told.values())

    def _begin(self, lost: Mapping[str, SeenHost]) -> dict[str, Takeover]:
        self.begun += lost
        failovers = self._world.failovers()
        now = self._world.clock.now()
        return {name: take_over(failovers, name, found.state, now) for name, found in lost.items()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FailoverWorld]:
    made = FailoverWorld(tmp_path)
    made.create(host="h1")
    write_rows(made, "acknowledged")
    yield made
    made.close()


@pytest.fixture
def controller(world: FailoverWorld) -> Controller:
    return Controller(world)


def _host(world: FailoverWorld) -> str:
    return world.service().get("demo").spec.host


def test_hosts_that_are_well_cost_a_command_now_and_then(
    world: FailoverWorld, controller: Controller
) -> None:
    controller.look_for(1.0)
    before = {name: len(host.commands) for name, host in world.hosts.items()}
    assert controller.look_for(10 * MONS_EVERY_S) == []
    after = {name: len(host.commands) - before[name] for name, host in world.hosts.items()}
    assert after == {"h1": 10, "h2": 0, "h3": 0}


def test_hosts_are_asked_at_the_same_time(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer for seconds holds up no other one."""
    all_at_once = threading.Barrier(len(world.hosts), timeout=30)

    def reached(_watch: HostWatch, _host: str, _databases: Sequence[str]) -> HostSight:
        all_at_once.wait()
        return HostSight(managed=True)

    monkeypatch.setattr(HostWatch, "_observe", reached)
    watch = HostWatch(world.service().operations, HostMemory())
    assert list(watch.look(every_host=True)) == ["h1", "h2", "h3"]


def test_the_databases_of_a_dead_host_run_elsewhere(
    world: FailoverWorld, controller: Controller
) -> None:
    controller.look()
    world.lose()
    events = controller.look_for(10.0)
    assert [event.kind for event in events] == ["host-dead", "failed-over"]
    assert events[0].level == "warning"
    done = events[1].details
    assert (done["former_host"], done["host"]) == ("h1", "h2")
    assert done["detected_ms"] == 2100
    view = world.service().show("demo")
    assert (view.status, view.record.spec.host) == ("running", "h2")
    assert world.volumes.takeovers.hurried == ["h1"], "once, and before the failover"
    assert controller.look() == []


def test_a_stopped_database_stays_where_it_is(world: FailoverWorld, controller: Controller) -> None:
    world.service().stop("demo")
    world.lose()
    assert controller.look_for(10.0) == []
    assert _host(world) == "h1"


def test_a_database_with_manual_failover_is_left_to_its_user(
    world: FailoverWorld, controller: Controller
) -> None:
    world.service().set_failover("demo", "manual")
    world.lose()
    (event,) = controller.look_for(20.0)
    assert (event.kind, event.level) == ("host-dead", "warning")
    assert "The failover of demo is manual." in event.text
    assert "grampus db failover demo" in event.remedy
    assert (controller.begun, _host(world)) == ([], "h1")
    world.service().set_failover("demo", "automatic")
    assert "failed-over" in [event.kind for event in controller.look_for(5.0)]


def test_a_host_that_others_hear_is_not_lost(world: FailoverWorld, controller: Controller) -> None:
    world.live_hosts["h3"].answering.add(world.hosts["h1"].address)
    world.lose()
    (event,) = controller.look_for(100.0)
    assert (event.kind, event.level) == ("host-cut-from-controller", "warning")
    assert "Check the network between this machine and h1." in event.remedy
    assert controller.begun == []


def test_a_host_whose_mon_answers_is_not_lost(world: FailoverWorld, controller: Controller) -> None:
    world.hosts["h1"].address = "10.0.0.7"  # where a MON is, which the others hear
    world.lose()
    assert [event.kind for event in controller.look_for(100.0)] == ["host-cut-from-controller"]
    assert controller.begun == []


def test_a_database_that_answers_keeps_its_host(
    world: FailoverWorld, controller: Controller
) -> None:
    world.live_hosts["h2"].answering.add(world.service().get("demo").spec.address)
    world.lose()
    assert [event.kind for event in controller.look_for(100.0)] == ["host-cut-from-controller"]
    assert controller.begun == []


def test_who_sees_nobody_moves_nothing(world: FailoverWorld, controller: Controller) -> None:
    for host in world.hosts:
        world.lose(host)
    assert [event.kind for event in controller.look_for(100.0)] == ["controller-cut-off"]
    assert controller.begun == []


def test_without_a_quorum_nothing_moves(world: FailoverWorld, controller: Controller) -> None:
    world.volumes.takeovers.no_quorum = "There is no quorum."
    world.lose()
    assert [event.kind for event in controller.look_for(100.0)] == ["cluster-stuck"]
    assert controller.begun == []
    world.volumes.takeovers.no_quorum = ""
    assert "failed-over" in [event.kind for event in controller.look_for(10.0)]


def test_a_short_gap_moves_nothing(world: FailoverWorld, controller: Controller) -> None:
    back_s = 0.0

    def end_gap() -> None:
        if world.clock.monotonic_s() >= back_s:
            world.find_again()

    world.clock.on_sleep = end_gap
    for _ in range(100):
        world.lose()
        back_s = world.clock.monotonic_s() + LOST_AFTER_S - 0.1
        controller.look_for(5.0)
    assert controller.begun == []
    assert _host(world) == "h1"


def test_a_host_cut_from_the_cluster_is_left_and_its_server_ended_later(
    world: FailoverWorld, controller: Controller
) -> None:
    """Its server waits for the cluster, so it cannot be ended before the host is back."""
    address = world.service().get("demo").spec.address
    controller.look()
    world.cut_from_ceph()
    kinds = [event.kind for event in controller.look_for(30.0)]
    assert kinds == ["host-cut-from-ceph", "failed-over"]
    assert world.service().show("demo").record.spec.host == "h2"
    assert address not in world.hosts["h1"].addresses
    assert world.live_hosts["h1"].reset == [f"{address}:3306"], "clients wait for no answer"
    assert world.volumes.takeovers.hurried == ["h1"], "its OSDs are cut off, too"
    assert world.service().converge() == []
    assert "mysqld-demo" in world.hosts["h1"].daemons
    world.find_again()
    (said,) = world.service().converge()
    assert said == "The remains of the database demo on h1 were removed."
    assert "mysqld-demo" not in world.hosts["h1"].daemons


def test_a_slow_cluster_moves_nothing(world: FailoverWorld, controller: Controller) -> None:
    world.volumes.silent.add("demo")
    assert controller.look_for(100.0) == []
    world.live_hosts["h1"].answering.clear()
    world.volumes.takeovers.no_quorum = "There is no quorum."
    assert [event.kind for event in controller.look_for(100.0)] == ["cluster-stuck"]
    assert controller.begun == []


def test_commits_are_never_given_up_unasked(world: FailoverWorld, controller: Controller) -> None:
    world.volumes.takeovers.needed_logs["demo"] = "h1"
    world.lose()
    events = {event.kind: event for event in controller.look_for(30.0)}
    assert set(events) == {"host-dead", "failover-refused"}
    assert events["failover-refused"].level == "warning"
    assert "--accept-loss" in events["failover-refused"].remedy
    assert _host(world) == "h1"


def test_a_failover_that_fails_is_tried_again_after_longer_and_longer(
    world: FailoverWorld, controller: Controller
) -> None:
    world.volumes.takeovers.failure = "The cluster does not confirm the fence."
    world.lose()
    events = {event.kind: event for event in controller.look_for(4.0)}
    assert events["failover-failed"].level == "failed"
    assert controller.begun == ["demo"]
    assert {event.kind for event in controller.look()} == {"host-dead", "failover-failed"}
    controller.look_for(RETRY_AFTER_S)
    assert len(controller.begun) == 2
    controller.look_for(600.0)
    assert len(controller.begun) <= 5 + 600 / MOST_RETRY_S
    world.volumes.takeovers.failure = ""
    assert "failed-over" in {event.kind for event in controller.look_for(MOST_RETRY_S + 2)}
    assert controller.look() == []


def test_a_host_that_is_back_ends_what_was_to_be_tried_again(
    world: FailoverWorld, controller: Controller
) -> None:
    world.volumes.takeovers.failure = "The cluster does not confirm the fence."
    world.lose()
    controller.look_for(6.0)
    world.volumes.takeovers.failure = ""
    world.find_again()
    assert controller.look() == []
    assert _host(world) == "h1"


def test_a_new_controller_looks_anew(world: FailoverWorld) -> None:
    world.lose()
    HostWatch(world.service().operations, HostMemory()).look()  # one that has ended
    world.clock.sleep(LOST_AFTER_S)
    began_s = world.clock.monotonic_s()
    again = Controller(world)
    again.look()
    assert again.begun == ["demo"]
    assert world.clock.monotonic_s() - began_s >= LOST_AFTER_S


def test_a_look_at_a_host_that_stays_suspect_ends(
    world: FailoverWorld, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell: the next run of the job looks again."""
    monkeypatch.setattr(HostWatch, "_observe", lambda *_: HostSight(managed=False, peers=1))
    monkeypatch.setattr("grampus.databases.failover.host_states.LOST_AFTER_S", 3600.0)
    controller.look()
    assert world.clock.monotonic_s() <= SUSPECT_LOOKS * SUSPECT_EVERY_S
    assert controller.begun == []


@pytest.mark.parametrize("look_s", [0.0, LOST_AFTER_S, 60.0])
def test_one_look_alone_moves_nothing(
    look_s: float, world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of `serve --once`, also on a machine so busy that the look takes long."""
    world.lose()
    look_for = HostWatch._look_for

    def slowly(watch: HostWatch, host: str, databases: Sequence[str]) -> HostSight:
        world.clock.sleep(look_s)
        return look_for(watch, host, databases)

    monkeypatch.setattr(HostWatch, "_look_for", slowly)
    begun: list[str] = []

    def begin(lost: Mapping[str, SeenHost]) -> dict[str, Takeover]:
        begun.extend(lost)
        return {}

    def report(lost: Mapping[str, HostState]) -> None:
        begun.extend(lost)

    failovers = AutomaticFailovers()
    events = failovers.run(world.service().operations, begin, report, looks_again=False)
    assert (begun, events) == ([], [])
    assert world.clock.monotonic_s() == look_s


def _keep_waiting(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], bool]
) -> None:
    """Commands on h1 wait until `answer` is there; looks do not wait for them."""
    reached = world.fleet.is_reachable
    monkeypatch.setattr(
        world.fleet, "is_reachable", lambda name: answer() if name == "h1" else reached(name)
    )
    monkeypatch.setattr("grampus.databases.failover.host_watch._MANAGED_WITHIN_S", 0.0)


def test_other_hosts_look_for_a_host_that_keeps_a_command_waiting(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSH to a lost host takes seconds to notice it."""
    given_up = threading.Event()

    def answer() -> bool:
        given_up.wait(30)
        return False

    _keep_waiting(world, monkeypatch, answer)
    world.lose()
    watch = HostWatch(world.service().operations, HostMemory())
    names = []
    try:
        for _ in range(SUSPECT_LOOKS):
            names.append(watch.look()["h1"].state.name)
            world.clock.sleep(SUSPECT_EVERY_S)
        assert not given_up.is_set()
    finally:
        given_up.set()
    assert names == ["host-suspect"] * 3 + ["host-dead"] * 2


def test_one_look_that_takes_long_enough_finds_a_lost_host(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks as often as it takes; a command for each time would take as long again."""
    world.lose()
    ask, asked = world.hosts["h2"].run, []

    def run(argv: Sequence[str], **options: Any) -> CommandResult:
        if argv[0] == "python3":
            asked.append(int(argv[4]))
            world.clock.sleep(LOST_AFTER_S)
        return ask(argv, **options)

    monkeypatch.setattr(world.hosts["h2"], "run", run)
    seen = HostWatch(world.service().operations, HostMemory()).look()
    assert (seen["h1"].state.name, asked) == ("host-dead", [LOST_AFTER_ROUNDS])


def test_mons_that_were_down_do_not_make_a_host_look_cut_off(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an outage of the whole cluster: the quorum is newer than what the host saw."""
    memory, clock = HostMemory(), world.clock
    watch = HostWatch(world.service().operations, memory)
    watch.look()
    world.cut_from_ceph()
    ask = world.volumes.takeovers.mon_places

    def mon_places() -> tuple[str, ...]:
        world.live_hosts["h1"].answering = {"10.0.0.7", "10.0.0.8"}  # they are up again
        return ask()

    monkeypatch.setattr(world.volumes.takeovers, "mon_places", mon_places)
    # Volumes there have waited for a minute, and signs of a cut are as old.
    memory.tracks["h1"] = HostTrack("cut-from-ceph", clock.monotonic_s() - 60.0, 2)
    clock.sleep(MONS_EVERY_S)
    assert watch.look()["h1"].state.name == "healthy"


def test_a_host_that_answers_while_others_look_for_it_is_well(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They heard nothing of it: they are the ones that are cut off from it, or it was slow."""
    others_have_looked, memory = threading.Event(), HostMemory()
    ask = world.hosts["h2"].run

    def run(*arguments: Any, **options: Any) -> CommandResult:
        answer = ask(*arguments, **options)
        others_have_looked.set()
        memory.asked["h1"].is_managed(waits=True)
        return answer

    def answer() -> bool:
        return others_have_looked.wait(30)

    monkeypatch.setattr(world.hosts["h2"], "run", run)
    _keep_waiting(world, monkeypatch, answer)
    seen = HostWatch(world.service().operations, memory).look()
    assert seen["h1"].state.name == "healthy"


def test_a_slow_host_that_others_hear_is_waited_for(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.live_hosts["h2"].answering.add(world.service().get("demo").spec.address)
    others_have_looked = threading.Event()
    ask = world.hosts["h2"].run

    def run(*arguments: Any, **options: Any) -> CommandResult:
        others_have_looked.set()
        return ask(*arguments, **options)

    monkeypatch.setattr(world.hosts["h2"], "run", run)

    def answer() -> bool:
        assert others_have_looked.wait(30)
        return True

    _keep_waiting(world, monkeypatch, answer)
    seen = HostWatch(world.service().operations, HostMemory()).look()
    assert seen["h1"].state.name == "healthy"
