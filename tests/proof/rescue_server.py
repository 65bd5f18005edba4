"""A server of our own on a database's volume, on a host that the database does not know.

Grampus does not move databases between hosts yet: here that is done by hand, so that what a lost
host leaves in the cluster is what is looked at, and not what comes back with the host.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

VOLUME_IN_DAEMON = "/var/lib/mysql"  # where the binlog's index says that its files are
# Short, because the path of a socket holds at most 107 bytes (unix(7)); of the server's own user.
RUN_DIRECTORY = "/run/rescue"
SOCKET = f"{RUN_DIRECTORY}/mysqld.sock"
READY_S = 180.0
STOP_S = 120.0
# The lost host's certificates, addresses and places.
_ELSEWHERE = (
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "tls_version",
    "require_secure_transport",
    "bind_address",
    "port",
    "socket",
    "pid_file",
    "log_error_verbosity",
)


def render_rescue_config(config: str) -> str:
    """A database's my.cnf for a server that nobody reaches but through its socket, and that lets
    everybody in there."""
    kept = [line for line in config.splitlines() if line.split("=")[0].strip() not in _ELSEWHERE]
    own = [
        "skip_networking = ON",
        "skip_grant_tables = ON",
        f"socket = {SOCKET}",
        f"pid_file = {RUN_DIRECTORY}/mysqld.pid",
        "log_error_verbosity = 3",  # says whether there was anything to recover
        "user = mysql",
    ]
    return "\n".join([*kept, *own, ""])


def parse_recovery(log: str) -> list[str]:
    """What a server's log says of recovery, and of anything broken; whole lines."""
    words = ("recover", "corrupt", "[error]")
    return [line for line in log.splitlines() if any(word in line.lower() for word in words)]


def parse_check(rows: list[list[str]]) -> str:
    """What CHECK TABLE found wrong; empty: nothing. A row: table, operation, kind, text."""
    wrong = [row for row in rows if row[2:] not in (["status", "OK"], ["note", "OK"])]
    return "; ".join(" ".join(row) for row in wrong)


class RescueServer:
    """A running server on the volume mounted at `volume` on one host."""

    def __init__(self, machine: LabMachine) -> None:
        self._machine = machine
        self.log = machine.scratch() / "rescue.log"

    @contextmanager
    def started(self, volume: str, config: str) -> Iterator[float]:
        """The server on a database's `config`; how long it took to answer, in seconds."""
        file = self._machine.scratch() / "rescue.cnf"
        file.write_text(render_rescue_config(config))
        script = (
            f"install -d -o mysql -g mysql {RUN_DIRECTORY} {VOLUME_IN_DAEMON} && "
            f"mount --bind {volume} {VOLUME_IN_DAEMON} && "
            f"exec mysqld --defaults-file={file}"
        )
        began_s = time.monotonic()
        with self.log.open("w") as log:
            server = subprocess.Popen(
                self._machine.argv("unshare", "--mount", "sh", "-c", script),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        with server:
            try:
                wait_for(
                    lambda: server.poll() is not None or self._answers(),
                    "the server to answer",
                    READY_S,
                )
                assert server.poll() is None, f"the server ended: {_last_lines(self.log)}"
                yield time.monotonic() - began_s
            finally:
                self._machine.run("mysqladmin", "--no-defaults", "-S", SOCKET, "shutdown")
                try:
                    server.wait(STOP_S)
                finally:
                    server.kill()

    def sql(self, statement: str) -> list[list[str]]:
        """Rows that a statement gives."""
        client = ("mysql", "--no-defaults", "-S", SOCKET, "--batch", "--skip-column-names")
        printed = self._machine.ok(*client, "-e", statement, timeout_s=300)
        return [line.split("\t") for line in printed.splitlines()]

    def _answers(self) -> bool:
        asked = ("mysqladmin", "--no-defaults", "-S", SOCKET, "ping")
        return self._machine.run(*asked).code == 0


def _last_lines(log: Path) -> str:
    text = log.read_text()
    return "\n".join(parse_recovery(text)[-5:] or text.splitlines()[-5:])
