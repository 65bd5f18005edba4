"""Asks the command servers of one host, which it starts when they are needed."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from importlib import resources

from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandFailedError, CommandResult
from grampus.hosts.process import did_not_end, end_command, let_rest, serving, start_command

# Commands at once of one Grampus on one host; those beyond wait for a server of their own, which
# is not kept.
KEPT_SERVERS = 2
# How often a server is told that somebody still waits for its command, and after which silence it
# ends the command: long enough for a network that loses packets, and for a machine that is busy.
ALIVE_EVERY_S, SILENCE_S = 4.0, 20.0
# What is read of the stderr of a server that ended: why it could not be started.
STDERR_READ_BYTES = 16 * 1024
# As in `program.py`, which is read and not imported: no command runs it.
LENGTH, REQUEST, ANSWER = struct.Struct(">I"), struct.Struct(">dBI"), struct.Struct(">III")
_PROGRAMS = [
    resources.files("grampus.hosts.command_server").joinpath(name)
    for name in ("program.py", "connected.py")
]


class CommandServers:
    """Runs commands on a host, each by a server that is free.

    `exec_argv` makes the command on this machine that runs an argv on the host; it must not end
    with the thread that starts it, since a server serves others after it. `where` names the host
    in error sentences. `explain_end` makes the error of a server that ended, from what it said;
    without it the command counts as one that failed. Safe to be used by several threads.
    """

    def __init__(
        self,
        exec_argv: Callable[[Sequence[str]], list[str]],
        *,
        where: str,
        explain_end: Callable[[str], GrampusError] | None = None,
        program: Sequence[str] = (),
    ) -> None:
        """`program` answers requests instead of `program.py`, which runs commands."""
        self._program = program
        self._exec_argv = exec_argv
        self._where = where
        self._explain_end = explain_end
        self._lock = threading.Lock()
        self._free: list[_Server] = []

    def run(
        self, argv: Sequence[str], *, stdin: str | None, timeout_s: float, check: bool
    ) -> CommandResult:
        """Run a command to its end; input, result and errors as of `run_command`."""
        deadline = time.monotonic() + timeout_s
        server = self._taken()
        try:
            result = server.ask(argv, stdin, deadline)
        except TimeoutError:
            server.end()
            raise did_not_end(argv, timeout_s, self._where) from None
        except BaseException:
            server.end()
            raise
        self._give_back(server)
        if check and result.returncode != 0:
            raise CommandFailedError(self._where, result)
        return result

    def prepare(self) -> None:
        """Start a server for the next `run`, unless one is free: it starts meanwhile."""
        with self._lock:
            if self._free:
                return
        self._give_back(self._started())

    def close(self) -> None:
        """End the servers that are free. A later `run` starts one again."""
        with self._lock:
            servers, self._free = self._free, []
        for server in servers:
            server.end()

    def _taken(self) -> _Server:
        with self._lock:
            while self._free:
                server = self._free.pop()
                # The host may have been away since.
                if server.is_alive():
                    return server
                server.end()
        return self._started()

    def _started(self) -> _Server:
        texts = (one.read_text(encoding="utf-8") for one in _PROGRAMS)
        argv = self._exec_argv(self._program or ["python3", "-S", "-c", *texts])
        return _Server(argv, self._where, self._explain_end)

    def _give_back(self, server: _Server) -> None:
        with self._lock:
            if server.is_alive() and len(self._free) < KEPT_SERVERS:
                self._free.append(server)
                return
        server.end()


class _Server:
    """One server: its process, and the pipes to it."""

    def __init__(
        self,
        argv: Sequence[str],
        where: str,
        explain_end: Callable[[str], GrampusError] | None,
    ) -> None:
        self._explain_end = explain_end
        self._process = start_command(argv, has_stdin=True, where=where)
        let_rest(self._process)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        # At the end of its stdin it leaves by itself, sooner than by a signal through runc.
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=0.2)
        end_command(self._process)

    def ask(self, argv: Sequence[str], stdin: str | None, deadline: float) -> CommandResult:
        """Run one command. Raises TimeoutError at the deadline (of `time.monotonic`)."""
        request = render_request(argv, stdin, SILENCE_S)
        with serving(self._process):
            return self._answer_to(argv, request, deadline)

    def _answer_to(self, argv: Sequence[str], request: bytes, deadline: float) -> CommandResult:
        try:
            self._write(request, deadline)
            head = ANSWER.unpack(self._read(ANSWER.size, deadline))
            returncode, stdout_bytes, stderr_bytes = head
            stdout = self._read(stdout_bytes, deadline)
            stderr = self._read(stderr_bytes, deadline)
        except (EOFError, BrokenPipeError):
            return self._ended(argv)
        return CommandResult(
            argv=tuple(argv),
            returncode=returncode,
            stdout=stdout.decode(errors="replace"),
            stderr=stderr.decode(errors="replace"),
        )

    def _ended(self, argv: Sequence[str]) -> CommandResult:
        """The result of a command whose server ended: the host went, or could not start it."""
        said = b""
        stderr = self._process.stderr
        if stderr is not None:
            with contextlib.suppress(BlockingIOError):
                said = os.read(stderr.fileno(), STDERR_READ_BYTES)
        end_command(self._process)
        if self._explain_end is not None:
            raise self._explain_end(said.decode(errors="replace"))
        # Not 0, which runc says when it was told to end: nobody knows how the command ended.
        return CommandResult(
            tuple(argv), self._process.returncode or 255, "", said.decode(errors="replace")
        )

    def _say_alive(self) -> None:
        """An empty request. A pipe takes it whole or, when it is full, not at all."""
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        # A server that has ended is found out by reading.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._process.stdin.fileno(), LENGTH.pack(0))

    def _write(self, content: bytes, deadline: float) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        descriptor = self._process.stdin.fileno()
        view = memoryview(content)
        while view:
            while not _is_ready(descriptor, select.POLLOUT, deadline):
                pass
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(descriptor, view) :]

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101 - it was started with a pipe
        descriptor = self._process.stdout.fileno()
        content = bytearray()
        while len(content) < size:
            while not _is_ready(descriptor, select.POLLIN, deadline):
                self._say_alive()
            with contextlib.suppress(BlockingIOError):
                chunk = os.read(descriptor, size - len(content))
                if not chunk:
                    raise EOFError
                content += chunk
        return bytes(content)


def render_request(argv: Sequence[str], stdin: str | None, silence_s: float) -> bytes:
    """A request as `program.py` reads it."""
    words = [word.encode("utf-8", "surrogateescape") for word in argv]
    parts = [REQUEST.pack(silence_s, stdin is not None, len(words))]
    for word in words:
        parts += [LENGTH.pack(len(word)), word]
    content = b"".join([*parts, (stdin or "").encode()])
    return LENGTH.pack(len(content)) + content


def _is_ready(descriptor: int, event: int, deadline: float) -> bool:
    """Whether it is within ALIVE_EVERY_S. Raises TimeoutError when it is not at the deadline."""
    left_s = deadline - time.monotonic()
    poll = select.poll()
    poll.register(descriptor, event)
    if poll.poll(max(0.0, min(left_s, ALIVE_EVERY_S)) * 1000):
        return True
    if left_s <= ALIVE_EVERY_S:
        raise TimeoutError
    return False
