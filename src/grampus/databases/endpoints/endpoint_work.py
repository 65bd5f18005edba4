"""What the steps of a change of a read-only endpoint do; every method is idempotent."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from grampus.core.errors import GrampusError
from grampus.databases.endpoints.haproxy import (
    Member,
    parse_slots,
    render_changes,
    render_config,
    render_look,
)
from grampus.databases.endpoints.haproxy_daemon import SOCKET, HaproxyDaemon
from grampus.databases.host_addresses import require_free, take_address
from grampus.databases.layout import decide_daemon_uid
from grampus.databases.model import ReadEndpoint
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host, HostUnreachableError


def endpoint_daemon(database: str) -> str:
    """The daemon that serves the read-only endpoint of a database."""
    return f"read-only-{database}"


class EndpointWork:
    """What the steps of one endpoint do."""

    def __init__(
        self, ports: StepPorts, database: str, port: int, members: tuple[Member, ...]
    ) -> None:
        """`members` are those that it is to lead to."""
        self._ports = ports
        self._database = database
        self._port = port
        self._members = members

    def record(self, endpoint: ReadEndpoint) -> None:
        """Note where it is to be served, and by whom; hosts that still have to let go stay."""
        known = self._endpoint()
        left = set() if known is None else {*known.left_hosts, known.host}
        hosts = sorted(host for host in left if host is not None and host != endpoint.host)
        self._put(endpoint.model_copy(update={"left_hosts": tuple(hosts)}))

    def leave(self) -> None:
        """Served no longer where it was. A host that cannot be reached is told later."""
        hosts = {host.name for host in self._ports.fleet.hosts()}
        endpoint = self._endpoint()
        if endpoint is None:
            return
        kept = []
        for name in hosts.intersection(endpoint.left_hosts):
            try:
                self._leave(self._ports.fleet.host(name), endpoint)
            except HostUnreachableError:
                kept.append(name)
        self._put(endpoint.model_copy(update={"left_hosts": tuple(sorted(kept))}))

    def serve(self) -> None:
        """HAProxy runs at the endpoint's host, and leads to its members.

        Raises GrampusError with code `endpoint-stopped` or `timeout`.
        """
        endpoint = self._endpoint()
        if endpoint is None or endpoint.host is None:
            return
        host = self._ports.fleet.host(endpoint.host)
        daemon = self._daemon(host, endpoint)
        daemon.ensure_directories()
        members = self._led_to()
        self._write_config(daemon, endpoint, members)
        if endpoint.port is None:
            host.ensure_address(endpoint.address)
        elif not daemon.is_running():
            require_free(host, (endpoint.port,), f"the read-only endpoint of {self._database}")
        daemon.ensure_started(self._ports.clock)
        _lead(daemon, members)

    def is_leading(self, host: Host) -> bool:
        """Whether exactly the members are led to. Raises GrampusError when it does not answer."""
        endpoint = self._endpoint()
        return endpoint is not None and not _changes(self._daemon(host, endpoint), self._led_to())

    def restrict(self) -> None:
        """Nobody but the members is led to, if the endpoint is served at all.

        A host that cannot be reached serves nobody. One that runs and does not answer is ended, and
        so is one that served it before and could not be told.
        """
        self._lead_only_to(self._led_to())
        self.leave()

    def take_back(self) -> None:
        """The same of members that are about to be replicas again, and take no writes yet."""
        self._lead_only_to(self._members)

    # -- inside -------------------------------------------------------------------------------

    def _lead_only_to(self, members: Sequence[Member]) -> None:
        endpoint = self._endpoint()
        if endpoint is None:
            return
        names = tuple(one.name for one in members)
        self._put(endpoint.model_copy(update={"members": names}))
        if endpoint.host is None:
            return
        with contextlib.suppress(HostUnreachableError):
            daemon = self._daemon(self._ports.fleet.host(endpoint.host), endpoint)
            if not daemon.is_running():
                return
            self._write_config(daemon, endpoint, members)
            try:
                _lead(daemon, members)
            except HostUnreachableError:
                raise
            except GrampusError:
                daemon.ensure_absent(kill=True)

    def _write_config(
        self, daemon: HaproxyDaemon, endpoint: ReadEndpoint, members: Sequence[Member]
    ) -> None:
        port = endpoint.port_beside(self._port)
        daemon.write_config(render_config(endpoint.address, port, members, str(SOCKET)))

    def _led_to(self) -> list[Member]:
        """The members, but for one that became a database of its own in the meantime (INV-56)."""
        replicas = self._ports.records.followers(self._database)
        return [one for one in self._members if one.name in replicas]

    def _leave(self, host: Host, endpoint: ReadEndpoint) -> None:
        daemon = self._daemon(host, endpoint)
        daemon.ensure_absent()
        take_address(host, endpoint)
        daemon.remove_files()

    def _endpoint(self) -> ReadEndpoint | None:
        return self._ports.records.find_read_endpoint(self._database)

    def _put(self, endpoint: ReadEndpoint) -> None:
        if self._ports.records.find(self._database) is not None:
            self._ports.records.put_read_endpoint(self._database, endpoint)

    def _daemon(self, host: Host, endpoint: ReadEndpoint) -> HaproxyDaemon:
        return HaproxyDaemon(
            host,
            endpoint_daemon(self._database),
            f"the read-only endpoint of {self._database}",
            host.data_dir / "endpoints" / self._database,
            decide_daemon_uid(endpoint.address, endpoint.port),
        )


def _lead(daemon: HaproxyDaemon, members: Sequence[Member]) -> None:
    """Exactly the members are led to, by a process that runs."""
    daemon.tell(_changes(daemon, members))


def _changes(daemon: HaproxyDaemon, members: Sequence[Member]) -> list[str]:
    return render_changes(parse_slots(daemon.ask(render_look())), members)
