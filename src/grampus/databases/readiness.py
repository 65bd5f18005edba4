"""Whether a server serves: asked as Grampus's administrator (`admin_client`).

Never as the database's owner, whom users control: a changed, locked or expired password would look
like a server that does not answer (INV-72).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.databases.admin_client import admin_port_of
from grampus.databases.administrator import Administrator, StatementFailedError
from grampus.databases.instance import await_server, require_running
from grampus.databases.layout import InstancePlan, server_daemon
from grampus.databases.model import FlavourName
from grampus.hosts.port import Host

# Answered while the server turns clients away too. MariaDB has no offline mode.
READY_SQL: Mapping[FlavourName, str] = {
    "mysql": "SELECT VERSION(), @@GLOBAL.offline_mode",
    "mariadb": "SELECT VERSION(), 0",
}
ACCESS_DENIED = 1045  # mysqld_error.h


@dataclass(frozen=True)
class Ready:
    """What a server says that serves."""

    version: str
    is_offline: bool  # it lets in administrators alone


def observe_ready(administrator: Administrator) -> Ready | None:
    """What the server says; None: nothing yet.

    Raises StatementFailedError when it knows no such password, and HostUnreachableError.
    """
    try:
        [(version, offline)] = administrator.query(READY_SQL[administrator.flavour])
    except StatementFailedError as error:
        if error.number == ACCESS_DENIED:
            raise
        return None
    except GrampusError as error:
        if error.code not in ("no-answer", "timeout"):
            raise
        return None
    # MariaDB adds where it was built: "11.8.6-MariaDB-0+deb13u1 from Debian-log".
    return Ready(version.split()[0], offline == "1")


def server_administrator(host: Host, plan: InstancePlan, password: SecretStr) -> Administrator:
    """Who asks the instance's server; soon done with one that does not answer."""
    port = admin_port_of(plan)
    return Administrator(host, plan.daemon, plan.flavour, password, only_looks=True, port=port)


def ensure_serving(host: Host, plan: InstancePlan, password: SecretStr, clock: Clock) -> str:
    """The daemon running, and its version once it answers its administrator (`password`).

    Raises GrampusError with code `server-stopped` and the reason when the server ends,
    `access-denied` when it knows no such password, `timeout` when it does not answer.
    """
    host.ensure_daemon(server_daemon(plan))
    administrator, answers = server_administrator(host, plan, password), []

    def answered() -> bool:
        require_running(host, plan, plan.daemon)
        try:
            ready = observe_ready(administrator)
        except StatementFailedError as error:
            raise GrampusError(
                f"The server of {plan.database} runs, but does not accept the administrator's "
                "password on file.",
                "Restore this database's files in the secrets of GRAMPUS_HOME.",
                code="access-denied",
            ) from error
        answers.extend([ready] if ready is not None else [])
        return ready is not None

    await_server(clock, host, plan, answered)
    return answers[-1].version
