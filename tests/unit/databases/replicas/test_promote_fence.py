"""INV-74: a replica that is promoted leaves no second primary on a host that cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError

from .replica_world import ReplicaWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    made = ReplicaWorld(tmp_path)
    made.create("demo", host="h1")
    made.add(host="h2")
    made.commit()
    yield made
    made.close()


def test_primary_that_cannot_be_reached_is_fenced_before_the_replica_opens(
    world: ReplicaWorld,
) -> None:
    world.hosts["h1"].up = False
    world.journal.met.clear()
    world.replicas().promote("demo-r1")
    steps = list(world.journal.met["db.replica-promote"])
    assert steps.index("fence") < steps.index("open")
    assert world.volumes.get("demo").host is None
    assert world.service().get("demo").desired == "stopped"


def test_it_does_not_come_up_by_itself_when_its_host_is_back(world: ReplicaWorld) -> None:
    world.hosts["h1"].up = False
    world.replicas().promote("demo-r1")
    world.hosts["h1"].up = True
    world.service().converge()
    assert world.service().ensure_running() == []
    assert "mysqld-demo" not in world.hosts["h1"].daemons
    assert world.service().get("demo").spec.address not in world.hosts["h1"].addresses
    world.service().start("demo")  # on request: its data are there
    assert world.service().show("demo").status == "running"


def test_primary_that_can_be_reached_stays_as_it_is(world: ReplicaWorld) -> None:
    world.replicas().promote("demo-r1")
    assert world.service().show("demo").status == "running"
    assert world.service().get("demo").desired == "running"


def test_primary_that_still_answers_clients_is_not_doubled(world: ReplicaWorld) -> None:
    world.hosts["h1"].up = False
    world.hosts["h2"].answering.add(world.service().get("demo").spec.address)
    with pytest.raises(RefusedError) as caught:
        world.replicas().promote("demo-r1")
    assert caught.value.code == "still-serving"
    assert world.service().get("demo-r1").spec.replica_of == "demo"


def test_primary_that_cannot_be_fenced_keeps_the_replica_a_replica(world: ReplicaWorld) -> None:
    world.hosts["h1"].up = False
    world.volumes.takeovers.failure = "The cluster does not list the client as fenced."
    with pytest.raises(GrampusError):
        world.replicas().promote("demo-r1")
    assert world.service().get("demo-r1").spec.replica_of == "demo"
    assert world.service().get("demo").desired == "running"
