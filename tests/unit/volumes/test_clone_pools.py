"""A clone whose own blocks are in another pool than what it shares."""

from __future__ import annotations

import pytest

from grampus.core.units import GIB
from grampus.volumes.model import CloneSource, VolumeSpec

from .cluster import POOL
from .world import World

OTHER = "databases-1-copy"
SOURCE = CloneSource(pool=POOL, image="demo.1/demo", snapshot="before")


@pytest.mark.parametrize("pool", [POOL, OTHER])
def test_its_user_may_read_where_its_parent_is_and_write_where_it_is(
    world: World, pool: str
) -> None:
    world.create()
    world.attach()
    service = world.service()
    service.ensure_snapshot("demo", "before")
    service.ensure_cloned(VolumeSpec(name="copy", pool=pool, image="copy", size_bytes=GIB), SOURCE)
    assert f"{pool}/copy.1/copy" in world.cluster.images
    assert world.cluster.users["client.grampus.t.copy"]["osd"] == (
        f"profile rbd pool={pool} namespace=copy.1, "
        f"profile rbd-read-only pool={POOL} namespace=demo.1"
    )
