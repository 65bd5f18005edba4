"""A clone whose own blocks are in another pool than what it shares."""

from __future__ import annotations

from grampus.core.units import GIB
from grampus.volumes.model import CloneSource, VolumeSpec

from .cluster import POOL
from .world import World

OTHER = "databases-1-copy"
SOURCE = CloneSource(pool=POOL, image="demo", snapshot="before")


def test_its_user_may_read_where_its_parent_is_and_write_where_it_is(world: World) -> None:
    world.create()
    world.attach()
    service = world.service()
    service.ensure_snapshot("demo", "before")
    service.ensure_cloned(VolumeSpec(name="copy", pool=OTHER, image="copy", size_bytes=GIB), SOURCE)
    assert f"{OTHER}/copy" in world.cluster.images
    osd = world.cluster.users["client.grampus.t.copy"]["osd"]
    assert osd == f"profile rbd pool={OTHER}, profile rbd-read-only pool={POOL}"


def test_in_the_same_pool_it_may_use_no_other(world: World) -> None:
    world.create()
    world.attach()
    service = world.service()
    service.ensure_snapshot("demo", "before")
    service.ensure_cloned(VolumeSpec(name="copy", pool=POOL, image="copy", size_bytes=GIB), SOURCE)
    osd = world.cluster.users["client.grampus.t.copy"]["osd"]
    assert osd == f"profile rbd pool={POOL}"
