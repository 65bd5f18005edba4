"""How databases are looked at."""

from __future__ import annotations

import threading

from .fake_volumes import FakeVolumes
from .world import World


class MeetingVolumes(FakeVolumes):
    """Volumes that are looked at only while others are."""

    def __init__(self, world: World, looks: int) -> None:
        super().__init__(world.fleet, world.fuse, world.clock)
        self._meeting = threading.Barrier(looks, timeout=10.0)

    def is_attached(self, name: str) -> bool:
        self._meeting.wait()
        return super().is_attached(name)


def test_databases_are_looked_at_side_by_side(world: World) -> None:
    for name in ("one", "two", "three"):
        world.create(name)
    meeting = MeetingVolumes(world, looks=3)
    meeting.images = world.volumes.images
    world.volumes = meeting
    assert [view.record.spec.name for view in world.service().list()] == ["one", "three", "two"]
