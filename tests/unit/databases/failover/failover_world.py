"""A lab of three hosts, one of which is lost."""

from __future__ import annotations

from pathlib import Path

from grampus.databases.failover.failovers import DatabaseFailovers
from tests.fakes.hosts import FakeFleet
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.live.live_world import LiveHost, LiveWorld
from tests.unit.databases.world import ADDRESSES


class FailoverWorld(LiveWorld):
    """A world in which hosts are lost, and come back."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.live_hosts = {name: LiveHost(name, self.fuse) for name in ("h1", "h2", "h3")}
        self.hosts = dict(self.live_hosts)
        self.fleet = FakeFleet(list(self.hosts.values()), ADDRESSES)
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)

    def failovers(self) -> DatabaseFailovers:
        return DatabaseFailovers(self.service().operations)

    def lose(self, host: str = "h1") -> None:
        """Cut off from everybody; what runs there runs on."""
        self.hosts[host].up = False

    def find_again(self, host: str = "h1") -> None:
        self.hosts[host].up = True
