"""The hosts of a site."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import not_found
from grampus.hosts.port import Host
from grampus.hosts.remote.remote_host import RemoteHost


class RemoteFleet:
    """A `Fleet` of hosts that are reached by SSH."""

    def __init__(
        self,
        hosts: Sequence[RemoteHost],
        database_addresses: Sequence[str],
        database_ports: Sequence[int] = (),
    ) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._database_addresses = tuple(database_addresses)
        self._database_ports = tuple(database_ports)

    def hosts(self) -> list[Host]:
        return list(self.remote_hosts())

    def remote_hosts(self) -> list[RemoteHost]:
        """The hosts with what only a remote host has."""
        return [self._hosts[name] for name in sorted(self._hosts)]

    def host(self, name: str) -> Host:
        return self.remote_host(name)

    def remote_host(self, name: str) -> RemoteHost:
        """The host named `name`. Raises NotFoundError."""
        if name not in self._hosts:
            raise not_found("host", name, self._hosts, list_command="grampus host list")
        return self._hosts[name]

    def is_reachable(self, name: str) -> bool:
        return self.remote_host(name).is_reachable()

    def reaches_cluster(self, name: str) -> bool:
        return self.remote_host(name).reaches_cluster()

    def database_addresses(self) -> Sequence[str]:
        return self._database_addresses

    def database_ports(self) -> Sequence[int]:
        return self._database_ports

    def find_address_holder(self, address: str) -> str | None:
        # One of them is enough: they are all on the segment of the databases' addresses. One that
        # has answered already has a connection.
        for host in sorted(self.remote_hosts(), key=lambda host: not host.has_answered):
            if host.is_reachable():
                return host.find_address_holder(address)
        return None

    def close(self) -> None:
        """End what waits on the hosts for the next command; the fleet can still be used."""
        for host in self._hosts.values():
            host.close()
