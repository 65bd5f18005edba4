"""The one way commands are started on this machine.

Every command leads a session of its own, so that ending it ends everything it started, and
so that a Ctrl-C at the terminal reaches Grampus first, which then decides. Output is read as
UTF-8; bytes that are none are replaced. Commands speak English (`LC_ALL=C.UTF-8`), since
their messages are read by programs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from grampus.core.clock import format_duration
from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.port import (
    COMMAND_TIMEOUT_S,
    CommandFailedError,
    CommandResult,
    describe_command,
)

# After TERM a command gets this long to tidy up before KILL.
TERM_GRACE_S = 5.0
# A process that KILL does not end sits in the kernel; nothing here can wait for it usefully.
KILL_GRACE_S = 2.0
# What is kept of the stderr of a spawned command: its end, where the reason stands.
STDERR_KEPT_BYTES = 256 * 1024

# Debian's package for each program that Grampus starts, where its name is another one.
PACKAGE_OF_PROGRAM: Mapping[str, str] = {
    "apt-config": "apt",
    "apt-get": "apt",
    "bridge": "iproute2",
    "ceph": "ceph-common",
    "dpkg-query": "dpkg",
    "fusermount3": "fuse3",
    "ip": "iproute2",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mount": "mount",
    "nft": "nftables",
    "nsenter": "util-linux",
    "rados": "ceph-common",
    "rbd": "ceph-common",
    "ssh": "openssh-client",
    "sysctl": "procps",
    "tc": "iproute2",
    "umount": "mount",
    "unshare": "util-linux",
    "xfs_growfs": "xfsprogs",
}


def run_command(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout_s: float = COMMAND_TIMEOUT_S,
    check: bool = True,
    where: str = "this machine",
    env: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command to its end.

    `stdin` is its whole input (None: empty). `env` is added to our own environment. `where`
    names the host in error sentences. A program left behind on purpose must not keep the
    command's stdout or stderr, or the command counts as running until it ends.

    Raises CommandFailedError on a non-zero code (when `check`), GrampusError with code
    `timeout` after `timeout_s` seconds (the command and all it started are ended first), with
    code `program-missing` when there is no such program, and `program-unusable` when it
    cannot be started.
    """
    process = start_command(argv, has_stdin=stdin is not None, env=env, where=where)
    try:
        stdout, stderr = process.communicate(
            None if stdin is None else stdin.encode(), timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise did_not_end(argv, timeout_s, where) from None
    finally:
        end_command(process)
    result = CommandResult(
        argv=tuple(argv),
        returncode=process.returncode,
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
    )
    if check and result.returncode != 0:
        raise CommandFailedError(where, result)
    return result


def did_not_end(argv: Sequence[str], timeout_s: float, where: str) -> GrampusError:
    """The error of a command that was stopped after `timeout_s` seconds."""
    return GrampusError(
        f"{describe_command(argv)} did not end within {format_duration(timeout_s)} on {where} and "
        "was stopped.",
        "`grampus host list` shows whether that host answers. `uptime` on "
        "the host shows its load. Then try again.",
        code="timeout",
    )


def spawn_command(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    where: str = "this machine",
    merge_stderr: bool = False,
) -> LocalCommand:
    """Start a command and return at once.

    `env` is added to our own environment; `merge_stderr` puts stderr among the lines of
    stdout. A command that still runs when Grampus ends is ended with it.

    Raises GrampusError with code `program-missing` or `program-unusable`.
    """
    process = start_command(
        argv, has_stdin=stdin is not None, env=env, where=where, merge_stderr=merge_stderr
    )
    return LocalCommand(tuple(argv), process, stdin)


@contextmanager
def read_command(
    argv: Sequence[str], *, where: str = "this machine", shown: Sequence[str] | None = None
) -> Iterator[ByteReader]:
    """The bytes that a command writes to stdout, read while it runs and never held as a whole.

    `shown` is the command as errors name it. The block must read to the end: what it leaves is
    cut off, and the command with it. Raises CommandFailedError at the end of the block when the
    command ended with another code than 0. When the block raises, the command is ended.
    """
    process = start_command(argv, has_stdin=False, env=None, where=where)
    words = LocalCommand(tuple(argv), process, None)
    try:
        assert process.stdout is not None  # noqa: S101 - `start_command` asks for a pipe
        yield process.stdout
        # Before the wait, which would otherwise gather what was left unread.
        process.stdout.close()
        _require_success(words, shown or argv, where)
    finally:
        words.terminate()


# How long a command may take to end by itself when its input was cut off.
END_OF_INPUT_TIMEOUT_S = 3.0


@contextmanager
def write_command(
    argv: Sequence[str], *, where: str = "this machine", shown: Sequence[str] | None = None
) -> Iterator[ByteWriter]:
    """What takes bytes for the stdin of a command, while it runs.

    As `read_command`. A command that ends before it has read everything fails with its own
    message, not with a broken pipe.
    """
    process = start_command(argv, has_stdin=True, env=None, where=where)
    words = LocalCommand(tuple(argv), process, None)
    stdin = process.stdin
    assert stdin is not None  # noqa: S101 - `start_command` asks for a pipe
    try:
        try:
            yield stdin
            stdin.close()
        except BrokenPipeError:
            _require_success(words, shown or argv, where)
            raise GrampusError(
                f"{describe_command(shown or argv)} ended on {where} before it had read its "
                "whole input.",
                "Try again.",
                code="command-failed",
            ) from None
        _require_success(words, shown or argv, where)
    finally:
        # A block that raised: at the end of its input a command lets go of what it holds. One that
        # is ended does not: rbd's watch on the image would stay for half a minute.
        with contextlib.suppress(BrokenPipeError):
            stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_OF_INPUT_TIMEOUT_S)
        words.terminate()


