"""Room given back to the pool."""

from __future__ import annotations

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_snapshots import RbdSnapshots
from grampus.core.errors import NotFoundError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.hosts.port import HostUnreachableError
from grampus.volumes.model import WritePath
from grampus.volumes.trimming import Trimmed, VolumeTrims
from tests.unit.operation_runner import planned

from .cluster import POOL, Image
from .world import IMAGE, World


def trims(world: World) -> VolumeTrims:
    return VolumeTrims(world.service(), world.fleet, RbdSnapshots(CephCluster(world.cluster)))


def image_of(world: World) -> Image:
    return world.cluster.images[f"{POOL}/{world.service().get('demo').spec.image}"]


@pytest.mark.parametrize("write_path", ["direct", "journal"])
def test_what_files_that_are_gone_took_goes_back(world: World, write_path: WritePath) -> None:
    world.build_volumed()
    world.create(write_path=write_path)
    world.attach()
    image_of(world).used_bytes, image_of(world).deleted_bytes = 5 * GIB, 3 * GIB
    assert trims(world).trim("demo") == Trimmed(5 * GIB, 2 * GIB)
    assert trims(world).trim("demo") == Trimmed(2 * GIB, 2 * GIB)
    image_of(world).deleted_bytes = GIB
    assert planned(world.runner, lambda: trims(world).trim("demo")) == [
        "Discard the free blocks of the file system of demo on h1",
        f"Compare the space that {IMAGE} uses in its pool",
    ]
    assert image_of(world).used_bytes == 2 * GIB


@pytest.mark.parametrize(
    ("left", "told", "asked_again"),
    [
        ([40 * MIB, 3 * MIB, 0], (0, 0), 0),
        ([MIB, MIB], (MIB, MIB), 0),
        ([*range(40 * MIB, 30 * MIB, -MIB), 0], (31 * MIB, 0), 0),
        ([5 * MIB] * 25, (5 * MIB, 5 * MIB), 5),
    ],
)
def test_what_a_slow_cluster_leaves_in_the_journal_is_waited_for_or_told(
    world: World, left: list[int], told: tuple[int, int], asked_again: int
) -> None:
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    image_of(world).used_bytes, image_of(world).deleted_bytes = 5 * GIB, 3 * GIB
    world.h1.held_bytes = list(left)
    assert trims(world).trim("demo") == Trimmed(5 * GIB, 2 * GIB, *told)
    assert len(world.h1.held_bytes) == asked_again


def test_a_driver_that_says_nothing_is_not_taken_for_an_empty_journal(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    world.h1.is_volumed_mute = True
    trimmed = trims(world).trim("demo")
    assert (trimmed.held_before_bytes, trimmed.held_after_bytes) == (None, None)


def test_only_an_attached_volume_is_trimmed(world: World) -> None:
    world.create()
    for refused in (
        lambda: trims(world).trim("demo"),
        lambda: planned(world.runner, lambda: trims(world).trim("demo")),
    ):
        with pytest.raises(RefusedError) as caught:
            refused()
        assert caught.value.code == "not-attached"
    world.attach()
    world.h1.up = False
    with pytest.raises(HostUnreachableError):
        trims(world).trim("demo")
    with pytest.raises(NotFoundError):
        trims(world).trim("dmeo")
