"""Endpoints of replicas, killed before and after every single change that a port makes.

`test_every_step` does so with each kind of operation on a replica.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.replicas.replica_steps import REMOVE_REPLICA
from tests.fakes.interruption import Killed, stopped_runs

from .replica_world import ReplicaWorld

Act = Callable[[ReplicaWorld], object]


def _primary(world: ReplicaWorld) -> None:
    world.create(host="h1")
    world.commit(transactions=3)


def _with_replica(world: ReplicaWorld) -> None:
    _primary(world)
    world.add(host="h2")
    world.commit()
    assert world.done("demo-r1") == 4


def _with_endpoint(world: ReplicaWorld) -> None:
    _with_replica(world)
    world.add(host="h3")
    world.commit()
    assert world.done("demo-r1") == world.done("demo-r2") == 5
    world.settle_endpoint()


def _one_cannot_be_read(world: ReplicaWorld) -> None:
    _with_endpoint(world)
    world.host_of("demo-r2").apply_error["mysqld-demo-r2"] = "disk full"


def _back(world: ReplicaWorld) -> None:
    """The endpoint was taken over by another host, and the former one is there again."""
    _with_endpoint(world)
    former = world.servers["h2"]
    former.up = False
    world.settle_endpoint()
    former.up = True


def _all_gone(world: ReplicaWorld) -> None:
    """Replicas were removed by a process that died before it looked after the endpoint."""
    _with_endpoint(world)
    operations = world.service().operations
    for name in ("demo-r1", "demo-r2"):
        with operations.locked(name):
            operations.run(REMOVE_REPLICA, world.replicas().plan_remove(name))


# name, the state before, and the operation; a cut-off one is finished, all of them.
CASES: list[tuple[str, Act, Act]] = [
    ("endpoint-led", _one_cannot_be_read, lambda w: w.settle_endpoint()),
    ("endpoint-left", _back, lambda w: w.settle_endpoint()),
    ("endpoint-ended", _all_gone, lambda w: w.settle_endpoint()),
    ("promote-behind-endpoint", _with_endpoint, lambda w: w.replicas().promote("demo-r1")),
]


def _started(root: Path, prepare: Act) -> ReplicaWorld:
    world = ReplicaWorld(root)
    prepare(world)
    return world


@pytest.mark.parametrize(
    ("prepare", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_killed_at_any_point_it_is_finished(tmp_path: Path, prepare: Act, act: Act) -> None:
    whole = _started(tmp_path / "whole", prepare)
    before = whole.inventory()
    act(whole)
    after = whole.inventory()
    whole.close()
    for point, world in stopped_runs(
        lambda point: _started(tmp_path / str(point), prepare), act, more_than=1
    ):
        sentences = world.service().converge()
        found = world.inventory()
        if sentences:
            assert found == after, f"killed at {point}"
        else:  # it had not begun, or was over and only looked at the result
            assert found in (before, after), f"killed at {point}"
        assert world.service().converge() == []


def test_a_promotion_that_fails_at_any_point_leaves_a_replica_or_none(tmp_path: Path) -> None:
    """It is undone up to where it lets go; from there on it follows nobody."""
    failure = GrampusError("disk gone")
    for point, world in stopped_runs(
        lambda point: _started(tmp_path / str(point), _with_replica),
        lambda w: w.replicas().promote("demo-r1"),
        failure,
        more_than=5,
    ):
        world.service().converge()
        record = world.service().get("demo-r1")
        host, daemon = world.host_of("demo-r1"), world.server("demo-r1")
        if record.spec.replica_of is not None and host.state(daemon)["follows"] is not None:
            assert host.is_read_only(daemon), f"failed at {point}"
            assert host.state(daemon)["receives"], f"failed at {point}"


def test_an_undone_replica_leaves_the_endpoint_that_another_one_uses(tmp_path: Path) -> None:
    """INV-57: its host was away, so the first one was undone only after the second was made."""
    world = _started(tmp_path, _primary)
    world.journal.dies_after = ("db.replica-add", "files")
    with pytest.raises(Killed):
        world.add(host="h2")
    world.servers["h2"].up = False
    world.add(name="demo-r2", host="h3")
    records = world.service().operations.records
    endpoint = records.find_read_endpoint("demo")
    assert endpoint is not None
    world.servers["h2"].up = True
    assert "undone" in world.service().converge()[0]
    assert list(records.all()) == ["demo", "demo-r2"]
    assert records.find_read_endpoint("demo") == endpoint
    assert world.service().operations.credentials.find_replica_authority("demo") is not None
    world.close()
