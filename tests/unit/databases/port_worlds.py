"""Labs of fakes in which each database has the address of its host, and a port of its own."""

from __future__ import annotations

from pathlib import Path

from .failover.failover_world import FailoverWorld
from .live.live_world import LiveWorld
from .replicas.replica_world import ReplicaWorld
from .world import World

PORTS = range(13300, 13310)


def use_ports(world: World) -> None:
    """Hosts with addresses that differ, and no addresses for databases."""
    for number, host in enumerate(world.hosts.values(), start=1):
        host.address = f"10.0.0.{number}"
    world.fleet.ports = PORTS


class PortWorld(LiveWorld):
    """As `LiveWorld`, at the addresses of hosts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        use_ports(self)


class PortFailoverWorld(FailoverWorld):
    """As `FailoverWorld`, at the addresses of hosts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        use_ports(self)


class PortReplicaWorld(ReplicaWorld):
    """As `ReplicaWorld`, at the addresses of hosts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        use_ports(self)
