"""HAProxy as a daemon of a host: started, asked through its socket, and ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.databases.endpoints.haproxy import render_look
from grampus.databases.instance import last_words, observe_daemon_state
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, RUN_IN_DAEMON
from grampus.hosts.port import Bind, DaemonSpec, Host, Limits

HAPROXY = "/usr/sbin/haproxy"
SOCKET = RUN_IN_DAEMON / "haproxy.sock"  # where every host image has a directory for sockets
# Twice what its buffers take with as many sessions as it accepts: 2 of 16 KiB each.
MEMORY_BYTES = 256 * MIB
# HAProxy reads a line of commands into one buffer (`tune.bufsize`, 16 KiB).
MAX_LINE_BYTES = 8192
START_TIMEOUT_S, ASK_TIMEOUT_S = 15.0, 10.0
# One line of commands on stdin, and its answer, through the socket that it is told of.
ASK = (
    "import socket, sys\n"
    "with socket.socket(socket.AF_UNIX) as s:\n"
    "    s.settimeout(5)\n"
    "    s.connect(sys.argv[1])\n"
    "    s.sendall(sys.stdin.buffer.read())\n"
    "    while part := s.recv(65536):\n"
    "        sys.stdout.write(part.decode())\n"
)


@dataclass(frozen=True)
class HaproxyDaemon:
    """One of them; every method is idempotent."""

    host: Host
    name: str  # of the daemon
    what: str  # that it serves, for sentences: `the read-only endpoint of shop`
    directory: PurePosixPath  # on the host, of its own
    uid: int  # of its own

    def is_running(self) -> bool:
        """Whether it runs; it may hang."""
        return observe_daemon_state(self.host, self.name) == "running"

    def write_config(self, config: str) -> None:
        """For its next start, whatever becomes of the one that runs."""
        self.host.write_file(self.directory / "haproxy.cfg", config)

    def ensure_started(self, clock: Clock) -> None:
        """It runs with the configuration of its start, and answers.

        One that hangs is ended first. Raises GrampusError with code `endpoint-stopped` or
        `timeout`.
        """
        if self.is_running() and self.asked(render_look()) is None:
            self.host.ensure_daemon_absent(self.name, kill=True)
        self.host.ensure_daemon(self._spec())
        wait_until(
            clock,
            self._has_answered,
            what=f"{self.what} to answer",
            remedy=f"Read the log of the daemon {self.name} on {self.host.name}.",
            timeout_s=START_TIMEOUT_S,
            interval_s=0.1,
        )

    def ensure_directories(self) -> None:
        """Its own directory, with that of its socket."""
        run = str(self.directory / "run")
        self.host.run(
            ["install", "-d", "-m", "0750", "-o", str(MYSQL_UID), "-g", str(MYSQL_GID), run]
        )

    def ensure_absent(self, *, kill: bool = False) -> None:
        """It does not run."""
        self.host.ensure_daemon_absent(self.name, kill=kill)

    def remove_files(self) -> None:
        """What it has on the host. It must have ended."""
        self.host.run(["rm", "-rf", str(self.directory)])

    def tell(self, commands: Sequence[str]) -> None:
        """Carry out commands, as many at once as HAProxy reads. Raises as `ask`."""
        for part in batched_lines(commands, MAX_LINE_BYTES):
            self.ask(part)

    def ask(self, commands: str) -> str:
        """The answer to one line of commands. Raises GrampusError with code `endpoint-silent`."""
        answer = self.asked(commands)
        if answer is None:
            raise GrampusError(
                f"{self.what[0].upper()}{self.what[1:]} does not answer on {self.host.name}.",
                f"Read the log of its daemon {self.name} there.",
                code="endpoint-silent",
            )
        return answer

    def asked(self, commands: str) -> str | None:
        """The same; None without an answer."""
        asked = self.host.run(
            ["python3", "-c", ASK, str(SOCKET)],
            stdin=f"{commands}\n",
            daemon=self.name,
            check=False,
            timeout_s=ASK_TIMEOUT_S,
        )
        return asked.stdout if asked.returncode == 0 else None

    def _has_answered(self) -> bool:
        if not self.is_running():
            raise GrampusError(
                f"HAProxy of {self.what} ended on {self.host.name}: "
                f"{last_words(self.host, self.name)}",
                "Fix the error above. `grampus serve` and `grampus db replica due` start "
                "HAProxy again.",
                code="endpoint-stopped",
            )
        return self.asked(render_look()) is not None

    def _spec(self) -> DaemonSpec:
        return DaemonSpec(
            name=self.name,
            # HAProxy leaves SIGTERM to the system, which keeps it from a container's first process.
            argv=("tini", "--", HAPROXY, "-db", "-f", str(self.directory / "haproxy.cfg")),
            binds=(
                Bind(str(self.directory), str(self.directory), read_only=True, owner=MYSQL_UID),
                Bind(str(self.directory / "run"), str(RUN_IN_DAEMON), owner=MYSQL_UID),
            ),
            limits=Limits(memory_bytes=MEMORY_BYTES),
            uid=self.uid,
            gid=self.uid,
        )


def batched_lines(commands: Sequence[str], most_bytes: int) -> list[str]:
    """Commands joined to lines that are no longer than this, in their order."""
    lines: list[str] = []
    for command in commands:
        if lines and len(lines[-1]) + 1 + len(command) <= most_bytes:
            lines[-1] += f";{command}"
        else:
            lines.append(command)
    return lines


def require_haproxy(host: Host) -> None:
    """Raise GrampusError with code `no-haproxy`: a lab of an earlier release has none."""
    found = host.run(["test", "-x", HAPROXY], check=False)
    if found.returncode != 0:
        raise GrampusError(
            f"The host {host.name} has no HAProxy, which endpoints and entries need.",
            "Its image belongs to an earlier release. A new lab has HAProxy, and `grampus host "
            "upgrade` gives it to a host of a site. Meanwhile, connect to the addresses of the "
            "servers.",
            code="no-haproxy",
        )
