"""A host in memory, and a fleet of them.

What runs on a host differs from test to test: a subclass plays its programs (`play`) and what
becomes of a daemon that starts or stops (`start`, `stop`). It must refuse what a real one refuses,
and fail the test on a command that it does not know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.port import (
    COMMAND_TIMEOUT_S,
    CommandFailedError,
    CommandResult,
    CpuWait,
    DaemonSpec,
    DaemonState,
    DaemonStatus,
    HostUnreachableError,
    Limits,
    RunningCommand,
    Usage,
)
from tests.fakes.interruption import Fuse


@dataclass
class FakeFile:
    content: str
    mode: int = 0o644
    uid: int = 0


@dataclass
class FakeDaemon:
    spec: DaemonSpec
    state: DaemonState = "running"
    log: str = ""
    out_of_memory: int = 0  # processes that its memory limit ended
    limits: Limits = field(init=False)  # as they are now

    def __post_init__(self) -> None:
        self.limits = self.spec.limits


def ended(
    where: str, argv: Sequence[str], code: int, text: str, *, check: bool = True
) -> CommandResult:
    """How a command ended: `text` is its stdout if it succeeded, else its stderr."""
    result = CommandResult(tuple(argv), code, "" if code else text, text if code else "")
    if check and code:
        raise CommandFailedError(where, result)
    return result


def is_below(path: PurePosixPath, place: str) -> bool:
    """Whether a path is `place`, a directory that ends with a slash, or in it.

    As `is_relative_to`, at a tenth of its cost: operations that are stopped everywhere ask often.
    """
    return f"{path}/".startswith(place)


class FakeHost:
    """A `Host`. It fails while it is not `up`, and where its `fuse` burns through."""

    def __init__(
        self, name: str = "h1", *, address: str = "10.0.0.1", fuse: Fuse | None = None
    ) -> None:
        self.name = name
        self.address = address
        self.data_dir = PurePosixPath("/data")
        self.fuse = fuse or Fuse()
        self.up = True
        self.files: dict[PurePosixPath, FakeFile] = {}
        self.daemons: dict[str, Any] = {}  # `FakeDaemon`s, or what a subclass makes of them
        self.addresses: set[str] = set()
        self.usage: dict[str, Usage] = {}
        self.cpu_waits: dict[str, CpuWait] = {}
        self.commands: list[tuple[str, ...]] = []

    def require_up(self) -> None:
        if not self.up:
            raise HostUnreachableError(f"The host {self.name} is down.", "Start it.")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around a change: what stops it does so before it or after it."""
        self.require_up()
        self.fuse.burn()
        yield
        self.fuse.burn()

    # -- commands -----------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        self.require_up()
        self.commands.append(tuple(argv))
        code, text = self.play(list(argv), stdin, daemon)
        return ended(self.name, argv, code, text, check=check)

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        """The code of a command, and what it prints."""
        raise AssertionError(f"a command that no host was told of: {argv}")

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> RunningCommand:
        raise AssertionError(f"a command that no host was told of: {argv}")

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        raise AssertionError(f"a command that no host was told of: {argv}")

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        raise AssertionError(f"a command that no host was told of: {argv}")

    def terminal_argv(self, argv: Sequence[str], *, daemon: str, tty: bool) -> list[str]:
        raise AssertionError("nobody opens a terminal here")

    # -- files --------------------------------------------------------------------------------

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        with self.changing():
            self.files[path] = FakeFile(content, mode, uid)

    def ensure_copy(self, source: Path, path: PurePosixPath, *, mode: int = 0o644) -> None:
        with self.changing():
            self.files[path] = FakeFile(source.read_bytes().decode("latin-1"), mode)

    def read_file(self, path: PurePosixPath) -> str | None:
        found = self.files.get(path)
        return None if found is None else found.content

    def text(self, path: str | PurePosixPath) -> str:
        """What is in a file that must be there."""
        return self.files[PurePosixPath(path)].content

    def put(self, path: str | PurePosixPath, content: str) -> None:
        """A file that is there, whoever wrote it."""
        self.files[PurePosixPath(path)] = FakeFile(content)

    def below(self, directory: PurePosixPath) -> dict[PurePosixPath, FakeFile]:
        """A file, or all in a directory."""
        place = f"{directory}/"
        return {path: file for path, file in self.files.items() if is_below(path, place)}

    # -- daemons ------------------------------------------------------------------------------

    def runs(self, daemon: str | None) -> bool:
        return daemon in self.daemons and self.daemons[daemon].state == "running"

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        self.require_up()
        if not self.runs(spec.name):
            with self.changing():
                self.daemons[spec.name] = self.start(spec)

    def start(self, spec: DaemonSpec) -> Any:
        """What becomes of a daemon that is started."""
        return FakeDaemon(spec)

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        with self.changing():
            if name in self.daemons:
                self.stop(name, kill=kill)
            self.daemons.pop(name, None)

    def stop(self, name: str, *, kill: bool) -> None:
        """What becomes of the host when a daemon that is there is removed."""

    def set_limits(self, name: str, limits: Limits) -> None:
        self.require_up()
        if not self.runs(name):
            raise GrampusError(f"The daemon {name} does not run.", code="daemon-absent")
        with self.changing():
            self.daemons[name].limits = limits

    def observe_daemons(self) -> list[DaemonStatus]:
        self.require_up()
        return [self._status(name) for name in sorted(self.daemons)]

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        return next((one for one in self.observe_daemons() if one.name == name), None)

    def _status(self, name: str) -> DaemonStatus:
        daemon = self.daemons[name]
        return DaemonStatus(
            name,
            daemon.state,
            out_of_memory=daemon.out_of_memory,
            uid=daemon.spec.uid if daemon.state == "running" else None,
        )

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return str(self.daemons[name].log) if name in self.daemons else ""

    def observe_usage(self) -> dict[str, Usage]:
        return dict(self.usage)

    def observe_cpu_waits(self, daemons: Collection[str]) -> dict[str, CpuWait]:
        return {name: wait for name, wait in self.cpu_waits.items() if name in daemons}

    # -- addresses ----------------------------------------------------------------------------

    def ensure_address(self, address: str) -> None:
        with self.changing():
            self.addresses.add(address)

    def ensure_address_absent(self, address: str) -> None:
        with self.changing():
            self.addresses.discard(address)


class FakeFleet:
    """A `Fleet` of hosts in memory; those that are not `up` cannot be reached."""

    def __init__(self, hosts: Iterable[Any], addresses: Sequence[str] = ()) -> None:
        self.by_name = {host.name: host for host in hosts}
        self._addresses = tuple(addresses)
        self.cut_from_cluster: set[str] = set()  # hosts that run commands, and reach no MON
        self.holders: dict[str, str] = {}  # MACs of machines of others, by their address
        self.ports: Sequence[int] = ()  # of the hosts, for databases without addresses of their own

    def hosts(self) -> list[Any]:
        return [self.by_name[name] for name in sorted(self.by_name)]

    def host(self, name: str) -> Any:
        if name not in self.by_name:
            raise NotFoundError(f"There is no host named '{name}'.")
        return self.by_name[name]

    def is_reachable(self, name: str) -> bool:
        return bool(self.by_name[name].up)

    def reaches_cluster(self, name: str) -> bool:
        return self.is_reachable(name) and name not in self.cut_from_cluster

    def database_addresses(self) -> Sequence[str]:
        return self._addresses

    def database_ports(self) -> Sequence[int]:
        return self.ports

    def find_address_holder(self, address: str) -> str | None:
        return self.holders.get(address)
