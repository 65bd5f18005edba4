"""What a running server does now: how long it has been up, and how many are connected to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.databases.administrator import Administrator, Row

# The same in MySQL and MariaDB. Of what a server counts anyway: it costs no table anything.
_LOOK = (
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Uptime'); "
    "SELECT 'max_connections', @@GLOBAL.max_connections"
)


@dataclass(frozen=True)
class ServerNow:
    """A running server now."""

    uptime_s: int
    connections: int  # of clients and of replicas; the one that asks is not counted
    max_connections: int


def observe_server_now(administrator: Administrator) -> ServerNow:
    """One query. Raises what `Administrator.query` raises."""
    return parse_server_now(administrator.query(_LOOK))


def parse_server_now(rows: Sequence[Row]) -> ServerNow:
    """From rows of name and value. Raises GrampusError when one is missing."""
    said = {row[0].lower(): row[-1] for row in rows}
    try:
        return ServerNow(
            uptime_s=int(said["uptime"]),
            connections=max(0, int(said["threads_connected"]) - 1),
            max_connections=int(said["max_connections"]),
        )
    except (KeyError, ValueError):
        raise GrampusError(
            f"The server's answer about its state is not valid: {rows!r:.120}.",
            "Try again. `grampus db connect NAME -e 'SHOW GLOBAL STATUS'` shows the answer.",
        ) from None
