"""Operations on replicas and their endpoints as they are stopped by tests."""

from __future__ import annotations

import pytest

from tests.fakes.interruption import Killed

from .port_worlds import PortReplicaWorld
from .replicas.replica_world import ReplicaWorld
from .stopped_case import Case, make_case, write_rows


def _primary(world: ReplicaWorld) -> None:
    world.create(host="h1")
    write_rows(world, "acknowledged")
    world.commit(transactions=3)


def _old_primary(world: ReplicaWorld) -> None:
    """As an earlier release made it: with a journal, and the log inside the file system."""
    _primary(world)
    record = world.service().get("demo")
    changed = record.spec.model_copy(update={"write_path": "journal"})
    world.service().operations.records.change("demo", spec=changed)


def _with_replica(world: ReplicaWorld) -> None:
    _primary(world)
    world.add(host="h2")
    world.commit()
    assert world.done("demo-r1") == 4


def _with_endpoint(world: ReplicaWorld) -> None:
    _with_replica(world)
    world.settle_endpoint()


def _with_replica_and_scratch(world: ReplicaWorld) -> None:
    _with_replica(world)
    world.service().ensure_local_instance("demo-r1")


def _with_renewal_cut_off(world: ReplicaWorld) -> None:
    _with_replica(world)
    world.journal.dies_after = ("db.replica-renew", "snapshot")
    with pytest.raises(Killed):
        world.replicas().renew("demo-r1")


def _with_lost_primary(world: ReplicaWorld) -> None:
    world.create("demo", host="h1")
    world.add(host="h2")
    world.hosts["h1"].up = False


def _remove_replica(world: ReplicaWorld) -> None:
    if "demo-r1" in world.service().operations.records.all():
        world.replicas().remove("demo-r1")


def _end_endpoint(world: ReplicaWorld) -> None:
    """It led to the one that was promoted, and to no other."""
    world.replicas().follow_endpoint("demo")


REPLICA_CASES: list[Case] = [
    make_case("replica-add", _primary, lambda w: w.add(), "gone", make=ReplicaWorld),
    make_case(
        "replica-add-copied",
        _old_primary,
        lambda w: w.add(external_log=True),
        "gone",
        kind="replica-add",
        make=ReplicaWorld,
    ),
    make_case(
        "replica-add-at-ports",
        _primary,
        lambda w: w.add(),
        "gone",
        kind="replica-add",
        make=PortReplicaWorld,
    ),
    make_case(
        "replica-remove",
        _with_replica,
        lambda w: w.replicas().remove("demo-r1"),
        "done",
        make=ReplicaWorld,
    ),
    make_case(
        "replica-remove-scratch",
        _with_replica_and_scratch,
        lambda w: w.replicas().remove("demo-r1"),
        "done",
        kind="replica-remove",
        make=ReplicaWorld,
    ),
    make_case(
        "replica-remove-renewing",
        _with_renewal_cut_off,
        _remove_replica,
        "done",
        kind="replica-remove",
        make=ReplicaWorld,
        settle=_remove_replica,
    ),
    make_case(
        "replica-promote",
        _with_replica,
        lambda w: w.replicas().promote("demo-r1", wait=True),
        "done",
        make=ReplicaWorld,
        no_way_back="open",
    ),
    make_case(
        "replica-promote-led-to",
        _with_endpoint,
        lambda w: w.replicas().promote("demo-r1"),
        "done",
        kind="replica-promote",
        make=ReplicaWorld,
        settle=_end_endpoint,
        no_way_back="open",
    ),
    make_case(
        "replica-promote-lost",
        _with_lost_primary,
        lambda w: w.replicas().promote("demo-r1"),
        "done",
        kind="replica-promote",
        make=ReplicaWorld,
        no_way_back="fence",
    ),
    make_case(
        "read-endpoint",
        _with_replica,
        lambda w: w.settle_endpoint(),
        "done",
        make=ReplicaWorld,
        is_silent=True,
    ),
    make_case(
        "replica-renew",
        _with_replica,
        lambda w: w.replicas().renew("demo-r1"),
        "either",  # undone as long as the replica is whole, finished from then on
        make=ReplicaWorld,
        no_way_back="old",
    ),
    make_case(
        "replica-schedule",
        _with_replica,
        lambda w: w.renewals().put("demo-r1", 86400),
        "done",
        make=ReplicaWorld,
    ),
]
