"""The read-write entry of a site: it leads to databases wherever they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grampus.cli.serve_entries import VERIFIES_EVERY_S, EntryWatch
from grampus.core.errors import GrampusError
from grampus.databases.entries.entries import DAEMON, Entries
from grampus.databases.live.moving import DatabaseMoves
from tests.fakes.haproxy import FakeHaproxy
from tests.fakes.interruption import stopped_runs
from tests.unit.databases.port_worlds import PortReplicaWorld, PortWorld

PORTS = range(14300, 14304)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PortWorld]:
    made = PortWorld(tmp_path)
    made.create(host="h1")
    yield made
    made.close()


def entries(world: PortWorld | PortReplicaWorld) -> Entries:
    return Entries(world.service().operations)


def proxies(world: PortWorld | PortReplicaWorld) -> dict[str, FakeHaproxy]:
    """What serves the entry, by host."""
    return {
        name: daemon.proxy
        for name, host in world.hosts.items()
        if (daemon := host.daemons.get(DAEMON)) is not None
        and daemon.state == "running"
        and daemon.proxy is not None
    }


def directions(world: PortWorld | PortReplicaWorld) -> dict[str, dict[int, list[str]]]:
    """Where the ports that lead somewhere lead, by host."""
    return {
        name: {port: led for port, led in proxy.directions.items() if led}
        for name, proxy in proxies(world).items()
    }


def move(world: PortWorld, host: str) -> None:
    DatabaseMoves(world.service().operations).move("demo", host)


def test_each_host_leads_to_each_database(world: PortWorld) -> None:
    entries(world).turn_on("h1", PORTS)
    entries(world).turn_on("h2")
    world.create("blog", host="h2")
    assert entries(world).settle() == []
    led = {14300: ["10.0.0.1:13300"], 14301: ["10.0.0.2:13301"]}
    assert directions(world) == {"h1": led, "h2": led}
    assert [proxy.address for proxy in proxies(world).values()] == ["10.0.0.1", "10.0.0.2"]
    assert entries(world).all_places() == {
        "demo": ["10.0.0.1:14300", "10.0.0.2:14300"],
        "blog": ["10.0.0.1:14301", "10.0.0.2:14301"],
    }


def test_a_port_follows_its_database(world: PortWorld) -> None:
    entries(world).turn_on("h1", PORTS)
    before = proxies(world)["h1"]
    move(world, "h2")
    assert entries(world).settle() == []
    assert directions(world) == {"h1": {14300: ["10.0.0.2:13300"]}}
    assert proxies(world)["h1"] is before, "sessions of other databases go on"
    world.service().stop("demo")
    entries(world).settle()
    assert directions(world) == {"h1": {}}
    world.service().start("demo")
    entries(world).settle()
    assert directions(world) == {"h1": {14300: ["10.0.0.2:13300"]}}


def test_nothing_is_asked_of_a_host_that_leads_as_it_shall(world: PortWorld) -> None:
    entries(world).turn_on("h1", PORTS)
    proxy = proxies(world)["h1"]
    asked = len(proxy.commands)
    entries(world).settle()
    assert len(proxy.commands) == asked
    entries(world).settle(verifies=True)
    assert len(proxy.commands) > asked


def test_replicas_have_no_port_until_they_are_promoted(tmp_path: Path) -> None:
    world = PortReplicaWorld(tmp_path)
    world.create(host="h1")
    world.add(host="h2")
    entries(world).turn_on("h1", PORTS)
    assert directions(world) == {"h1": {14300: ["10.0.0.1:13300"]}}
    world.replicas().promote("demo-r1")
    entries(world).settle()
    assert set(entries(world).all_places()) == {"demo", "demo-r1"}
    world.close()


def test_a_process_that_ended_or_hangs_is_started_again_by_the_controller(
    world: PortWorld,
) -> None:
    entries(world).turn_on("h1", PORTS)
    watch = EntryWatch()
    session = world  # what a job needs of a session

    class Session:
        clock = session.clock

        @staticmethod
        def databases() -> object:
            return session.service()

    assert watch.run(Session) == []  # type: ignore[arg-type]
    world.hosts["h1"].daemons[DAEMON].state = "exited"
    assert watch.run(Session) == []  # type: ignore[arg-type]
    assert proxies(world) == {}, "it was looked at a moment ago"
    world.clock.sleep(VERIFIES_EVERY_S)
    assert watch.run(Session) == []  # type: ignore[arg-type]
    assert directions(world) == {"h1": {14300: ["10.0.0.1:13300"]}}
    proxies(world)["h1"].is_silent = True
    world.clock.sleep(VERIFIES_EVERY_S)
    watch.run(Session)  # type: ignore[arg-type]
    assert not proxies(world)["h1"].is_silent


def test_a_host_that_cannot_be_reached_is_told_when_it_returns(world: PortWorld) -> None:
    entries(world).turn_on("h1", PORTS)
    entries(world).turn_on("h2")
    world.hosts["h2"].up = False
    world.create("blog", host="h1")
    assert entries(world).settle() == []
    world.hosts["h2"].up = True
    assert 14301 not in directions(world)["h2"]
    assert entries(world).settle() == []
    assert directions(world)["h2"] == directions(world)["h1"]


def test_it_ends_on_a_host_that_returns(world: PortWorld) -> None:
    before = world.inventory()
    entries(world).turn_on("h1", PORTS)
    entries(world).turn_on("h2")
    world.hosts["h2"].up = False
    assert entries(world).turn_off("h2")
    assert entries(world).left() == ("h2",)
    world.hosts["h2"].up = True
    entries(world).settle()
    assert (entries(world).left(), list(proxies(world))) == ((), ["h1"])
    assert entries(world).turn_off("h1")
    assert not entries(world).turn_off("h1")
    assert (proxies(world), entries(world).all_places()) == ({}, {})
    assert world.inventory() == before, "nothing of it is left"


def test_of_a_host_that_is_gone_nothing_is_waited_for(world: PortWorld) -> None:
    entries(world).turn_on("h2", PORTS)
    world.hosts["h2"].up = False
    assert entries(world).turn_off("h2", is_lost=True)
    assert entries(world).left() == ()


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda world: entries(world).turn_on("h1"), "wrong-use"),
        (lambda world: entries(world).turn_on("h9", PORTS), "not-found"),
        (lambda world: entries(world).turn_on("h1", range(13305, 13310)), "bad-ports"),
        (lambda world: entries(world).turn_on("h1", range(0)), "wrong-use"),
    ],
)
def test_what_cannot_be_is_refused(
    world: PortWorld, act: Callable[[PortWorld], object], code: str
) -> None:
    with pytest.raises(GrampusError) as caught:
        act(world)
    assert caught.value.code == code
    assert world.service().operations.records.find_entry() is None
    assert proxies(world) == {}


def test_more_databases_than_ports_are_told(world: PortWorld) -> None:
    entries(world).turn_on("h1", range(14300, 14301))
    world.create("blog", host="h2")
    ((name, error),) = entries(world).settle()
    assert (name, error.code) == ("demo", "no-entry-port") or name == "blog"
    assert len(directions(world)["h1"]) == 1
    entries(world).turn_off("h1")
    with pytest.raises(GrampusError, match="1 ports are too few for 2 databases"):
        entries(world).turn_on("h1", range(14300, 14301))


def test_where_addresses_are_floating_there_is_no_entry(tmp_path: Path) -> None:
    world = PortWorld(tmp_path)
    world.fleet.ports = ()
    with pytest.raises(GrampusError) as caught:
        entries(world).turn_on("h1", PORTS)
    assert caught.value.code == "no-entry"
    world.close()


ACTS: dict[str, Callable[[PortWorld], object]] = {
    "on": lambda world: entries(world).turn_on("h2", PORTS),
    "off": lambda world: entries(world).turn_off("h1"),
    "settle": lambda world: entries(world).settle(),
}


def _start(act: str) -> Callable[[Path], PortWorld]:
    def start(root: Path) -> PortWorld:
        world = PortWorld(root)
        world.create(host="h1")
        entries(world).turn_on("h1", PORTS)
        if act == "settle":
            move(world, "h2")
        return world

    return start


@pytest.mark.parametrize("act", ACTS)
def test_wherever_it_is_stopped_the_next_one_brings_it_there(act: str, tmp_path: Path) -> None:
    wanted = {
        "on": {"h1": {14300: ["10.0.0.1:13300"]}, "h2": {14300: ["10.0.0.1:13300"]}},
        "off": {},
        "settle": {"h1": {14300: ["10.0.0.2:13300"]}},
    }[act]
    runs = stopped_runs(lambda point: _start(act)(tmp_path / str(point)), ACTS[act], more_than=1)
    for point, world in runs:
        ACTS[act](world)
        entries(world).settle()
        assert directions(world) == wanted, point
        assert entries(world).left() == (), point
