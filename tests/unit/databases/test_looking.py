"""How databases are looked at."""

from __future__ import annotations

import threading

import pytest

from grampus.core.errors import GrampusError
from tests.fakes.clock import FakeClock
from tests.fakes.volumes import FakeVolumes

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


@pytest.mark.parametrize(
    ("patience_s", "is_told"),
    [(5.0, True), (0.0, False), (0.3, False)],
    ids=["waits", "no", "less"],
)
def test_a_server_that_is_about_to_end_is_waited_for(
    world: World, patience_s: float, is_told: bool
) -> None:
    world.create(host="h1")

    def end() -> None:
        if len(world.clock.naps) == 4:
            (daemon,) = world.hosts["h1"].daemons.values()
            daemon.state, daemon.log = "stopped", "[ERROR] Out of memory"

    world.clock = FakeClock(on_sleep=end)
    if not is_told:
        world.service().require_serving("demo", patience_s=patience_s)
        return
    with pytest.raises(GrampusError, match=r"ended: .*Out of memory") as caught:
        world.service().require_serving("demo", patience_s=patience_s)
    assert caught.value.code == "server-stopped"
