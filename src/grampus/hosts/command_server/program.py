"""What runs on the host: commands, one after the other, as they are asked for on stdin.

Started as `python3 -S -c` with this file's text, so it needs nothing but a Python of 3.9 or later.
Each command of Grampus starts one for each host, so it imports only what Python has loaded or
loads in a millisecond: with `json`, `subprocess` and `selectors` its start took twice as long.

A request is its length in 4 bytes, and REQUEST: for how many seconds the asker may be silent,
whether there is input, and the number of words; then each word with its length in 4 bytes before
it, and the input. An answer is ANSWER: the exit code and the lengths of stdout and stderr, which
follow. While a command runs, whoever asked for it sends an empty request (length 0) every few
seconds. A command whose asker is silent for too long is ended, and this with it: a machine that
lost its power or its network ends no connection.

A script for Python (`python3 -c`) runs in a fork of this process, which has loaded Ceph's libraries
and others before, when a script named them. One that connects to a cluster runs in a fork that
keeps the connection for the next script (`connected.py`, whose text is our first argument). When
stdin ends or TERM comes, the command that runs is ended, too.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import struct
import sys
import time

TYPE_CHECKING = False  # `typing` is not loaded
if TYPE_CHECKING:
    from typing import Any

TERM_GRACE_S = 3.0
LENGTH, REQUEST, ANSWER = struct.Struct(">I"), struct.Struct(">dBI"), struct.Struct(">III")
# As `runc exec` ends when the program is not there.
CANNOT_START = 255
# Of distributions: they are only found with the directories that `site` adds.
CEPH_LIBRARIES = ("rados", "rbd")
# What a script calls that connects (`ceph/connecting.py`).
KEEP = "keep_connection"
# The names of `connected.py`.
CONNECTED: dict[str, Any] = {}
# Libraries that are worth loading once, when a script names them.
SLOW_LIBRARIES = (*CEPH_LIBRARIES, "socket", "json", "subprocess", "pathlib")


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
        return -self._extra_bytes % LENGTH.size


class Unconnected(BaseException):
    """The cluster does not answer over a connection that was kept."""


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
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(leaving, select.POLLIN)
    while len(content) < size:
        ready = {descriptor for descriptor, _ in poll.poll()}
        chunk = b"" if leaving in ready else os.read(0, size - len(content))
        if not chunk:
            raise Gone
        content += chunk
    return bytes(content)


def write_all(content: bytes, descriptor: int = 1) -> None:
    """All of it to stdout, or elsewhere."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def answer(returncode: int, stdout: bytes, stderr: bytes) -> None:
    """Write an answer."""
    write_all(ANSWER.pack(returncode, len(stdout), len(stderr)) + stdout + stderr)


