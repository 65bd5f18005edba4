"""The Host port: a machine that runs commands and daemons.

A host is reached the same way whether it is a network namespace of the lab or a machine
elsewhere; nothing above this package may know which. All paths are paths on that host.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader, ByteWriter

DaemonState = Literal["running", "stopped", "absent"]
# A command on a host takes milliseconds. On a disk that stalls, a rename has taken over a minute:
# that is waited out. What may take longer, or should be given up sooner, says so.
COMMAND_TIMEOUT_S = 300.0
# Such as `snap` of `rbd snap create`; a path or a value says nothing.
_VERB = re.compile(r"[a-z][a-z-]*", re.ASCII)


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


_SHELLS = ("bash", "sh")
_INTERPRETERS = (*_SHELLS, "python3")
_WRAPPERS = ("timeout", "env")
_SIGNALS = {
    signal.SIGKILL: "it was killed, probably because it needed more memory than its limit",
    signal.SIGTERM: "it was terminated",
    signal.SIGSEGV: "it crashed",
    signal.SIGABRT: "it crashed",
    signal.SIGPIPE: "the reader of its output has ended",
    signal.SIGXFSZ: "a file became too large",
}
_CODES = {
    124: "it took too long and was ended",
    126: "the program cannot be run",
    127: "the program is not installed there",
}


def describe_command(argv: Sequence[str]) -> str:
    """A command in a message: its program and what it is to do there, never a script.

    A script is named by the name that it is run under (`bash -c SCRIPT NAME ...`).
    """
    words = list(argv)
    while words and words[0] in _WRAPPERS:  # `timeout 5 bash ...`, `env NAME=VALUE ...`
        wrapper = words.pop(0)
        while words and ("=" in words[0] or (wrapper == "timeout" and words[0][:1].isdigit())):
            words.pop(0)
    program, rest = PurePosixPath(words[0]).name if words else "a command", words[1:]
    if program in _INTERPRETERS:
        script = next((i for i, word in enumerate(rest) if " " in word or "\n" in word), None)
        named = rest[script + 1 :] if script is not None and program in _SHELLS else []
        if not named or named[0] in _SHELLS:
            return "A script of Grampus"
        if "-" in named[0]:
            return f"The script '{named[0]}' of Grampus"
        program, rest = PurePosixPath(named[0]).name, named[1:]
    verb = next((word for word in rest if not word.startswith("-")), "")
    return f"`{program} {verb}`" if _VERB.fullmatch(verb) else f"`{program}`"


def explain_code(code: int) -> str:
    """What the code with which a command ended means, in words."""
    number = -code if code < 0 else code - 128
    if (code < 0 or code > 128) and number in _SIGNALS:
        return _SIGNALS[signal.Signals(number)]
    return _CODES.get(code, f"it ended with code {code}")


class CommandFailedError(GrampusError):
    """A command on a host ended with a non-zero code."""

    default_code = "command-failed"

    def __init__(self, where: str, result: CommandResult) -> None:
        last_lines = (result.stderr.strip() or result.stdout.strip()).splitlines()[-3:]
        said = " ".join(last_lines).rstrip(".")
        why = explain_code(result.returncode)
        reason = f"{said} ({why})" if said else why
        super().__init__(
            f"{describe_command(result.argv)} failed on {where}: {reason}.",
            "`grampus host list` shows the state of the hosts. Fix the "
            "error above, then try again.",
        )
        self.result = result


class HostUnreachableError(GrampusError):
    """The host is down or cut off."""

    default_code = "host-unreachable"


@dataclass(frozen=True)
class Bind:
    """A directory or file of the host seen inside a daemon.

    `shared` lets mounts made inside the daemon appear on the host (needed by FUSE servers).

    `owner` is the number of a user and of a group. What they own on disk belongs to the daemon's
    own user and group inside the daemon, and what the daemon makes belongs to them on disk. Where
    the host's kernel or file system cannot do that, the daemon runs as that user itself.
    """

    source: str
    target: str
    read_only: bool = False
    shared: bool = False
    owner: int | None = None


@dataclass(frozen=True)
class BlockLimit:
    """Limits on one block device of a daemon; None is unlimited."""

    device: str
    read_iops: int | None = None
    write_iops: int | None = None
    read_bytes_per_s: int | None = None
    write_bytes_per_s: int | None = None


@dataclass(frozen=True)
class Limits:
    """What a daemon may use; None is unlimited."""

    cpus: float | None = None
    memory_bytes: int | None = None
    block: tuple[BlockLimit, ...] = ()


@dataclass(frozen=True)
class DaemonSpec:
    """A daemon as it shall run: an OCI container in its host's network namespace."""

    name: str
    argv: tuple[str, ...]
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    image: str | None = None  # a host image's id; None is the host's own
    uid: int = 0
    gid: int = 0
    devices: tuple[str, ...] = ()  # block devices it may use, such as /dev/loop3
    privileged: bool = False  # may mount and see all devices (FUSE servers)
    stop_signal: str = "TERM"
    stop_timeout_s: float = 15.0
    # As a program that runs on the host itself: in its namespaces of processes, IPC and names, with
    # all its capabilities. Only the files that it sees are its own.
    bare: bool = False


@dataclass(frozen=True)
class DaemonStatus:
    """A daemon as observed. `pid` is that of its first process on the machine, if it runs."""

    name: str
    state: DaemonState
    pid: int | None = None
    # Processes that the kernel ended because the daemon reached its memory limit, since it began.
    # Of one that has ended alone; 0: none, or nobody knows (its host was restarted since).
    out_of_memory: int = 0
    uid: int | None = None  # the user that its first process runs as, if it runs
    # It runs from an older host image or program than it would start from now.
    is_outdated: bool = False


