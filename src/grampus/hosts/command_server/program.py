"""What runs on the host: commands, one after the other, as they are asked for on stdin.

Started as `python3 -c` with this file's text, so it needs nothing but a Python of 3.9 or later.
Of a request and of an answer the first four bytes are the length of a JSON document. A request
is `{"argv": [...], "stdin": "..." or null, "silence_s": n}`; an answer is `{"returncode": n,
"stdout_bytes": n, "stderr_bytes": n}`, and these bytes follow it. While a command runs, whoever
asked for it sends an empty document (length 0) every few seconds. A command whose asker is silent
for `silence_s` is ended, and this with it: a machine that lost its power or its network ends no
connection.

A script for Python (`python3 -c`) runs in a fork of this process, which has Ceph's libraries
loaded already. When stdin ends or TERM comes, the command that runs is ended, too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import Any

TERM_GRACE_S = 3.0
_HEADER_BYTES = 4
# As `runc exec` ends when the program is not there.
CANNOT_START = 255
# Libraries that are worth loading once, when a script names them.
SLOW_LIBRARIES = ("rados", "rbd", "socket")


class Gone(BaseException):
    """Nobody waits for the answer any more."""


class Asker:
    """Whoever asked for the command that runs: when we last heard of them.

    `silence_s`: how long they may say nothing.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._heard_s = time.monotonic()
        self._extra_bytes = 0

    def left_s(self) -> float:
        """Seconds until they count as gone."""
        return max(0.0, self._heard_s + self._silence_s - time.monotonic())

    def listen(self) -> None:
        """Take what they have sent. Raises Gone at the end of stdin."""
        chunk = os.read(0, 4096)
        if not chunk:
            raise Gone
        self._heard_s = time.monotonic()
        self._extra_bytes += len(chunk)

    def rest_bytes(self) -> int:
        """How much of an empty document is still on its way."""
        return -self._extra_bytes % _HEADER_BYTES


