"""The hosts in memory, as a fleet."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import NotFoundError
from grampus.hosts.port import Host

from .machine import FakeHost


class FakeFleet:
    """A `Fleet`."""

    def __init__(self, hosts: Sequence[FakeHost]) -> None:
        self.by_name = {host.name: host for host in hosts}

    def hosts(self) -> list[Host]:
        return [self.by_name[name] for name in sorted(self.by_name)]

    def host(self, name: str) -> Host:
        if name not in self.by_name:
            raise NotFoundError(f"There is no host named '{name}'.")
        return self.by_name[name]

    def is_reachable(self, name: str) -> bool:
        return self.by_name[name].up

    def reaches_cluster(self, name: str) -> bool:
        return self.is_reachable(name)

    def database_addresses(self) -> Sequence[str]:
        return ()
