"""An instance on its host: its files, its data directory and its daemon, each ensured."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import PurePosixPath

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.shell import in_one_shell
from grampus.core.units import format_bytes
from grampus.databases.accounts import render_accounts_sql
from grampus.databases.certificates import ensure_certificates
from grampus.databases.credentials import Authority, Credentials, render_option_file
from grampus.databases.layout import (
    CLIENT_PROGRAMS,
    MYSQL_GID,
    MYSQL_UID,
    InstancePlan,
    init_daemon,
    render_config,
    render_init_script,
)
from grampus.databases.model import DatabaseSpec
from grampus.hosts.port import DaemonState, Host

INITIALISE_TIMEOUT_S = 600.0  # 3 s on a local disk; a busy pool of hard disks takes minutes
# A start after a crash reads the redo log back, at most 16 GiB.
READY_TIMEOUT_S = 600.0
LOGIN_TIMEOUT_S = 15.0
# Somebody who listens answers at once; nobody answers for a host that is lost.
_ANSWER_TIMEOUT_S = 1.5
ASK_EVERY_S, LOOK_EVERY_S = 0.2, 0.05
# A look lasts as long as most starts at most, unless somebody listens. After each one it is seen
# whether the server has ended, which takes CPU time from one that starts; after every third one it
# is asked whatever is seen.
LOOK_S, ASKED_EACH_LOOK = 2.0, 3
# "Difficult to find free blocks in the buffer pool (N search iterations)" (MySQL 9.7.4): one
# iteration is 10 ms, in which a thread finds no page that it can have.
_WAITS = re.compile(r"\[MY-011959\].*\((\d+) search iterations\)")
_STUCK_ITERATIONS = 1000
_BEGINS = "[MY-010116]"  # "starting as process": a log may have earlier starts before
RECOVERY_STUCK = "recovery-stuck"
# Arguments: what Linux writes of the socket, and for how many seconds to look. In one process: one
# each 50 ms took a tenth of the CPUs that the server starts with.
AWAIT_LISTENING = """
import sys, time
until = time.monotonic() + float(sys.argv[2])
while True:
    with open("/proc/net/tcp") as sockets:
        if sys.argv[1] in sockets.read():
            sys.exit(0)
    if time.monotonic() >= until:
        sys.exit(1)
    time.sleep(0.02)
"""


def ensure_files(
    host: Host,
    plan: InstancePlan,
    credentials: Credentials,
    authority: Authority | None = None,
    *,
    names: Collection[str] = (),
) -> None:
    """Directories, certificates (which `authority` signs, if any), my.cnf and client options.

    `names` as `ensure_certificates` says.
    """
    ensure_server_files(host, plan)
    ensure_certificates(host, plan, authority, names=names)
    host.write_file(
        plan.option_file,
        render_option_file(
            credentials,
            flavour=plan.flavour,
            address=plan.address,
            port=plan.port,
            ca_file=str(plan.tls_dir / "ca.pem"),
        ),
        mode=0o600,
        uid=MYSQL_UID,
        gid=MYSQL_GID,
    )


def ensure_certificates_first(
    host: Host,
    plan: InstancePlan,
    authority: Authority | None = None,
    *,
    names: Collection[str] = (),
) -> None:
    """The certificates of `ensure_files`, which need nothing of the instance's volume."""
    host.run(_install_directory(plan))
    ensure_certificates(host, plan, authority, names=names)


def ensure_server_files(host: Host, plan: InstancePlan) -> None:
    """Directories and my.cnf: what a server needs that nobody connects to."""
    host.run(
        in_one_shell(
            _install_directory(plan),
            _install_for_mysql(plan.run_dir),
            _install_for_mysql(plan.volume),
        )
    )
    host.write_file(plan.config_file, render_config(plan))


def ensure_initialised(
    host: Host, plan: InstancePlan, credentials: Credentials, clock: Clock
) -> None:
    """A complete data directory with its accounts; one that is complete is never touched.

    Raises what `ensure_initialised_with` raises.
    """
    accounts_sql = render_accounts_sql(
        plan.flavour,
        user=credentials.user,
        password=credentials.password.get_secret_value(),
        admin_password=credentials.admin_password.get_secret_value(),
        root_password=credentials.root_password.get_secret_value(),
    )
    ensure_initialised_with(host, plan, accounts_sql, clock)