class Command:
    """A command that was started: its process group, and our ends of its pipes."""

    def __init__(self, pid: int, stdin: int | None, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin = stdin
        self.output = {stdout: bytearray(), stderr: bytearray()}
        self.stdout = stdout
        self.stderr = stderr


def read_exactly(size: int, leaving: int) -> bytes:
    """`size` bytes of stdin. Raises Gone where it ends, and when we are to leave."""
    content = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(leaving, selectors.EVENT_READ)
        while len(content) < size:
            ready = {key.fd for key, _ in selector.select()}
            chunk = b"" if leaving in ready else os.read(0, size - len(content))
            if not chunk:
                raise Gone
            content += chunk
    return bytes(content)


def write_all(content: bytes) -> None:
    """All of it to stdout."""
    view = memoryview(content)
    while view:
        view = view[os.write(1, view) :]


def answer(returncode: int, stdout: bytes, stderr: bytes) -> None:
    """Write an answer."""
    document = {
        "returncode": returncode,
        "stdout_bytes": len(stdout),
        "stderr_bytes": len(stderr),
    }
    header = json.dumps(document).encode()
    write_all(struct.pack(">I", len(header)) + header + stdout + stderr)


def start(argv: list[str], has_stdin: bool) -> Command:
    """Start a command in a session of its own. Raises OSError when it cannot be."""
    if argv[:2] == ["python3", "-c"] and len(argv) > 2:
        return fork_script(argv[2], argv[3:])
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    process.returncode = 0  # `finish` waits for it, not its object
    return Command(process.pid, *map(take_over, (process.stdin, process.stdout, process.stderr)))


def take_over(file: Any) -> Any:
    """The descriptor of a file, which is ours from here on; None of none."""
    if file is None:
        return None
    with file:
        return os.dup(file.fileno())


def fork_script(script: str, arguments: list[str]) -> Command:
    """Run a script in a fork of ourselves."""
    for library in SLOW_LIBRARIES:
        if library in script:
            with contextlib.suppress(ImportError):  # the script will say so
                importlib.import_module(library)
    pipes = [os.pipe() for _ in range(3)]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for ours, number in ((pipes[0][0], 0), (pipes[1][1], 1), (pipes[2][1], 2)):
                os.dup2(ours, number)
            for pipe in pipes:
                os.close(pipe[0])
                os.close(pipe[1])
            code = run_script(script, arguments)
        finally:
            os._exit(code)
    (stdin_read, stdin), (stdout, stdout_write), (stderr, stderr_write) = pipes
    for descriptor in (stdin_read, stdout_write, stderr_write):
        os.close(descriptor)
    return Command(pid, stdin, stdout, stderr)


def run_script(script: str, arguments: list[str]) -> int:
    """The code with which Python would end after this script."""
    sys.argv = ["-c", *arguments]
    code = 0
    try:
        # What was asked for, as `python3 -c` would.
        exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
    except SystemExit as left:
        if isinstance(left.code, int):
            code = left.code
        elif left.code is not None:
            sys.stderr.write(f"{left.code}\n")
            code = 1
    except BaseException:  # noqa: BLE001 - whatever ends a script is told as Python tells it
        # Imported only here: it takes a third of the time in which this program starts.
        importlib.import_module("traceback").print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = code or 1
    return code


def finish(
    command: Command, content: bytes, leaving: int, asker: Asker
) -> tuple[int, bytes, bytes]:
    """Feed the command, gather what it says, and wait for its end: (status, stdout, stderr).

    Raises Gone when our own stdin ends meanwhile, when the asker is silent for too long, or when we
    are to leave.
    """
    exited = os.pidfd_open(command.pid)
    view = memoryview(content)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(leaving, selectors.EVENT_READ)
        selector.register(exited, selectors.EVENT_READ)
        for descriptor in command.output:
            selector.register(descriptor, selectors.EVENT_READ)
        if command.stdin is not None and not view:
            os.close(command.stdin)
            command.stdin = None
        if command.stdin is not None:
            os.set_blocking(command.stdin, False)
            selector.register(command.stdin, selectors.EVENT_WRITE)
        waited_for = {exited, *command.output}
        while waited_for:
            ready = selector.select(asker.left_s())
            if not ready and not asker.left_s():
                sys.stderr.write("Grampus is silent; its command was ended\n")
                raise Gone
            for key, _ in ready:
                if key.fd == leaving:
                    raise Gone
                if key.fd == 0:
                    asker.listen()
                elif key.fd == command.stdin:
                    try:
                        view = view[os.write(command.stdin, view) :]
                    except BrokenPipeError:
                        view = memoryview(b"")  # it may end without reading all its input
                    if view:
                        continue
                    selector.unregister(command.stdin)
                    os.close(command.stdin)
                    command.stdin = None
                elif key.fd == exited:
                    selector.unregister(exited)
                    waited_for.discard(exited)
                else:
                    chunk = os.read(key.fd, 65536)
                    command.output[key.fd] += chunk
                    if not chunk:
                        selector.unregister(key.fd)
                        waited_for.discard(key.fd)
    os.close(exited)
    _, status = os.waitpid(command.pid, 0)
    if command.stdin is not None:
        os.close(command.stdin)
    os.close(command.stdout)
    os.close(command.stderr)
    return status, bytes(command.output[command.stdout]), bytes(command.output[command.stderr])


def end(command: Command) -> None:
    """End a command and all that it started: TERM, then KILL."""
    signal_group(command, signal.SIGTERM)
    try:
        exited = os.pidfd_open(command.pid)
    except ProcessLookupError:
        return
    with selectors.DefaultSelector() as selector:
        selector.register(exited, selectors.EVENT_READ)
        selector.select(TERM_GRACE_S)
    signal_group(command, signal.SIGKILL)


def signal_group(command: Command, number: int) -> None:
    """A signal to the command's process group, if there is one left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command.pid, number)


def serve(request: dict[str, Any], leaving: int) -> None:
    """Do what a request says, and answer."""
    argv = request["argv"]
    content = request["stdin"]
    asker = Asker(request["silence_s"])
    try:
        command = start(argv, content is not None)
    except OSError as error:
        said = f'exec failed: "{argv[0]}": {error.strerror}\n'
        answer(CANNOT_START, b"", said.encode())
        return
    try:
        status, stdout, stderr = finish(command, (content or "").encode(), leaving, asker)
        read_exactly(asker.rest_bytes(), leaving)
    except Gone:
        end(command)
        raise
    # As runc tells of a process that a signal ended.
    ended_by = status & 0x7F
    answer(128 + ended_by if ended_by else status >> 8, stdout, stderr)


def main() -> None:
    """Serve until stdin ends or TERM comes."""
    # Through a pipe: an exception out of a handler could strike between a start and its note.
    leaving, leave = os.pipe()
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.write(leave, b"."))
    with contextlib.suppress(Gone, BrokenPipeError):
        while True:
            (size,) = struct.unpack(">I", read_exactly(_HEADER_BYTES, leaving))
            if size:
                serve(json.loads(read_exactly(size, leaving)), leaving)


if __name__ == "__main__":
    main()
