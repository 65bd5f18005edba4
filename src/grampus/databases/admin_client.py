"""The client that Grampus manages a server with, run inside the server's daemon.

It reaches the server through its socket, and through the server's administrative port when the
socket gives it no session: clients that hold every connection do not keep Grampus out (INV-72).
MySQL's administrative interface (`admin_address`) has no limit on sessions and takes those of
accounts with SERVICE_CONNECTION_ADMIN alone. MariaDB's `extra_port` has connections of its own.

The password and the statements reach the client on stdin: no command line and no file of the host
has either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.databases.accounts import ADMIN_USER
from grampus.databases.layout import (
    CLIENT_PROGRAMS,
    RUN_IN_DAEMON,
    InstancePlan,
    database_directory,
    tls_directory,
)
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.session_settings import render_session_options
from grampus.databases.settings import decide_admin_address, decide_admin_port
from grampus.hosts.port import CommandResult, Host

# The first lines of stdin, up to an empty one, are the client's option file; the rest is for the
# client. `read` takes no byte of a pipe beyond its line, and `printf` is a part of the shell.
READ_OPTIONS = (
    'options=; while IFS= read -r line && [ -n "$line" ]; do options="$options$line\n"; done'
)
_RUN_CLIENT = (
    f"{READ_OPTIONS}\n"
    'client=$1; shift; exec 4<&0; printf %s "$options" | '
    '"$client" --defaults-file=/dev/fd/3 "$@" 3<&0 0<&4'
)
# Said before the first statement: the server gave no session. Others, such as a wrong password
# (1045), would be said at the port, too. Source: mysqld_error.h, errmsg.h (the client's from 2000
# on).
_NO_SESSION = re.compile(r"^ERROR (?:1040|1129|1203|2002|2003|2006|2013) \(\w+\): ", re.MULTILINE)
# Of a client at the socket, if it can also go to the port.
_SOCKET_TIMEOUT_S = 5


@dataclass(frozen=True)
class AdminPort:
    """A server's administrative port."""

    address: str
    port: int
    authorities: PurePosixPath  # that signed the server's certificate


def admin_port_of(plan: InstancePlan) -> AdminPort:
    """The administrative port of an instance; a server that an earlier release started has none."""
    return _admin_port(plan.address, plan.port, plan.directory, shares_address=plan.shares_address)


def database_admin_port(spec: DatabaseSpec, data_dir: PurePosixPath) -> AdminPort:
    """The same of a database's own instance, on a host that keeps its things in `data_dir`."""
    directory = database_directory(data_dir, spec.name)
    return _admin_port(spec.address, spec.port, directory, shares_address=spec.shares_address)


def _admin_port(
    address: str, port: int, directory: PurePosixPath, *, shares_address: bool
) -> AdminPort:
    authorities = tls_directory(directory) / "ca.pem"
    admin_port = decide_admin_port(port, shares_address=shares_address)
    return AdminPort(decide_admin_address(address), admin_port, authorities)


def render_admin_options(
    password: SecretStr, flavour: FlavourName, port: AdminPort | None = None
) -> str:
    """The client's option file, for the socket or for `port`; the password needs no quoting.

    Each session sets what its statements depend on first: no parameter of a user decides whether
    they succeed (INV-72). The server of a port proves itself: MySQL's with a certificate, which
    does not name this address, and MariaDB's with what it knows of the password.
    """
    if port is None:
        place = [f"socket={RUN_IN_DAEMON / 'mysqld.sock'}"]
    else:
        place = [f"host={port.address}", f"port={port.port}", "protocol=tcp"]
        if flavour == "mysql":
            place += [f"ssl-ca={port.authorities}", "ssl-mode=VERIFY_CA"]
        else:
            place.append("ssl")
    return "\n".join(
        [
            "[client]",
            f"user={ADMIN_USER}",
            f"password={password.get_secret_value()}",
            *place,
            render_session_options(flavour),
        ]
    )


@dataclass(frozen=True)
class AdminClient:
    """How Grampus reaches one running server."""

    host: Host
    daemon: str
    flavour: FlavourName
    password: SecretStr
    port: AdminPort | None = None  # None: the server listens on its socket alone

    def run(self, sql: str, *, what: str, timeout_s: float) -> CommandResult:
        """Run statements; `what` names them in the list of processes. Raises what `Host.run` does.

        Statements that were begun are never begun again: only a client that got no session tries
        the port, and what the socket said counts if the port gives it none either.
        """
        arguments = (what, CLIENT_PROGRAMS[self.flavour], "--batch", "--skip-column-names")
        # `--binary-mode`: what is in quotes stays as it is.
        return self._run([_RUN_CLIENT, *arguments, "--binary-mode"], sql, timeout_s)

    def run_made(self, script: str, *, what: str, timeout_s: float) -> CommandResult:
        """Run the statements that a script of shell lines makes in the server's container.

        The script finds `$options` and `"$client" "$@"`, which takes its option file as
        descriptor 3. It must bear to be run twice. Raises what `Host.run` does.
        """
        lines = f"{READ_OPTIONS}\nclient=$1; shift\n{script}"
        return self._run([lines, what, CLIENT_PROGRAMS[self.flavour], "--batch"], "", timeout_s)

    def _run(self, words: Sequence[str], sql: str, timeout_s: float) -> CommandResult:
        if self.port is None:
            return self._ask(words, sql, None, timeout_s)
        first = [*words, f"--connect-timeout={_SOCKET_TIMEOUT_S}"]
        result = self._ask(first, sql, None, timeout_s)
        if not got_no_session(result):
            return result
        second = self._ask(words, sql, self.port, timeout_s)
        # A server of an earlier release has no such account, and no such port.
        return second if second.returncode == 0 or "at line" in second.stderr else result

    def _ask(
        self, words: Sequence[str], sql: str, port: AdminPort | None, timeout_s: float
    ) -> CommandResult:
        options = render_admin_options(self.password, self.flavour, port)
        return self.host.run(
            ["/bin/sh", "-c", *words],
            stdin=f"{options}\n{sql}\n",
            timeout_s=timeout_s,
            check=False,
            daemon=self.daemon,
        )


def got_no_session(result: CommandResult) -> bool:
    """Whether the client could not begin: no statement was sent to the server."""
    return result.returncode != 0 and _NO_SESSION.search(result.stderr) is not None