def _require_success(command: LocalCommand, shown: Sequence[str], where: str) -> None:
    result = command.wait()
    if result.returncode != 0:
        raise CommandFailedError(
            where, CommandResult(tuple(shown), result.returncode, "", result.stderr)
        )


class LocalCommand:
    """A command running on this machine; a `RunningCommand`.

    One thread may read (`lines`, then `wait`) while another calls `terminate`.
    """

    def __init__(
        self, argv: tuple[str, ...], process: subprocess.Popen[bytes], stdin: str | None
    ) -> None:
        self._argv = argv
        self._process = process
        self._reading = threading.Lock()
        self._ending = threading.Lock()
        self._stderr = bytearray()
        self._threads: list[threading.Thread] = []
        if process.stderr is not None:
            self._in_background(self._drain, process.stderr)
        if process.stdin is not None and stdin is not None:
            self._in_background(_feed, process.stdin, stdin.encode())

    @property
    def pid(self) -> int:
        """The command's process, which is also the id of its process group and session."""
        return self._process.pid

    def lines(self) -> Iterator[str]:
        """Lines of stdout as they come, without line ends, until the command ends.

        A KeyboardInterrupt that arrives while waiting for a line ends the command.
        """
        while True:
            try:
                line = self._next_line()
            except KeyboardInterrupt:
                self.terminate()
                raise
            if not line:
                return
            yield line.decode(errors="replace").rstrip("\r\n")

    def wait(self) -> CommandResult:
        """The result, with what `lines` has not consumed of stdout and the end of stderr.

        Does not raise on a non-zero code. A KeyboardInterrupt ends the command.
        """
        try:
            stdout = self._rest_of_stdout()
            self._process.wait()
        except KeyboardInterrupt:
            self.terminate()
            raise
        self._let_go()
        return CommandResult(
            argv=self._argv,
            returncode=self._process.returncode,
            stdout=stdout.decode(errors="replace"),
            stderr=bytes(self._stderr).decode(errors="replace"),
        )

    def terminate(self) -> None:
        """End the command if it still runs, and everything it started: TERM, then KILL."""
        with self._ending:
            if self._process.returncode is None:
                _end_group(self._process)
        stdout = self._process.stdout
        # A reader in another thread meets the end of the pipe and closes it itself.
        if stdout is not None and self._reading.acquire(blocking=False):
            try:
                stdout.close()
            finally:
                self._reading.release()
        self._let_go()

    def _next_line(self) -> bytes:
        stdout = self._process.stdout
        with self._reading:
            if stdout is None or stdout.closed:
                return b""
            line = stdout.readline()
            if not line:
                stdout.close()
            return line

    def _rest_of_stdout(self) -> bytes:
        stdout = self._process.stdout
        with self._reading:
            if stdout is None or stdout.closed:
                return b""
            rest = stdout.read()
            stdout.close()
            return rest

    def _let_go(self) -> None:
        # Bounded: a daemon the command left behind may keep the other end of stderr open.
        for thread in self._threads:
            thread.join(timeout=1.0)
        _live.discard(self._process)

    def _in_background(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _drain(self, stderr: IO[bytes]) -> None:
        # Without a reader a command that says much on stderr would stop at a full pipe.
        with stderr:
            while chunk := os.read(stderr.fileno(), 65536):
                self._stderr += chunk
                del self._stderr[:-STDERR_KEPT_BYTES]


# Commands that have not been waited for. No command outlives the Grampus that started it, not
# even when an interrupt strikes before its caller could take care of it.
_live: set[subprocess.Popen[bytes]] = set()


def _end_live() -> None:
    for process in list(_live):
        if process.returncode is None:
            _end_group(process)


atexit.register(_end_live)


# Of those, the ones that serve commands for others and have none at the moment. Nobody waits for
# them, and whoever is told to end may need one to undo what it did.
_resting: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def let_rest(process: subprocess.Popen[bytes]) -> None:
    """No thread waits for what this process does: it serves commands, and has none."""
    _resting.add(process)


@contextmanager
def serving(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """It has one meanwhile, and rests again afterwards."""
    _resting.discard(process)
    try:
        yield
    finally:
        _resting.add(process)


def commands_at_work() -> list[subprocess.Popen[bytes]]:
    """The processes of all commands that run now, whoever waits for them."""
    return [one for one in list(_live) if one.returncode is None and one not in _resting]


def ask_to_end(commands: Iterable[subprocess.Popen[bytes]]) -> None:
    """TERM to each of them that still runs, so that threads which wait for one of them go on."""
    for process in commands:
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)


def start_command(
    argv: Sequence[str],
    *,
    has_stdin: bool,
    env: Mapping[str, str] | None = None,
    where: str,
    merge_stderr: bool = False,
) -> subprocess.Popen[bytes]:
    """The process of a command, for whoever calls `end_command` of it.

    Raises GrampusError with code `program-missing` or `program-unusable`.
    """
    program = argv[0]
    try:
        with _interrupt_deferred():
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
                start_new_session=True,
            )
            _live.add(process)
        return process
    except FileNotFoundError:
        raise _program_missing(program, where) from None
    except OSError as error:
        raise GrampusError(
            f"The program {program} cannot be started on {where}: {error.strerror}.",
            "Check that the program is an executable file for this machine, and that you may "
            "run it.",
            code="program-unusable",
        ) from error


