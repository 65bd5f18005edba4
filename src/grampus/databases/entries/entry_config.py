"""What HAProxy of an entry host is told: its configuration, and changes of one that runs. All pure.

Each port has a proxy of its own from the beginning, whether a database has it or not. So a database
comes, moves and goes without a new process, and without an end of sessions of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from grampus.databases.endpoints.haproxy import (
    NOBODY,
    Member,
    Slot,
    render_defaults,
    render_leaving,
)

_SERVER = "database"
_PREFIX = "entry-"


def render_entry_config(
    address: str, ports: Iterable[int], directions: Mapping[int, Member], socket: str
) -> str:
    """The configuration of an entry host with that address.

    A connection that the server does not accept is tried again for some seconds: a database that
    moves is there by then. A port without a database accepts connections and ends them.
    """
    lines = [
        *render_defaults(socket),
        "    retries 5",
        "    default-server check inter 2s fall 2 rise 1",
    ]
    for port in ports:
        one = directions.get(port)
        server = f"{NOBODY}:{port} disabled" if one is None else f"{one.address}:{one.port}"
        lines += [
            f"listen {_PREFIX}{port}",
            f"    bind {address}:{port}",
            f"    server {_SERVER} {server}",
        ]
    return "\n".join([*lines, ""])


def render_redirections(slots: Sequence[Slot], directions: Mapping[int, Member]) -> list[str]:
    """Commands after which each port leads where it shall; none, if that is so.

    Sessions of a database that is elsewhere now are ended, and no others.
    """
    commands = []
    for slot in slots:
        one = directions.get(int(slot.backend.removeprefix(_PREFIX)))
        is_there = one is not None and (slot.address, slot.port) == (one.address, one.port)
        if slot.is_used and not is_there:
            commands += render_leaving(slot)
        if one is not None and not (slot.is_used and is_there):
            place = f"{slot.backend}/{slot.name}"
            commands += [
                f"set server {place} addr {one.address} port {one.port}",
                f"set server {place} state ready",
                # The last check may have found nobody at the former place.
                f"set server {place} health up",
            ]
    return commands
