"""What would open an image in a full pool, where Ceph lets it wait, is refused beforehand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from grampus.core.errors import RefusedError
from grampus.core.units import GIB
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from tests.unit.databases.live.live_world import LiveWorld
from tests.unit.databases.replicas.replica_world import ReplicaWorld
from tests.unit.databases.world import World

TO = ("demo", "h2")
WorldT = TypeVar("WorldT", bound=World)


def _snapshots(world: World) -> DatabaseSnapshots:
    return DatabaseSnapshots(world.service().operations)


def _refused(world: WorldT, operation: Callable[[WorldT], object]) -> None:
    """It is while the pool is full, and not afterwards."""
    before = world.inventory()
    world.volumes.full_pools = {"databases"}
    with pytest.raises(RefusedError) as caught:
        operation(world)
    assert caught.value.code == "pool-full"
    assert world.inventory() == before
    world.volumes.full_pools = set()
    operation(world)
    world.close()


@pytest.mark.parametrize(
    "operation",
    [
        lambda world: world.service().start("stopped"),
        lambda world: world.service().start("lost"),
        lambda world: world.service().set_write_path("demo", "journal"),
        lambda world: world.service().resize("demo", 20 * GIB),
        lambda world: _snapshots(world).create("demo"),
        lambda world: _snapshots(world).delete("lost", "before"),
        lambda world: _snapshots(world).rollback("lost", "before", with_safety=True),
        lambda world: world.replicas().renew("replica"),
        lambda world: world.service().delete("stopped"),
        lambda world: DatabaseTrash(world.service().operations).trash("stopped"),
    ],
)
def test_it_is_refused_and_nothing_is_changed(
    tmp_path: Path, operation: Callable[[ReplicaWorld], object]
) -> None:
    world = ReplicaWorld(tmp_path)
    for name in ("demo", "stopped", "lost"):
        world.create(name)
    world.add(name="replica")
    _snapshots(world).create("lost", "before")
    world.service().stop("stopped")
    world.volumes.dead_drivers.add("lost")
    _refused(world, operation)


@pytest.mark.parametrize(
    "operation", [lambda world: world.live().restart("demo"), lambda world: world.moves().move(*TO)]
)
def test_a_server_that_could_not_come_back_goes_on(
    tmp_path: Path, operation: Callable[[LiveWorld], object]
) -> None:
    world = LiveWorld(tmp_path)
    world.create(host="h1")
    _refused(world, operation)


def test_a_server_that_runs_needs_nothing_of_a_full_pool_to_be_running(tmp_path: Path) -> None:
    world = ReplicaWorld(tmp_path)
    world.create()
    world.volumes.full_pools = {"databases"}
    world.service().start("demo")
    world.close()