@dataclass(frozen=True)
class Usage:
    """Counters since the daemon began; subtract two readings to get rates."""

    cpu_us: int
    memory_bytes: int
    read_ops: int
    write_ops: int
    read_bytes: int
    write_bytes: int


# Among a host's daemons: all that runs there for Grampus together.
WHOLE_HOST = "host"


@dataclass(frozen=True)
class CpuWait:
    """How long a daemon's threads wanted a CPU and had none, since they began; in microseconds.

    `waited_us` is summed over its present threads, so that it goes back when one ends; 0 of a host.
    `throttled_us` is the part of the time in which its control group had used up its CPU limit,
    summed over CPUs; 0 without a limit.
    """

    waited_us: int
    throttled_us: int = 0


class RunningCommand(Protocol):
    """A command that has been started and is read while it runs."""

    def lines(self) -> Iterator[str]:
        """Lines of stdout as they come, without line ends, until the command ends."""
        ...

    def wait(self) -> CommandResult:
        """The result (stdout is empty when `lines` consumed it)."""
        ...

    def terminate(self) -> None:
        """End the command if it still runs, and everything it started."""
        ...


class Host(Protocol):
    """A machine that runs commands and daemons."""

    @property
    def name(self) -> str:
        """The host's name, unique in its fleet."""
        ...

    @property
    def address(self) -> str:
        """The host's own IPv4 address."""
        ...

    @property
    def data_dir(self) -> PurePosixPath:
        """Where Grampus keeps things on this host; seen alike by commands and by daemons' binds."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        """Run a command on the host, or inside one of its daemons' containers.

        Raises CommandFailedError on a non-zero code (when `check`), HostUnreachableError when
        the host is down or cut off, GrampusError with code `timeout` after `timeout_s`.
        """
        ...

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> RunningCommand:
        """Start a command on the host and return at once."""
        ...

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """The bytes that a command on the host writes to stdout, read while it runs.

        The block must read to the end. CommandFailedError is raised at its end when the command
        failed; when the block raises, the command is ended.
        """
        ...

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """What takes bytes for the stdin of a command on the host; errors as `reading`."""
        ...

    def terminal_argv(self, argv: Sequence[str], *, daemon: str, tty: bool) -> list[str]:
        """The command on the user's machine that runs `argv` in a daemon at their terminal.

        `tty` asks for a terminal inside; leave it out when stdin is a pipe or a file.
        """
        ...

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        """Replace a file atomically, making its directory when missing."""
        ...

    def ensure_copy(self, source: Path, path: PurePosixPath, *, mode: int = 0o644) -> None:
        """Put a file of the machine that Grampus runs on at `path`, unless it is there already.

        Compared by digest, replaced atomically: a program that runs from `path` keeps the file
        that it was started from. An implementation for hosts elsewhere sends the digest first,
        then the bytes if they differ to a temporary file beside `path`, synchronises it and
        renames it. Raises GrampusError with code `no-such-file` when there is no `source`.
        """
        ...

    def read_file(self, path: PurePosixPath) -> str | None:
        """The text of a file, or None when there is none."""
        ...

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        """Start the daemon unless it runs."""
        ...

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        """Stop the daemon (`kill`: at once, without its stop signal) and remove its container."""
        ...

    def set_limits(self, name: str, limits: Limits) -> None:
        """Change how much CPU and memory a running daemon may use; block limits stay as they are.

        Raises GrampusError with code `daemon-absent` when it does not run, RefusedError with code
        `memory-in-use` when it uses more memory than it shall have: nothing of it is ended.
        """
        ...

    def observe_daemons(self) -> list[DaemonStatus]:
        """The daemons that were started here and not removed, sorted by name."""
        ...

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        """One of them, without a look at the others; None: it is not there."""
        ...

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        """The end of what the daemon wrote to stdout and stderr."""
        ...

    def observe_usage(self) -> dict[str, Usage]:
        """Counters by daemon."""
        ...

    def observe_cpu_waits(self, daemons: Collection[str]) -> dict[str, CpuWait]:
        """Of these, by name; one whose waiting the kernel does not count is left out.

        Where all daemons and commands of the host share a limit, `WHOLE_HOST` has what that held
        them back. A reading costs a file for each thread.
        """
        ...

    def ensure_address(self, address: str) -> None:
        """Give the host a further IPv4 address (a database's own)."""
        ...

    def ensure_address_absent(self, address: str) -> None:
        """Take the further address away."""
        ...


class Fleet(Protocol):
    """The hosts that Grampus may use."""

    def hosts(self) -> list[Host]:
        """All hosts, sorted by name, also those that are down."""
        ...

    def host(self, name: str) -> Host:
        """The host named `name`. Raises NotFoundError."""
        ...

    def is_reachable(self, name: str) -> bool:
        """Whether commands can be run there now."""
        ...

    def reaches_cluster(self, name: str) -> bool:
        """Whether commands can be run there now, and nothing says that they get no answer from the
        cluster."""
        ...

    def database_addresses(self) -> Sequence[str]:
        """IPv4 addresses that databases may be given, in order of preference."""
        ...

    def database_ports(self) -> Sequence[int]:
        """TCP ports that databases may be given at the addresses of their hosts, in order of
        preference; empty: they get addresses of their own."""
        ...

    def find_address_holder(self, address: str) -> str | None:
        """The MAC of a machine that answers at a database's address, which shall be new.

        None: nobody answers, or nobody else can be in that network.
        """
        ...