def ensure_initialised_with(
    host: Host, plan: InstancePlan, accounts_sql: str, clock: Clock
) -> None:
    """A complete data directory whose accounts `accounts_sql` made, one statement a line.

    Raises GrampusError with code `initialise-failed` and the end of the server's log, or with
    code `timeout`.
    """
    # One that another process left behind may be half-way: its data is made anew.
    host.ensure_daemon_absent(plan.init_daemon, kill=True)
    if host.read_file(plan.marker) is None:
        _initialise(host, plan, accounts_sql, clock)
    host.run(["rm", "-f", str(plan.accounts_file), str(plan.init_script)])


def _initialise(host: Host, plan: InstancePlan, accounts_sql: str, clock: Clock) -> None:
    host.write_file(plan.accounts_file, accounts_sql, mode=0o600, uid=MYSQL_UID, gid=MYSQL_GID)
    host.write_file(plan.init_script, render_init_script(plan))
    host.ensure_daemon(init_daemon(plan))
    wait_until(
        clock,
        lambda: observe_daemon_state(host, plan.init_daemon) != "running",
        what=f"the data directory of {plan.database}",
        remedy="Check whether the cluster is slow or full (`grampus lab status` or `site "
        "check`), then try again.",
        timeout_s=INITIALISE_TIMEOUT_S,
        interval_s=0.2,
    )
    if host.read_file(plan.marker) is None:
        raise GrampusError(
            f"The data directory of {plan.database} could not be created: "
            f"{last_words(host, plan.init_daemon)}",
            "Fix the error above, then try again. `grampus host list` shows the state of "
            "the hosts.",
            code="initialise-failed",
        )
    host.ensure_daemon_absent(plan.init_daemon)


def require_running(host: Host, plan: InstancePlan, daemon: str) -> None:
    """Raise GrampusError with code `server-stopped` when the server has ended."""
    if observe_daemon_state(host, daemon) != "running":
        raise GrampusError(
            f"The server of {plan.database} ended: {last_words(host, daemon)}",
            f"Fix the error above, then start it: `grampus db start {plan.database}`. If a "
            "parameter is the cause, reset it first: `grampus db parameter reset "
            f"{plan.database} PARAMETER`.",
            code="server-stopped",
        )


def since_last_start(log: str) -> str:
    """What is in the end of a server's log of its present start."""
    return log[max(0, log.rfind(_BEGINS)) :]


def is_stuck(log: str) -> bool:
    """Whether the end of a server's log says that it has waited long for a free page, in vain."""
    waits = _WAITS.finditer(since_last_start(log))
    return any(int(found[1]) >= _STUCK_ITERATIONS for found in waits)


def require_recovering(host: Host, plan: InstancePlan, daemon: str) -> None:
    """Raise GrampusError with code `recovery-stuck` for a server whose recovery will not end."""
    if is_stuck(host.daemon_log(daemon)):
        raise GrampusError(
            f"The server of {plan.database} cannot recover from its crash in a buffer pool of "
            f"{format_bytes(plan.settings.buffer_pool_bytes)}: its redo log needs more.",
            f"Give it more memory, then start it: `grampus db set {plan.database} --memory SIZE`.",
            code=RECOVERY_STUCK,
        )


def await_server(
    clock: Clock,
    host: Host,
    plan: InstancePlan,
    answered: Callable[[], bool],
    *,
    listens: bool = True,
) -> None:
    """Ask `answered` until it holds; of a server that `listens`, as soon as somebody does.

    To ask a server takes a client, which takes the CPU that the server starts with; to see whether
    it listens takes none. Raises GrampusError with code `timeout`, and `recovery-stuck` for a
    server that `listens`, and what `answered` raises.
    """
    looks = itertools.count(1)

    def is_over() -> bool:
        if not listens or observe_listening(host, plan):
            return answered()
        if next(looks) % ASKED_EACH_LOOK == 0:
            if answered():
                return True
            require_recovering(host, plan, plan.daemon)
            return False
        require_running(host, plan, plan.daemon)
        return False

    wait_until(
        clock,
        is_over,
        what=f"the server of {plan.database} to answer",
        remedy=f"Read the log of the daemon {plan.daemon} on {host.name}.",
        timeout_s=READY_TIMEOUT_S,
        interval_s=LOOK_EVERY_S if listens else ASK_EVERY_S,
    )