def require_program(program: str) -> None:
    """Raise GrampusError with code `program-missing` unless this machine has the program."""
    if shutil.which(program) is None:
        raise _program_missing(program, "this machine")


def _program_missing(program: str, where: str) -> GrampusError:
    package = PACKAGE_OF_PROGRAM.get(program, program)
    return GrampusError(
        f"The program {program} is missing on {where}.",
        f"Install the package {package} (on Debian: apt-get install {package})."
        if "/" not in program
        else "Check the path.",
        code="program-missing",
    )


def end_command(process: subprocess.Popen[bytes]) -> None:
    """End a command and all that it started, if it still runs, and let its pipes go."""
    if process.returncode is None:
        _end_group(process)
    _close_pipes(process)
    _live.discard(process)


@contextlib.contextmanager
def _interrupt_deferred() -> Iterator[None]:
    """Let a Ctrl-C wait for the end of the block.

    `Popen` interrupted between fork and return leaves a child that nobody knows. Python raises
    KeyboardInterrupt in the main thread only, and allows only that one to set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _frame: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous if previous is not None else signal.SIG_DFL)
        if pending:
            signal.raise_signal(signal.SIGINT)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """TERM to the whole group, KILL to what is left once the leader ends or the grace is over.

    The leader is reaped last: until then the kernel cannot give its id to another group.
    """
    _signal_group(process.pid, signal.SIGTERM)
    _wait_for_exit(process.pid, TERM_GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=KILL_GRACE_S)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _wait_for_exit(pid: int, timeout_s: float) -> None:
    """Wait until the process has ended, without reaping it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(timeout_s * 1000)
    finally:
        os.close(descriptor)


def _feed(stdin: IO[bytes], content: bytes) -> None:
    # A command may end without reading all its input; that is its own business.
    with contextlib.suppress(BrokenPipeError), stdin:
        stdin.write(content)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
