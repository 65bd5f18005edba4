"""Servers at the address of their host: which ports are free there, and how one is silenced.

Such a server shares its address with others, so nothing is given to a host or taken from it; what
it has of its own is the port. Where a server has a floating address, the same functions give that
address to the host and take it away.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from grampus.core.errors import RefusedError
from grampus.databases.instance import observe_daemon_state
from grampus.databases.model import DatabaseSpec
from grampus.databases.placement import AssignedAddress, decide_port, find_free_address
from grampus.databases.settings import decide_admin_port
from grampus.hosts.port import Fleet, Host

_LISTENING = "0A"  # TCP_LISTEN (include/net/tcp_states.h)


class AddressHolder(Protocol):
    """A server that listens at an address, its own or its host's."""

    @property
    def address(self) -> str: ...

    @property
    def shares_address(self) -> bool: ...


def parse_listening_ports(text: str) -> set[int]:
    """Ports at which somebody listens, from /proc/net/tcp and tcp6 (proc(5)), at any address.

    At which address is left out: a program at another one of the host may listen at all of them
    after its next start.
    """
    rows = (line.split() for line in text.splitlines())
    return {
        int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTENING
    }


def observe_listening_ports(host: Host) -> set[int]:
    """Ports at which a program listens on the host now."""
    # A host without IPv6 has no tcp6.
    return parse_listening_ports(
        host.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"], check=False).stdout
    )


def is_port_free(port: int, listening: Collection[int]) -> bool:
    """Whether a server could listen at a port, and at the administrative one that comes with it."""
    return not {port, decide_admin_port(port, shares_address=True)} & set(listening)


def assign_address(fleet: Fleet, used: Collection[str], host: Host) -> AssignedAddress:
    """Where a new server on `host` listens: a floating address, or a port of the host's address.

    `used` is what others hold. Raises RefusedError with code `no-address`.
    """
    ports = fleet.database_ports()
    if not ports:
        return AssignedAddress(find_free_address(fleet, used))
    listening = observe_listening_ports(host)
    free = [port for port in ports if is_port_free(port, listening)]
    return AssignedAddress(host.address, decide_port(free, used, total=len(ports)), "host")


def on_host(spec: DatabaseSpec, host: Host) -> DatabaseSpec:
    """The database on another host: a floating address stays, the host's address does not."""
    address = host.address if spec.shares_address else spec.address
    return spec.model_copy(update={"host": host.name, "address": address})


def on_host_named(spec: DatabaseSpec, fleet: Fleet, name: str) -> DatabaseSpec:
    """As `on_host`; of a floating address also for a host that is gone."""
    if spec.shares_address:
        return on_host(spec, fleet.host(name))
    return spec.model_copy(update={"host": name})


def require_port_free(host: Host, spec: DatabaseSpec) -> None:
    """Raise RefusedError with code `port-in-use` when another program of the host has its port.

    The database's own server does not run there.
    """
    if spec.shares_address:
        admin_port = decide_admin_port(spec.port, shares_address=True)
        require_free(host, (spec.port, admin_port), f"the database {spec.name}")


def require_free(host: Host, ports: Collection[int], who: str) -> None:
    """Raise RefusedError with code `port-in-use` when somebody listens at a port that `who` needs
    on the host."""
    taken = sorted(observe_listening_ports(host) & set(ports))
    if taken:
        raise RefusedError(
            f"Another program of {host.name} listens at the port {taken[0]}, which {who} needs "
            "there.",
            f"`ss --listening --tcp --processes 'sport = {taken[0]}'` on {host.name} shows the "
            "program. End it, or choose another host.",
            code="port-in-use",
        )


def give_address(host: Host, spec: DatabaseSpec, daemon: str) -> None:
    """The host has the address, or the port is free for `daemon`, unless that runs already.

    Raises RefusedError with code `port-in-use`.
    """
    if not spec.shares_address:
        host.ensure_address(spec.address)
    elif observe_daemon_state(host, daemon) != "running":
        require_port_free(host, spec)


def take_address(host: Host, holder: AddressHolder) -> None:
    """A floating address taken from the host; its own address stays."""
    if not holder.shares_address:
        host.ensure_address_absent(holder.address)


def silence_server(host: Host, spec: DatabaseSpec) -> None:
    """No client reaches the database's server on that host any more, which may run on.

    Its sessions are reset: a client that waits for an answer sends nothing, so it would never learn
    that the database is elsewhere. At the host's own address, what listens is closed first, as
    nothing else keeps new clients away. Where the kernel cannot do either (INET_DIAG_DESTROY), the
    end of the server does it.
    """
    ports = [spec.port]
    if spec.shares_address:
        ports.append(decide_admin_port(spec.port, shares_address=True))
    for port in ports:
        place = f"{spec.address}:{port}"
        if spec.shares_address:
            host.run(["ss", "--kill", "--tcp", "--listening", "src", place], check=False)
        host.run(["ss", "--kill", "--tcp", "src", place], check=False)
    take_address(host, spec)
