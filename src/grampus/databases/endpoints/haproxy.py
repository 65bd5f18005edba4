"""What HAProxy is told, and what it answers: its configuration and its runtime API. All pure.

Sources: HAProxy's configuration manual and management guide, version 2.6 and later (`option
mysql-check`, `show servers state`, `set server`, `shutdown sessions server`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.core.errors import GrampusError

BACKEND = "replicas"
# Places for replicas, so that one can come and go without a new process: sessions of others stay.
SLOTS = 16
MAX_CONNECTIONS = 4000
# Longer than MySQL's own `wait_timeout` (8 h): who ends an idle session is the server.
_SESSION_TIMEOUT = "9h"
NOBODY = "127.0.0.1"
# Bits of `srv_admin_state` that keep a server from being used: maintenance and draining, by command
# or by another server, or for want of an address. Not 0x04, which says that it was disabled in the
# configuration: that one stays, whatever it is told (tried with 3.2).
_KEPT_OUT = 0x01 | 0x02 | 0x08 | 0x10 | 0x20 | 0x40


@dataclass(frozen=True)
class Member:
    """A server that the endpoint leads to."""

    name: str
    address: str
    port: int


@dataclass(frozen=True)
class Slot:
    """A place for a server, as HAProxy has it."""

    backend: str
    name: str
    address: str
    port: int
    is_used: bool  # led to while it is healthy


def render_config(address: str, port: int, members: Sequence[Member], socket: str) -> str:
    """The configuration of an endpoint that listens at `address`.

    A server that accepts no connection is passed over at once (`redispatch`), and after three of
    them left alone until a check finds it. One that hangs is found by its missing greeting within
    six seconds. Sessions are not ended with that (`on-marked-down shutdown-sessions`): those that
    are about to connect would be too, and are passed on otherwise.
    """
    slots = [f"    server {_slot(i)} {one.address}:{one.port}" for i, one in enumerate(members)]
    slots += [f"    server {_slot(i)} {NOBODY}:{port} disabled" for i in range(len(members), SLOTS)]
    return "\n".join(
        [
            *render_defaults(socket),
            f"listen {BACKEND}",
            f"    bind {address}:{port}",
            "    balance leastconn",
            "    retries 2",
            "    option redispatch 1",
            "    default-server check inter 2s fall 2 rise 1 "
            "observe layer4 error-limit 3 on-error mark-down",
            *slots,
            "",
        ]
    )


def render_defaults(socket: str) -> list[str]:
    """The lines that a configuration begins with: limits, the runtime API at `socket`, and checks.

    A server that hangs is found by its missing greeting (`option mysql-check`).
    """
    return [
        "# Written by Grampus: changes are lost.",
        "global",
        f"    maxconn {MAX_CONNECTIONS}",
        f"    stats socket {socket} mode 600 level admin",
        "    log stdout format raw daemon notice",
        "defaults",
        "    mode tcp",
        "    log global",
        "    option dontlog-normal",
        "    option clitcpka",
        "    option srvtcpka",
        "    option mysql-check",
        "    timeout connect 2s",
        "    timeout check 2s",
        f"    timeout client {_SESSION_TIMEOUT}",
        f"    timeout server {_SESSION_TIMEOUT}",
    ]


def render_look() -> str:
    """The command whose answer `parse_slots` reads."""
    return "show servers state"


def parse_slots(answer: str) -> list[Slot]:
    """The places of all backends, from the answer to `render_look`.

    Raises GrampusError when it is another.
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    header = next((line for line in lines if line.startswith("# ")), "")
    columns = header.removeprefix("# ").split()
    slots = []
    for line in lines:
        fields = dict(zip(columns, line.split(), strict=False))
        if line == header or "be_name" not in fields:
            continue
        try:
            slots.append(
                Slot(
                    backend=fields["be_name"],
                    name=fields["srv_name"],
                    address=fields["srv_addr"],
                    port=int(fields["srv_port"]),
                    is_used=not int(fields["srv_admin_state"]) & _KEPT_OUT,
                )
            )
        except (KeyError, ValueError):
            raise _not_read(answer) from None
    if not slots:
        raise _not_read(answer)
    return slots


def render_changes(slots: Sequence[Slot], members: Sequence[Member]) -> list[str]:
    """Commands after which exactly `members` are led to; none, if that is so.

    Who leaves is led to no more, and its sessions are ended. Who stays keeps its place and its
    sessions. There are at most `SLOTS` members.
    """
    wanted = {(one.address, one.port): one for one in members}
    commands, free = [], []
    for slot in slots:
        if slot.is_used and (slot.address, slot.port) in wanted:
            del wanted[slot.address, slot.port]
            continue
        if slot.is_used:
            commands += render_leaving(slot)
        free.append(slot)
    places: Mapping[str, Member] = {
        slot.name: one for slot, one in zip(free, wanted.values(), strict=False)
    }
    for name, one in places.items():
        commands += [
            f"set server {BACKEND}/{name} addr {one.address} port {one.port}",
            f"set server {BACKEND}/{name} state ready",
        ]
    return commands


def render_leaving(slot: Slot) -> list[str]:
    """Commands after which a place leads nowhere, and its sessions have ended."""
    place = f"{slot.backend}/{slot.name}"
    return [f"set server {place} state maint", f"shutdown sessions server {place}"]


def _slot(index: int) -> str:
    return f"r{index + 1}"


def _not_read(answer: str) -> GrampusError:
    return GrampusError(
        f"HAProxy's answer about its servers is not valid: {answer.strip()!r:.120}.",
        "Check that HAProxy is version 2.6 or later. Read the log of its daemon, and report "
        "this error.",
    )
