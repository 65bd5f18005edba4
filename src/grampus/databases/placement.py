"""Where an instance goes: its host, its address, and whether the machine can hold it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.model import MYSQL_PORT, AddressKind, held_port
from grampus.databases.settings import ADMIN_PORT_DISTANCE
from grampus.hosts.port import Fleet


@dataclass(frozen=True)
class HostLoad:
    """A host as placement sees it."""

    name: str
    reachable: bool
    databases: int
    in_maintenance: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether a database may be placed there that was given no host."""
        return self.reachable and not self.in_maintenance


@dataclass(frozen=True)
class AssignedAddress:
    """Where a new server listens."""

    address: str
    port: int = MYSQL_PORT
    kind: AddressKind = "floating"

    @property
    def server_id(self) -> int:
        """Unique in the site, as the address or the port is. No address is as low as a port."""
        return self.port if self.kind == "host" else decide_server_id(self.address)

    @property
    def own_port(self) -> int | None:
        """The port, where the address is not its own."""
        return self.port if self.kind == "host" else None

    @property
    def held(self) -> str:
        """As `DatabaseSpec.held_address`."""
        return held_port(self.port) if self.kind == "host" else self.address

    def changes(self) -> dict[str, Any]:
        """What a database has of it, by the fields of its specification."""
        return {
            "address": self.address,
            "port": self.port,
            "address_kind": self.kind,
            "server_id": self.server_id,
        }


def order_usable(loads: Sequence[HostLoad]) -> list[str]:
    """The hosts that may be used: those with the fewest databases first, then by name."""
    usable = [load for load in loads if load.is_usable]
    return [load.name for load in sorted(usable, key=lambda load: (load.databases, load.name))]


def decide_placement(loads: Sequence[HostLoad]) -> str:
    """The usable host with the fewest databases; the first by name among equals.

    Raises RefusedError with code `no-host` when there is none.
    """
    usable = order_usable(loads)
    if not usable:
        raise RefusedError(
            explain_unusable(loads) if loads else "There is no host.",
            "`grampus host list` shows the hosts. Start one, end its maintenance, or add one to "
            "the site (`grampus host add HOST`), then try again.",
            code="no-host",
        )
    return usable[0]


def explain_unusable(loads: Sequence[HostLoad], other: str = "") -> str:
    """Why none of the hosts can be used, as a sentence; `other` is a host that is no choice."""
    reachable = [load.name for load in loads if load.reachable]
    but = f" except {other}" if other else ""
    if reachable:
        return f"All hosts{but} that can be reached are in maintenance ({', '.join(reachable)})."
    return f"No host{but} can be reached."


def decide_address(candidates: Sequence[str], used: Collection[str]) -> str:
    """The first candidate that is not used. Raises RefusedError with code `no-address`."""
    for candidate in candidates:
        if candidate not in used:
            return candidate
    if not candidates:
        raise RefusedError(
            "The site has no addresses for databases.",
            "Name a range on the network segment of its hosts: `grampus site adopt NAME "
            "--addresses 10.0.5.100-199`, with the other options as before. Without a common "
            "segment, name ports of the hosts: `--ports 13300-13399`.",
            code="no-address",
        )
    raise RefusedError(
        f"All {len(candidates)} addresses for databases are in use.",
        "Delete a database that is no longer needed, or name a larger range of the site.",
        code="no-address",
    )


def decide_port(free: Sequence[int], used: Collection[str], *, total: int) -> int:
    """The first port at which nothing listens (`free`) and that no database of the site has.

    A server has a second port, which is no other one's either. `total` counts the ports of the
    site. Raises RefusedError with code `no-address`.
    """
    for port in free:
        near = (port - ADMIN_PORT_DISTANCE, port, port + ADMIN_PORT_DISTANCE)
        if not any(held_port(one) in used for one in near):
            return port
    raise RefusedError(
        f"All {total} ports for databases are in use.",
        "Delete a database that is no longer needed, or name a larger range: `grampus site adopt "
        "NAME --ports FIRST-LAST`, with the other options as before.",
        code="no-address",
    )


def find_free_address(fleet: Fleet, used: Collection[str]) -> str:
    """The first address of databases that is not used, and at which no other machine answers.

    Raises RefusedError with code `no-address`.
    """
    taken = set(used)
    while True:
        address = decide_address(fleet.database_addresses(), taken)
        if fleet.find_address_holder(address) is None:
            return address
        taken.add(address)


def decide_server_id(address: str) -> int:
    """The address as a number: as unique as the address, and within 32 bits as MySQL wants."""
    return int(ipaddress.IPv4Address(address))


def parse_memory_available(meminfo: str) -> int:
    """Bytes from the text of /proc/meminfo (proc(5), in KiB); 0 when it does not say."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def parse_memory_total(meminfo: str) -> int:
    """Bytes of memory of a machine, from the text of its /proc/meminfo (proc(5), in KiB)."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if match is None:
        raise GrampusError("/proc/meminfo does not show the size of the memory.")
    return int(match[1]) * 1024