def start(argv: list[bytes], has_stdin: bool) -> Command:
    """Start a command in a session of its own. Raises OSError when it cannot be."""
    pipes = [os.pipe() for _ in range(3)]
    (stdin_read, stdin), (stdout, stdout_write), (stderr, stderr_write) = pipes
    theirs = (stdin_read, stdout_write, stderr_write)
    try:
        if argv[:2] == [b"python3", b"-c"] and len(argv) > 2:
            pid = fork_script(argv[2].decode(), [os.fsdecode(word) for word in argv[3:]], pipes)
        else:
            actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
                (os.POSIX_SPAWN_DUP2, descriptor, number)
                for number, descriptor in enumerate(theirs)
            ]
            if not has_stdin:
                actions[0] = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            pid = os.posix_spawnp(
                argv[0],
                argv,
                os.environ,
                file_actions=actions,
                setsid=True,
                # Python ignores them, and what it starts would, too.
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
    except OSError:
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return Command(pid, stdin, stdout, stderr)


def fork_script(script: str, arguments: list[str], pipes: list[tuple[int, int]]) -> int:
    """Run a script in a fork of ourselves, with these pipes."""
    for library in SLOW_LIBRARIES:
        if library in script and library not in sys.modules:
            load(library)
    gc.freeze()  # or each script would copy most of our memory
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
            code, _ = run_script(script, arguments, {})
        finally:
            os._exit(code)
    return pid


def load(library: str) -> None:
    """Import a library for the scripts to come, if it is there."""
    if library in CEPH_LIBRARIES and "site" not in sys.modules:
        __import__("site").main()
    try:  # noqa: SIM105 - `contextlib` is not loaded
        __import__(library)
    except ImportError:
        pass  # the script will say so


def run_script(script: str, arguments: list[str], names: dict[str, Any]) -> tuple[int, bool]:
    """The code with which Python would end after this script, which knows these names; and whether
    it has ended by its own will. Raises Unconnected.
    """
    sys.argv = ["-c", *arguments]
    code, is_whole = 0, True
    names = {**names, "__name__": "__main__"}
    try:
        # What was asked for, as `python3 -c` would.
        exec(compile(script, "<string>", "exec"), names)  # noqa: S102
    except SystemExit as left:
        if isinstance(left.code, int):
            code = left.code
        elif left.code is not None:
            sys.stderr.write(f"{left.code}\n")
            code = 1
    except Unconnected:
        raise
    except BaseException:  # noqa: BLE001 - whatever ends a script is told as Python tells it
        # Imported only here: it takes a third of the time in which this program starts.
        __import__("traceback").print_exc()
        code, is_whole = 1, False
    names.clear()  # its functions would keep all that it has left
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = code or 1
    return code, is_whole


def wait(poll: select.poll, leaving: int, asker: Asker) -> list[int]:
    """The descriptors that are ready, but for stdin, which was listened to. Raises Gone."""
    ready = poll.poll(asker.left_s() * 1000)
    if not ready and not asker.left_s():
        sys.stderr.write("Grampus is silent; its command was ended\n")
        raise Gone
    found = [descriptor for descriptor, _ in ready]
    if leaving in found:
        raise Gone
    if 0 in found:
        asker.listen()
        found.remove(0)
    return found


def finish(
    command: Command, content: bytes, leaving: int, asker: Asker
) -> tuple[int, bytes, bytes]:
    """Feed the command, gather what it says, and wait for its end: (status, stdout, stderr).

    Raises Gone when our own stdin ends meanwhile, when the asker is silent for too long, or when we
    are to leave.
    """
    exited = os.pidfd_open(command.pid)
    view = memoryview(content)
    poll = select.poll()
    waited_for = {exited, *command.output}
    for descriptor in (0, leaving, *waited_for):
        poll.register(descriptor, select.POLLIN)
    if command.stdin is not None and not view:
        os.close(command.stdin)
        command.stdin = None
    if command.stdin is not None:
        os.set_blocking(command.stdin, False)
        poll.register(command.stdin, select.POLLOUT)
    while waited_for:
        for descriptor in wait(poll, leaving, asker):
            if descriptor == command.stdin:
                try:
                    view = view[os.write(command.stdin, view) :]
                except BrokenPipeError:
                    view = memoryview(b"")  # it may end without reading all its input
                if view:
                    continue
                poll.unregister(command.stdin)
                os.close(command.stdin)
                command.stdin = None
            elif descriptor == exited:
                poll.unregister(exited)
                waited_for.discard(exited)
            else:
                chunk = os.read(descriptor, 65536)
                command.output[descriptor] += chunk
                if not chunk:
                    poll.unregister(descriptor)
                    waited_for.discard(descriptor)
    os.close(exited)
    _, status = os.waitpid(command.pid, 0)
    if command.stdin is not None:
        os.close(command.stdin)
    os.close(command.stdout)
    os.close(command.stderr)
    return status, bytes(command.output[command.stdout]), bytes(command.output[command.stderr])


def end(leader: int) -> None:
    """End a command, by the process that leads its group, and all that it started: TERM, then
    KILL."""
    signal_group(leader, signal.SIGTERM)
    try:
        exited = os.pidfd_open(leader)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(exited, select.POLLIN)
    poll.poll(TERM_GRACE_S * 1000)
    signal_group(leader, signal.SIGKILL)


def code_of(status: int) -> int:
    """The exit code, as runc tells of a process that a signal ended."""
    ended_by = status & 0x7F
    return 128 + ended_by if ended_by else status >> 8


def signal_group(leader: int, number: int) -> None:
    """A signal to the process group, if there is one left."""
    try:  # noqa: SIM105 - `contextlib` is not loaded
        os.killpg(leader, number)
    except ProcessLookupError:
        pass


def parse(request: bytes) -> tuple[float, list[bytes], bytes | None]:
    """The parts of a request: silence in seconds, words, and input."""
    silence_s, has_stdin, count = REQUEST.unpack_from(request)
    place, argv = REQUEST.size, []
    for _ in range(count):
        (size,) = LENGTH.unpack_from(request, place)
        place += LENGTH.size
        argv.append(request[place : place + size])
        place += size
    return silence_s, argv, request[place:] if has_stdin else None


def serve(request: bytes, leaving: int) -> None:
    """Do what a request says, and answer."""
    silence_s, argv, content = parse(request)
    asker = Asker(silence_s)
    if argv[:2] == [b"python3", b"-c"] and KEEP.encode() in argv[2] and len(sys.argv) > 1:
        outcome = run_connected(request, leaving, asker)
        if outcome is not None:
            read_exactly(asker.rest_bytes(), leaving)
            answer(*outcome)
            return
    try:
        command = start(argv, content is not None)
    except OSError as error:
        said = f'exec failed: "{os.fsdecode(argv[0])}": {error.strerror}\n'
        answer(CANNOT_START, b"", said.encode())
        return
    try:
        status, stdout, stderr = finish(command, content or b"", leaving, asker)
        read_exactly(asker.rest_bytes(), leaving)
    except Gone:
        end(command.pid)
        raise
    answer(code_of(status), stdout, stderr)


def run_connected(request: bytes, leaving: int, asker: Asker) -> tuple[int, bytes, bytes] | None:
    """As `connected.run`, which is loaded when it is first needed: most servers never are."""
    if "run" not in CONNECTED:
        CONNECTED.update(globals())
        exec(compile(sys.argv[1], "<connected>", "exec"), CONNECTED)  # noqa: S102
    outcome: tuple[int, bytes, bytes] | None = CONNECTED["run"](request, leaving, asker)
    return outcome


def main() -> None:
    """Serve until stdin ends or TERM comes."""
    # Through a pipe: an exception out of a handler could strike between a start and its note.
    leaving, leave = os.pipe()
    signal.signal(signal.SIGTERM, lambda _number, _frame: os.write(leave, b"."))
    try:
        while True:
            (size,) = LENGTH.unpack(read_exactly(LENGTH.size, leaving))
            if size:
                serve(read_exactly(size, leaving), leaving)
    except (Gone, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
