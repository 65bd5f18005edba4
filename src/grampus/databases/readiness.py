"""Whether a server serves: asked as Grampus's administrator (`admin_client`).

Never as the database's owner, whom users control: a changed, locked or expired password would look
like a server that does not answer (INV-72).

A server can also wait until its volume is flushed, before it lets anybody in (ADR 58). Its init
file is then a named pipe. MySQL and MariaDB read their init file after they have recovered and
before they let their first client in, so a server waits at the pipe until somebody opens that for
writing. Nothing is ever written to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.shell import in_one_shell
from grampus.databases.admin_client import admin_port_of
from grampus.databases.administrator import Administrator, StatementFailedError
from grampus.databases.instance import await_server, look, require_running
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, InstancePlan, server_daemon
from grampus.databases.model import FlavourName
from grampus.hosts.port import DaemonSpec, Host

# Answered while the server turns clients away too. MariaDB has no offline mode.
READY_SQL: Mapping[FlavourName, str] = {
    "mysql": "SELECT VERSION(), @@GLOBAL.offline_mode",
    "mariadb": "SELECT VERSION(), 0",
}
ACCESS_DENIED = 1045  # mysqld_error.h
PIPE = "open-for-clients"  # in the instance's directory
# Arguments: the pipe, and for how many seconds to try. Opening it fails as long as nobody reads
# it; a reader goes on as soon as it is open, and finds its end. Where there is none, none waits.
OPEN_PIPE = """
import errno, os, sys, time
until = time.monotonic() + float(sys.argv[2])
while True:
    try:
        os.close(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK))
        break
    except FileNotFoundError:
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
    if time.monotonic() >= until:
        sys.exit(1)
    time.sleep(0.01)
os.unlink(sys.argv[1])
"""


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


def ensure_serving(
    host: Host,
    plan: InstancePlan,
    password: SecretStr,
    clock: Clock,
    *,
    before_clients: Callable[[], None] | None = None,
) -> str:
    """The daemon running, and its version once it answers its administrator (`password`).

    With `before_clients` there is a pipe at which the server waits, also one that runs already;
    it lets clients in after that was done. Raises GrampusError with code
    `server-stopped` and the reason when the server ends, `access-denied` when it knows no such
    password, `timeout` when it does not answer, and what `before_clients` raises.
    """
    daemon = server_daemon(plan)
    host.ensure_daemon(daemon if before_clients is None else waiting_at_pipe(daemon, plan))
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

    if before_clients is not None:
        open_server(host, plan, clock, before=before_clients, answers=answered)
    await_server(clock, host, plan, answered)
    return answers[-1].version


def pipe_of(plan: InstancePlan) -> PurePosixPath:
    """Where the instance's server waits; inside its container, too."""
    return plan.directory / PIPE


def ensure_pipe(host: Host, plan: InstancePlan, *, wanted: bool) -> None:
    """A new pipe for a server that is started next, if it is `wanted`; one of an earlier start is
    gone."""
    pipe = str(pipe_of(plan))
    make = ["mkfifo", "-m", "0600", pipe]
    own = ["chown", f"{MYSQL_UID}:{MYSQL_GID}", pipe]
    host.run(in_one_shell(["rm", "-f", pipe], *([make, own] if wanted else [])))


def has_pipe(host: Host, plan: InstancePlan) -> bool:
    """Whether a server that was started here may wait at its pipe."""
    return host.run(["test", "-p", str(pipe_of(plan))], check=False).returncode == 0


def waiting_at_pipe(daemon: DaemonSpec, plan: InstancePlan) -> DaemonSpec:
    """The server's daemon, which lets nobody in before `open_server`."""
    return replace(daemon, argv=(*daemon.argv, f"--init-file={pipe_of(plan)}"))


def open_server(
    host: Host,
    plan: InstancePlan,
    clock: Clock,
    *,
    before: Callable[[], None],
    answers: Callable[[], bool],
) -> None:
    """Let clients into the server that waits at its pipe, after `before`, which may be repeated.

    A server that `answers` had no pipe, which an earlier start has left. Raises as `await_server`.
    """

    def is_open() -> bool:
        before()
        if look(host, OPEN_PIPE, str(pipe_of(plan))):
            return True
        if not answers():
            return False
        host.run(["rm", "-f", str(pipe_of(plan))])
        return True

    await_server(clock, host, plan, is_open)
