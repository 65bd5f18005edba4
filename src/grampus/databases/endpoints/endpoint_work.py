"""What the steps of a change of a read-only endpoint do; every method is idempotent."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import PurePosixPath

from grampus.core.clock import wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.databases.endpoints.haproxy import (
    Member,
    parse_slots,
    render_changes,
    render_config,
    render_look,
)
from grampus.databases.host_addresses import require_free, take_address
from grampus.databases.instance import last_words, observe_daemon_state
from grampus.databases.layout import (
    MYSQL_GID,
    MYSQL_UID,
    RUN_IN_DAEMON,
    decide_daemon_uid,
)
from grampus.databases.model import ReadEndpoint
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Bind, DaemonSpec, Host, HostUnreachableError, Limits

HAPROXY = "/usr/sbin/haproxy"
SOCKET = RUN_IN_DAEMON / "haproxy.sock"  # where every host image has a directory for sockets
# Twice what its buffers take with as many sessions as it accepts: 2 of 16 KiB each.
MEMORY_BYTES = 256 * MIB
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


def endpoint_daemon(database: str) -> str:
    """The daemon that serves the read-only endpoint of a database."""
    return f"read-only-{database}"


class EndpointWork:
    """What the steps of one endpoint do."""

    def __init__(
        self, ports: StepPorts, database: str, port: int, members: tuple[Member, ...]
    ) -> None:
        """`members` are those that it is to lead to."""
        self._ports = ports
        self._database = database
        self._port = port
        self._members = members
        self._daemon = endpoint_daemon(database)

    def record(self, endpoint: ReadEndpoint) -> None:
        """Note where it is to be served, and by whom; hosts that still have to let go stay."""
        known = self._endpoint()
        left = set() if known is None else {*known.left_hosts, known.host}
        hosts = sorted(host for host in left if host is not None and host != endpoint.host)
        self._put(endpoint.model_copy(update={"left_hosts": tuple(hosts)}))

    def leave(self) -> None:
        """Served no longer where it was. A host that cannot be reached is told later."""
        hosts = {host.name for host in self._ports.fleet.hosts()}
        endpoint = self._endpoint()
        if endpoint is None:
            return
        kept = []
        for name in hosts.intersection(endpoint.left_hosts):
            try:
                self._leave(self._ports.fleet.host(name), endpoint)
            except HostUnreachableError:
                kept.append(name)
        self._put(endpoint.model_copy(update={"left_hosts": tuple(sorted(kept))}))

    def serve(self) -> None:
        """HAProxy runs at the endpoint's host, and leads to its members.

        Raises GrampusError with code `endpoint-stopped` or `timeout`.
        """
        endpoint = self._endpoint()
        if endpoint is None or endpoint.host is None:
            return
        host = self._ports.fleet.host(endpoint.host)
        directory = self._directory(host)
        run = directory / "run"
        host.run(
            ["install", "-d", "-m", "0750", "-o", str(MYSQL_UID), "-g", str(MYSQL_GID), str(run)]
        )
        members = self._led_to()
        self._write_config(host, endpoint, members)
        is_running = observe_daemon_state(host, self._daemon) == "running"
        if endpoint.port is None:
            host.ensure_address(endpoint.address)
        elif not is_running:
            require_free(host, (endpoint.port,), f"the read-only endpoint of {self._database}")
        if is_running and self._asked(host, render_look()) is None:
            host.ensure_daemon_absent(self._daemon, kill=True)  # it hangs
        host.ensure_daemon(self._daemon_spec(directory, endpoint))
        self._await_answer(host)
        self._lead(host, members)

    def is_leading(self, host: Host) -> bool:
        """Whether exactly the members are led to. Raises GrampusError when it does not answer."""
        return not self._changes(host, self._led_to())

    def restrict(self) -> None:
        """Nobody but the members is led to, if the endpoint is served at all.

        A host that cannot be reached serves nobody. One that runs and does not answer is ended, and
        so is one that served it before and could not be told.
        """
        self._lead_only_to(self._led_to())
        self.leave()

    def take_back(self) -> None:
        """The same of members that are about to be replicas again, and take no writes yet."""
        self._lead_only_to(self._members)

    # -- inside -------------------------------------------------------------------------------

    def _lead_only_to(self, members: Sequence[Member]) -> None:
        endpoint = self._endpoint()
        if endpoint is None:
            return
        names = tuple(one.name for one in members)
        self._put(endpoint.model_copy(update={"members": names}))
        if endpoint.host is None:
            return
        with contextlib.suppress(HostUnreachableError):
            host = self._ports.fleet.host(endpoint.host)
            if observe_daemon_state(host, self._daemon) != "running":
                return
            self._write_config(host, endpoint, members)
            try:
                self._lead(host, members)
            except HostUnreachableError:
                raise
            except GrampusError:
                host.ensure_daemon_absent(self._daemon, kill=True)

    def _lead(self, host: Host, members: Sequence[Member]) -> None:
        """Exactly the members are led to, by a process that runs."""
        commands = self._changes(host, members)
        if commands:
            self._ask(host, ";".join(commands))

    def _changes(self, host: Host, members: Sequence[Member]) -> list[str]:
        return render_changes(parse_slots(self._ask(host, render_look())), members)

    def _write_config(self, host: Host, endpoint: ReadEndpoint, members: Sequence[Member]) -> None:
        """For its next start, whatever becomes of the one that runs."""
        port = endpoint.port_beside(self._port)
        config = render_config(endpoint.address, port, members, str(SOCKET))
        host.write_file(self._directory(host) / "haproxy.cfg", config)

    def _led_to(self) -> list[Member]:
        """The members, but for one that became a database of its own in the meantime (INV-56)."""
        replicas = self._ports.records.followers(self._database)
        return [one for one in self._members if one.name in replicas]

    def _leave(self, host: Host, endpoint: ReadEndpoint) -> None:
        host.ensure_daemon_absent(self._daemon)
        take_address(host, endpoint)
        host.run(["rm", "-rf", str(self._directory(host))])

    def _await_answer(self, host: Host) -> None:
        def answered() -> bool:
            if observe_daemon_state(host, self._daemon) != "running":
                raise GrampusError(
                    f"HAProxy of the read-only endpoint of {self._database} ended on {host.name}: "
                    f"{last_words(host, self._daemon)}",
                    "Fix the error above. `grampus serve` and `grampus db replica due` start "
                    "HAProxy again.",
                    code="endpoint-stopped",
                )
            return self._asked(host, render_look()) is not None

        wait_until(
            self._ports.clock,
            answered,
            what=f"the read-only endpoint of {self._database} to answer",
            remedy=f"Read the log of the daemon {self._daemon} on {host.name}.",
            timeout_s=START_TIMEOUT_S,
            interval_s=0.1,
        )

    def _ask(self, host: Host, commands: str) -> str:
        answer = self._asked(host, commands)
        if answer is None:
            raise GrampusError(
                f"The read-only endpoint of {self._database} does not answer on {host.name}.",
                f"Read the log of its daemon {self._daemon} there.",
                code="endpoint-silent",
            )
        return answer

    def _asked(self, host: Host, commands: str) -> str | None:
        asked = host.run(
            ["python3", "-c", ASK, str(SOCKET)],
            stdin=f"{commands}\n",
            daemon=self._daemon,
            check=False,
            timeout_s=ASK_TIMEOUT_S,
        )
        return asked.stdout if asked.returncode == 0 else None

    def _endpoint(self) -> ReadEndpoint | None:
        return self._ports.records.find_read_endpoint(self._database)

    def _put(self, endpoint: ReadEndpoint) -> None:
        if self._ports.records.find(self._database) is not None:
            self._ports.records.put_read_endpoint(self._database, endpoint)

    def _directory(self, host: Host) -> PurePosixPath:
        return host.data_dir / "endpoints" / self._database

    def _daemon_spec(self, directory: PurePosixPath, endpoint: ReadEndpoint) -> DaemonSpec:
        own = decide_daemon_uid(endpoint.address, endpoint.port)
        return DaemonSpec(
            name=self._daemon,
            # HAProxy leaves SIGTERM to the system, which keeps it from a container's first process.
            argv=("tini", "--", HAPROXY, "-db", "-f", str(directory / "haproxy.cfg")),
            binds=(
                Bind(str(directory), str(directory), read_only=True, owner=MYSQL_UID),
                Bind(str(directory / "run"), str(RUN_IN_DAEMON), owner=MYSQL_UID),
            ),
            limits=Limits(memory_bytes=MEMORY_BYTES),
            uid=own,
            gid=own,
        )


def require_haproxy(host: Host) -> None:
    """Raise GrampusError with code `no-haproxy`: a lab of an earlier release has none."""
    found = host.run(["test", "-x", HAPROXY], check=False)
    if found.returncode != 0:
        raise GrampusError(
            f"The host {host.name} has no HAProxy, which is needed for read-only endpoints.",
            "Its image belongs to an earlier release. A new lab has HAProxy. Meanwhile, "
            "connect to the addresses of the replicas.",
            code="no-haproxy",
        )
