"""Databases of older releases get what applications need, and their replicas before them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.live.zone_loading import TimeZoneTables
from grampus.databases.upgrades.upgrading import DatabaseUpgrades
from tests.fakes.mysql_tables import COMPONENTS, ZONES
from tests.fakes.pools_and_images import FakeImages
from tests.unit.operation_runner import planned

from .replicas.replica_world import ReplicaWorld
from .stopped_case import clones, snapshots
from .world import World

REPLICA = "demo-r1"


@pytest.fixture
def primary(tmp_path: Path) -> Iterator[ReplicaWorld]:
    """`demo` and its replica, as an older release made them."""
    made = ReplicaWorld(tmp_path)
    made.create(host="h1")
    made.add(host="h2")
    _make_old(made)
    _make_old(made, REPLICA)
    yield made
    made.close()


def _volume(world: World, name: str) -> PurePosixPath:
    attachment = world.volumes.get(name).attachment
    assert attachment is not None
    return PurePosixPath(attachment.mount_path)


def _has(world: World, name: str, what: PurePosixPath) -> bool:
    return any(_volume(world, name) / what in host.files for host in world.hosts.values())


def _make_old(world: World, name: str = "demo") -> None:
    """As an older release left it."""
    for host in world.hosts.values():
        for what in (COMPONENTS, ZONES):
            host.files.pop(_volume(world, name) / what, None)


def _statements(world: World) -> list[tuple[str, str]]:
    """What was changed in servers, in order: the daemon is not known, so the host is."""
    changes = ("SET GLOBAL super_read_only", "SET SESSION sql_log_bin = 0; INSTALL")
    return [
        (host.name, command[-1])
        for host in world.hosts.values()
        for command in host.commands
        if command[-1].startswith(changes)
    ]


def test_a_new_database_has_it_from_the_start(world: World) -> None:
    world.create()
    assert _has(world, "demo", COMPONENTS)
    assert _has(world, "demo", ZONES)
    assert _statements(world) == []


def test_an_old_database_gets_the_component_with_its_next_start(world: World) -> None:
    world.create()
    _make_old(world)
    world.service().stop("demo")
    world.service().start("demo")
    assert _has(world, "demo", COMPONENTS)


def test_a_server_that_refuses_it_starts_all_the_same(world: World) -> None:
    world.create()
    _make_old(world)
    world.service().stop("demo")
    for host in world.hosts.values():
        host.refusal = "ERROR 3529 (HY000) at line 1: Cannot load component"
    world.service().start("demo")
    assert not _has(world, "demo", COMPONENTS)


def test_a_clone_of_an_old_snapshot_and_a_rollback_have_it(world: World) -> None:
    world.create()
    _make_old(world)
    snapshots(world).create("demo", "old")
    clones(world).clone(CloneRequest("demo", "copy", snapshot="old"))
    assert _has(world, "copy", COMPONENTS)
    assert not _has(world, "demo", COMPONENTS)
    snapshots(world).rollback("demo", "old", with_safety=True)
    assert _has(world, "demo", COMPONENTS)


def test_a_rollback_to_before_the_zones_starts_with_a_zone_by_name(world: World) -> None:
    """Parameters are today's: the server would end with an unknown default time zone."""
    world.create()
    _make_old(world)
    snapshots(world).create("demo", "old")
    TimeZoneTables(world.service().operations).load("demo")
    record = world.service().get("demo")
    zone = record.spec.model_copy(update={"parameters": {"time_zone": "Europe/Berlin"}})
    world.service().operations.records.change("demo", spec=zone)
    world.service().stop("demo")
    world.service().start("demo")
    snapshots(world).rollback("demo", "old", with_safety=True)
    assert world.service().show("demo").status == "running"
    assert _has(world, "demo", ZONES)
    clones(world).clone(CloneRequest("demo", "copy", snapshot="old"))
    assert world.service().show("copy").status == "running"
    assert _has(world, "copy", ZONES)


def test_a_replica_has_it_before_its_primary(primary: ReplicaWorld) -> None:
    primary.service().stop("demo")
    primary.service().start("demo")
    assert _has(primary, REPLICA, COMPONENTS)
    assert _has(primary, "demo", COMPONENTS)
    follower = primary.hosts["h2"].daemons["mysqld-demo-r1"]
    assert follower.super_read_only is True, "nobody else may write to it"


def test_zones_are_loaded_on_request_and_into_replicas_first(primary: ReplicaWorld) -> None:
    tables = TimeZoneTables(primary.service().operations)
    before = primary.inventory()
    assert planned(primary.runner, lambda: tables.load("demo")) == [
        f"Load the time zone tables of the server of {name}" for name in (REPLICA, "demo")
    ]
    assert primary.inventory() == before
    assert tables.load("demo") == 3
    assert _has(primary, REPLICA, ZONES)
    assert _has(primary, "demo", ZONES)
    assert primary.hosts["h2"].daemons["mysqld-demo-r1"].super_read_only is True


def test_zones_are_refused_while_a_replica_does_not_run(primary: ReplicaWorld) -> None:
    primary.service().stop(REPLICA)
    with pytest.raises(RefusedError) as caught:
        TimeZoneTables(primary.service().operations).load("demo")
    assert caught.value.code == "not-running"
    assert REPLICA in caught.value.problem
    assert not _has(primary, "demo", ZONES)


def test_a_failed_load_leaves_a_replica_read_only(primary: ReplicaWorld) -> None:
    tables = TimeZoneTables(primary.service().operations)
    host = primary.hosts["h2"]
    host.zones_failure = "ERROR 1114 (HY000) at line 9: The table is full"
    with pytest.raises(GrampusError) as caught:
        tables.load("demo")
    assert "The table is full" in str(caught.value)
    assert host.daemons["mysqld-demo-r1"].super_read_only is True


def test_an_upgrade_loads_it_while_nobody_can_reach_the_server(world: World) -> None:
    world.create(version="8.4")
    _make_old(world)
    upgrades = DatabaseUpgrades(world.service().operations, FakeImages())
    assert upgrades.upgrade("demo", None) is not None
    assert _has(world, "demo", ZONES)
    assert _has(world, "demo", COMPONENTS)
