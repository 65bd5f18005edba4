"""A replica that a killed command could write to is closed again by the next one (INV-40)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grampus.databases.administrator import administrator_of, writing_to
from grampus.databases.model import OpenedReplica
from grampus.databases.replica_writing import LOCK_SQL
from grampus.state.locks import hold_lock

from .replicas.replica_world import ReplicaWorld
from .world import LAB

REPLICA, DAEMON = "demo-r1", "mysqld-demo-r1"


class KilledError(Exception):
    """The process died while it wrote."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    made = ReplicaWorld(tmp_path)
    made.create(host="h1")
    made.add(host="h2")
    yield made
    made.close()


def is_closed(world: ReplicaWorld) -> bool:
    return world.hosts["h2"].daemons[DAEMON].super_read_only is not False


def opened(world: ReplicaWorld) -> list[str]:
    return [one.name for one in world.service().operations.records.all_opened()]


def leave_open(world: ReplicaWorld) -> None:
    """As a process leaves it that was killed while it wrote."""
    records = world.service().operations.records
    records.put_opened(OpenedReplica(name=REPLICA, id=records.get(REPLICA).id))
    world.hosts["h2"].daemons[DAEMON].super_read_only = False


def test_who_writes_to_a_replica_notes_it_before_and_forgets_it_after(world: ReplicaWorld) -> None:
    ports = world.service().operations.ports
    spec = ports.records.get(REPLICA).spec
    with writing_to(ports, spec, administrator_of(ports, spec)):
        assert opened(world) == [REPLICA]
        assert not is_closed(world)
    assert opened(world) == []
    assert is_closed(world)


def test_a_server_that_does_not_take_it_back_stays_noted(world: ReplicaWorld) -> None:
    ports = world.service().operations.ports
    spec = ports.records.get(REPLICA).spec
    with pytest.raises(KilledError), writing_to(ports, spec, administrator_of(ports, spec)):
        raise KilledError
    assert opened(world) == [REPLICA]
    assert world.service().converge() != []
    assert opened(world) == []


def test_the_next_command_closes_what_a_killed_one_left_open(world: ReplicaWorld) -> None:
    leave_open(world)
    [said] = world.service().converge()
    assert said == (
        "A command was interrupted while it wrote to the replica demo-r1. "
        "The replica is read-only again."
    )
    assert is_closed(world)
    assert opened(world) == []
    assert world.service().converge() == []


def test_one_that_a_command_writes_to_now_is_left_alone(world: ReplicaWorld) -> None:
    leave_open(world)
    with hold_lock(world.home, f"db.{LAB}.{REPLICA}.writing", world.clock):
        assert world.service().converge() == []
    assert not is_closed(world)
    assert opened(world) == [REPLICA]


def _away(world: ReplicaWorld) -> None:
    world.hosts["h2"].up = False


def _refusing(world: ReplicaWorld) -> None:
    world.hosts["h2"].refusal = "ERROR 1205 (HY000) at line 1: Lock wait timeout exceeded"


@pytest.mark.parametrize("trouble", [_away, _refusing])
def test_what_cannot_be_closed_now_stays_noted(
    world: ReplicaWorld, trouble: Callable[[ReplicaWorld], None]
) -> None:
    leave_open(world)
    trouble(world)
    said = world.service().converge()
    assert opened(world) == [REPLICA]
    assert all("could not be made read-only" in one for one in said)


def test_a_stopped_replica_is_closed_by_its_start(world: ReplicaWorld) -> None:
    leave_open(world)
    world.hosts["h2"].daemons[DAEMON].state = "stopped"
    world.service().converge()
    assert opened(world) == []
    assert not any(LOCK_SQL in words for words in world.hosts["h2"].commands)


@pytest.mark.parametrize("change", [{"id": "another"}, {"replica_of": None}])
def test_another_database_of_that_name_and_a_promoted_one_stay_as_they_are(
    world: ReplicaWorld, change: dict[str, str | None]
) -> None:
    leave_open(world)
    records = world.service().operations.records
    record = records.get(REPLICA)
    if "id" in change:
        records.put(record.model_copy(update=change))
    else:
        records.put(record.model_copy(update={"spec": record.spec.model_copy(update=change)}))
    assert world.service().converge() == []
    assert not is_closed(world)
    assert opened(world) == []
