"""The machine that Grampus itself runs on, as a host: it runs commands, and keeps no daemons.

Such is the host of a client of a cluster that is elsewhere.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from grampus.core.errors import RefusedError, not_found
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.port import (
    COMMAND_TIMEOUT_S,
    CommandResult,
    CpuWait,
    DaemonSpec,
    DaemonStatus,
    Host,
    Limits,
    RunningCommand,
    Usage,
)
from grampus.hosts.process import read_command, run_command, spawn_command, write_command
from grampus.state.home import ensure_same, read_if_there, require_below, write_owned

_ADDRESS = "127.0.0.1"


class ThisMachine:
    """A `Host`: this machine, with whatever rights Grampus has on it."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._name = socket.gethostname().partition(".")[0] or "localhost"

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> str:
        return _ADDRESS

    @property
    def data_dir(self) -> PurePosixPath:
        return PurePosixPath(self._data_dir)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        if daemon is not None:
            raise self._no_daemons()
        return run_command(argv, stdin=stdin, timeout_s=timeout_s, check=check)

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> RunningCommand:
        return spawn_command(argv, stdin=stdin)

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        return read_command(argv)

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        return write_command(argv)

    def terminal_argv(self, argv: Sequence[str], *, daemon: str, tty: bool) -> list[str]:
        raise self._no_daemons()

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        write_owned(self._writable(path), content, mode=mode, uid=uid, gid=gid)

    def ensure_copy(self, source: Path, path: PurePosixPath, *, mode: int = 0o644) -> None:
        ensure_same(source, self._writable(path), mode=mode)

    def read_file(self, path: PurePosixPath) -> str | None:
        return read_if_there(path)

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        raise self._no_daemons()

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        """There is none."""

    def set_limits(self, name: str, limits: Limits) -> None:
        raise self._no_daemons()

    def observe_daemons(self) -> list[DaemonStatus]:
        return []

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        return None

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return ""

    def observe_usage(self) -> dict[str, Usage]:
        return {}

    def observe_cpu_waits(self, daemons: Collection[str]) -> dict[str, CpuWait]:
        return {}

    def ensure_address(self, address: str) -> None:
        raise self._no_daemons()

    def ensure_address_absent(self, address: str) -> None:
        """It has none of ours."""

    def _no_daemons(self) -> RefusedError:
        return RefusedError(
            f"Grampus only runs commands on {self._name}, and no daemons or addresses.",
            "Use a lab (`grampus lab up`).",
            code="no-daemons",
        )

    def _writable(self, path: PurePosixPath) -> Path:
        return require_below(path, self._data_dir, self._name)


class ThisMachineAlone:
    """A `Fleet` of this machine."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def hosts(self) -> list[Host]:
        return [self._host]

    def host(self, name: str) -> Host:
        if name != self._host.name:
            raise not_found("host", name, [self._host.name], list_command="hostname")
        return self._host

    def is_reachable(self, name: str) -> bool:
        return name == self._host.name

    def reaches_cluster(self, name: str) -> bool:
        return self.is_reachable(name)

    def database_addresses(self) -> Sequence[str]:
        return ()

    def database_ports(self) -> Sequence[int]:
        return ()

    def find_address_holder(self, address: str) -> str | None:
        del address
        return None  # it gives no addresses
