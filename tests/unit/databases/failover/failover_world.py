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
        for number, host in enumerate(self.live_hosts.values(), start=1):
            host.address = f"10.0.0.{number}"
            host.answering = {"10.0.0.7", "10.0.0.8"}  # the MONs
        self.hosts = dict(self.live_hosts)
        self.fleet = FakeFleet(list(self.hosts.values()), ADDRESSES)
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)

    def failovers(self) -> DatabaseFailovers:
        return DatabaseFailovers(self.service().operations)

    def lose(self, host: str = "h1") -> None:
        """Cut off from everybody; what runs there runs on."""
        self.hosts[host].up = False

    def cut_from_ceph(self, host: str = "h1") -> None:
        """Commands run there, and the volumes wait for the cluster."""
        self.live_hosts[host].answering.clear()
        here = {n for n, i in self.volumes.images.items() if i.record.host == host}
        self.volumes.silent |= here
        self.fleet.cut_from_cluster.add(host)

    def find_again(self, host: str = "h1") -> None:
        self.hosts[host].up = True
        self.fleet.cut_from_cluster.discard(host)
