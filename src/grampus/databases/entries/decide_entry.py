"""Which port of the entry a database has, and where each port leads. All pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence

from grampus.core.errors import RefusedError, UsageError
from grampus.databases.endpoints.haproxy import Member
from grampus.databases.model import Entry
from grampus.databases.records import RunningPlace
from grampus.databases.settings import decide_admin_port


def decide_entry_ports(
    databases: Sequence[str], known: Mapping[str, int], ports: Sequence[int]
) -> tuple[dict[str, int], list[str]]:
    """New ports of databases that have none of `ports` yet, and the databases that get none.

    `known` are the ports by database. The lowest free ones are given in the order of names.
    """
    taken = {port for port in known.values() if port in ports}
    free = [port for port in ports if port not in taken]
    without = sorted(name for name in databases if known.get(name) not in ports)
    given = dict(zip(without, free, strict=False))
    return given, without[len(given) :]


def decide_directions(
    ports: Mapping[str, int], places: Mapping[str, RunningPlace]
) -> dict[int, Member]:
    """Where each port leads: to the database of it, if that is to run."""
    found = {}
    for name, port in ports.items():
        if name in places:
            address, _, own = places[name].place.rpartition(":")
            found[port] = Member(name, address, int(own))
    return found


def decide_places(entry: Entry, port: int | None, addresses: Mapping[str, str]) -> list[str]:
    """Where clients reach a database with that port of the entry; `addresses` are of hosts."""
    if port is None or port not in entry.ports:
        return []
    return [f"{addresses[host]}:{port}" for host in entry.hosts if host in addresses]


def digest_directions(
    address: str, ports: Collection[int], directions: Mapping[int, Member]
) -> str:
    """A digest of all that an entry host is told."""
    rows = [[port, one.address, one.port] for port, one in sorted(directions.items())]
    content = json.dumps([address, min(ports), max(ports), rows])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def require_entry_ports(ports: Sequence[int], database_ports: Sequence[int]) -> None:
    """Raise an error unless databases of the site have ports of their own, and others than these.

    RefusedError with code `no-entry` where addresses are floating, UsageError (`bad-ports`).
    """
    if not database_ports:
        raise RefusedError(
            "Databases have floating addresses here, which stay the same when they move.",
            "An entry is for sites with `--ports`. Connect to the addresses of the databases.",
            code="no-entry",
        )
    used = {*database_ports, *(decide_admin_port(p, shares_address=True) for p in database_ports)}
    both = sorted(used.intersection(ports))
    if both:
        raise UsageError(
            f"The port {both[0]} is in the range of the site's databases, or 10,000 above it.",
            "Choose a range that has none of these ports.",
            code="bad-ports",
        )


def require_same_range(entry: Entry, ports: Sequence[int] | None) -> None:
    """Raise RefusedError (`entry-ports`) when the entry has other ports: clients know them."""
    if ports and (ports[0], ports[-1]) != (entry.first_port, entry.last_port):
        raise RefusedError(
            f"The entry has the ports {entry.first_port}-{entry.last_port}.",
            "Leave --ports out. To change them, turn the entry off on all hosts first.",
            code="entry-ports",
        )
