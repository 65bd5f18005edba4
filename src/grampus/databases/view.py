"""A database as it is shown: what is remembered, and what is observed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.databases.layout import CLIENT_PROGRAMS, MYSQL_UID
from grampus.databases.model import (
    AddressKind,
    DatabasePhase,
    DatabaseRecord,
    DatabaseStatus,
    DesiredState,
    Endpoint,
    FlavourName,
    ReadEndpoint,
)
from grampus.databases.server_end import ServerEnd
from grampus.hosts.port import DaemonState
from grampus.volumes.model import VolumeRecord


@dataclass(frozen=True)
class DatabaseView:
    """A database with its observed status; `volume` is None while it has none."""

    record: DatabaseRecord
    status: DatabaseStatus
    volume: VolumeRecord | None
    end: ServerEnd | None = None  # how its server ended; of one that failed
    server_uid: int | None = None  # the user that its server runs as; None: it does not run


@dataclass(frozen=True)
class CreatedDatabase:
    """The answer to create."""

    record: DatabaseRecord
    endpoint: Endpoint
    client_command: str  # reads the password from a file of mode 0600


@dataclass(frozen=True)
class ClientCommand:
    """A client to run inside a daemon of a host."""

    host: str
    daemon: str
    argv: tuple[str, ...]
    stdin: str | None = None  # SQL to run; None: whatever the user types or pipes


def classify_status(
    phase: DatabasePhase,
    *,
    host_reachable: bool,
    daemon: DaemonState,
    volume_alive: bool = True,
    desired: DesiredState = "stopped",
    at_work: bool = False,
) -> DatabaseStatus:
    """The one word for a database's state. A database under way says so whatever its host does.

    A server that is to run and does not has failed, unless a command is at it (`at_work`); a host
    that cannot be reached says nothing. `volume-lost`: it is to run, and its volume is not there.
    Its server may run on until it next reads or writes. `volume_alive` says nothing of a database
    that is not to run.
    """
    if phase != "ready":
        return phase
    if not host_reachable:
        return "host-down"
    if daemon != "running" and desired == "running" and at_work:
        return "starting"
    if not volume_alive:
        return "volume-lost"
    if daemon == "running":
        return "running"
    return "failed" if desired == "running" else "stopped"


def explain_server_user(uid: int) -> str:
    """The user that a server runs as, for people."""
    if uid == MYSQL_UID:
        return f"user {uid}, shared with other servers (see docs/guide/security.md)"
    return f"user {uid}, only of this server"


def explain_lost_hosts(views: Sequence[DatabaseView]) -> list[str]:
    """For each host that cannot be reached, what there is to do for its databases."""
    lost: dict[str, list[str]] = {}
    for view in views:
        if view.status == "host-down":
            lost.setdefault(view.record.spec.host, []).append(view.record.spec.name)
    return [
        f"{host} cannot be reached. If it is lost, `grampus db failover {names[0]}` runs "
        f"{names[0]} on another host"
        + (f"; the same for {', '.join(names[1:])}." if names[1:] else ".")
        for host, names in sorted(lost.items())
    ]


def explain_address_kind(kind: AddressKind) -> str:
    """Whether the address stays when the database moves, for people."""
    return "floating" if kind == "floating" else "host (changes when the database moves)"


def render_connection_string(endpoint: Endpoint, *, with_password: bool) -> str:
    """The endpoint as a URL; user and password need no percent-encoding."""
    password = f":{endpoint.password.get_secret_value()}" if with_password else ""
    return f"mysql://{endpoint.user}{password}@{endpoint.address}:{endpoint.port}/"


def render_client_command(flavour: FlavourName, option_file: str) -> str:
    """The command line of a client on this machine."""
    return f"{CLIENT_PROGRAMS[flavour]} --defaults-extra-file={shlex.quote(option_file)}"


def render_reading_command(client_command: str, endpoint: ReadEndpoint, authorities: str) -> str:
    """The same client at a read-only endpoint, which other authorities vouch for."""
    place = f"--host={endpoint.address}"
    if endpoint.port is not None:
        place += f" --port={endpoint.port}"
    return f"{client_command} {place} --ssl-ca={shlex.quote(authorities)}"


def client_argv(
    flavour: FlavourName, option_file: str, *, draws_tables: bool = False
) -> tuple[str, ...]:
    """The client inside the daemon. What it runs comes on stdin: SQL may hold anybody's data.

    `draws_tables`: as at a terminal, also when its stdin is none.
    """
    # Unbuffered: a program that feeds statements through a pipe sees each answer at once.
    argv = (CLIENT_PROGRAMS[flavour], f"--defaults-file={option_file}", "--unbuffered")
    return (*argv, "--table") if draws_tables else argv