def observe_listening(host: Host, plan: InstancePlan) -> bool:
    """Whether somebody listens at the server's address within LOOK_S; nobody connects to it.

    A look that takes too long has seen nobody: on a machine that stands still for a while, the
    next one is to see more, and only the end of the whole wait is a failure.
    """
    return look(host, AWAIT_LISTENING, render_listening(plan.address, plan.port))


def look(host: Host, program: str, subject: str) -> bool:
    """Whether the Python program, which gets its subject and LOOK_S, succeeds within that time."""
    argv = ["python3", "-c", program, subject, str(LOOK_S)]
    try:
        return host.run(argv, check=False, timeout_s=LOOK_S + 10.0).returncode == 0
    except GrampusError as error:
        if error.code != "timeout":
            raise
        return False


def render_listening(address: str, port: int) -> str:
    """What Linux writes in /proc/net/tcp of a socket that listens there.

    The address as a number of the host's byte order (proc(5)), which is taken to be our own.
    """
    number = int.from_bytes(IPv4Address(address).packed, sys.byteorder)
    return f" {number:08X}:{port:04X} 00000000:0000 0A "


def observe_listening_from(host: Host, spec: DatabaseSpec) -> bool:
    """Whether somebody listens at the database's address, as seen from another host."""
    script = 'exec 3<>"/dev/tcp/$0/$1"'
    argv = ["timeout", str(_ANSWER_TIMEOUT_S), "bash", "-c", script, spec.address, str(spec.port)]
    return host.run(argv, check=False).returncode == 0


def ensure_instance_absent(
    host: Host, *, daemons: tuple[str, ...], directory: PurePosixPath, address: str | None
) -> None:
    """The daemons, the further address, if there is one, and the directory gone from the host."""
    for daemon in daemons:
        host.ensure_daemon_absent(daemon, kill=True)
    if address is not None:
        host.ensure_address_absent(address)
    host.run(["rm", "-rf", str(directory)])


def observe_daemon_state(host: Host, daemon: str) -> DaemonState:
    """The daemon's state on its host."""
    status = host.observe_daemon(daemon)
    return "absent" if status is None else status.state


@dataclass(frozen=True)
class Answer:
    """What came of a login over TCP and TLS: the server's version, or what the client said."""

    version: str | None
    said: str = ""


def observe_answer(host: Host, plan: InstancePlan) -> Answer:
    """Try to log in as the database's user."""
    result = host.run(
        [
            CLIENT_PROGRAMS[plan.flavour],
            f"--defaults-file={plan.option_file}",
            "--connect-timeout=5",
            "--batch",
            "--skip-column-names",
            "--execute",
            "SELECT VERSION()",
        ],
        daemon=plan.daemon,
        check=False,
        timeout_s=LOGIN_TIMEOUT_S,
    )
    # MariaDB adds where it was built: "11.8.6-MariaDB-0+deb13u1 from Debian-log".
    words = result.stdout.split()
    if result.returncode == 0 and words:
        return Answer(words[0])
    return Answer(None, result.stderr)


def last_words(host: Host, daemon: str) -> str:
    """The end of the daemon's log that says why it ended; no secret is in it."""
    # mariadb-install-db says why it failed, and then 20 lines of whom to ask.
    lines = host.daemon_log(daemon, last_lines=60).splitlines()
    # The password that mysqld invents for root is replaced and locked, yet not worth showing.
    shown = [line.strip() for line in lines if line.strip() and "password" not in line]
    errors = [line for line in shown if "ERROR" in line]
    return " / ".join(errors[-2:] or shown[-3:]) or "it wrote no message."


def _install_directory(plan: InstancePlan) -> list[str]:
    owner = ["-o", "0", "-g", str(MYSQL_GID)]
    return ["install", "-d", "-m", "0750", *owner, str(plan.directory)]


def _install_for_mysql(directory: PurePosixPath) -> list[str]:
    owner = ["-o", str(MYSQL_UID), "-g", str(MYSQL_GID)]
    return ["install", "-d", "-m", "0750", *owner, str(directory)]
