"""Flushes of a volume that nobody relies on yet."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, NotFoundError
from grampus.volumes.model import WritePath

from .world import World


@pytest.mark.parametrize("write_path", ["journal", "cache"])
def test_answered_at_once_until_they_are_made_up_for(world: World, write_path: WritePath) -> None:
    world.build_volumed()
    world.create(write_path=write_path)
    device = world.attach().device
    service = world.service()
    service.drop_flushes("demo")
    assert world.h1.drops_flushes == {device}
    for _ in range(2):
        service.ensure_flushed("demo")
        assert world.h1.drops_flushes == set()
    assert world.h1.flushed == [device, device]


def test_a_number_that_is_another_volumes_by_now_is_left_alone(world: World) -> None:
    """As after a restart of the host, before anybody has looked at its volumes."""
    world.build_volumed()
    world.create(write_path="journal")
    device = world.attach().device
    world.h1.loops[device].reference = "grampus/tag/other"
    service = world.service()
    service.drop_flushes("demo")
    assert world.h1.drops_flushes == set()
    with pytest.raises(GrampusError, match="has no block device on h1"):
        service.ensure_flushed("demo")
    assert world.h1.flushed == []


def test_detached_it_leaves_no_device_that_drops_flushes(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    service = world.service()
    service.drop_flushes("demo")
    service.ensure_detached("demo")
    assert world.h1.drops_flushes == set()


def test_a_volume_that_keeps_no_order_keeps_its_flushes(world: World) -> None:
    world.create()
    world.attach()
    world.service().drop_flushes("demo")
    assert world.h1.drops_flushes == set()


def test_a_detached_volume_has_none(world: World) -> None:
    world.create()
    service = world.service()
    service.drop_flushes("demo")
    service.ensure_flushed("demo")
    assert (world.h1.drops_flushes, world.h1.flushed) == (set(), [])
    with pytest.raises(NotFoundError):
        service.drop_flushes("other")
