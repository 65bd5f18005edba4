"""Scripts that connect to a cluster, run one after the other in a fork that stays connected.

To connect takes longer than most scripts do. `program.py` gets this file's text as its argument,
and loads it among its own names when the first such script is asked for.

Failure and recovery: a script begins by hearing from a MON over a connection that was kept. If none
answers soon, it has done nothing, and runs as any other script, in a process and over a connection
of its own. A script that raises ends the fork after it, and so all that it had open. A fork that is
killed, or whose script is, fails that script; the next one gets another fork.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import struct
import sys
import threading

TYPE_CHECKING = False  # `typing` is not loaded
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from grampus.hosts.command_server.program import (
        CEPH_LIBRARIES,
        KEEP,
        LENGTH,
        Asker,
        Gone,
        Unconnected,
        code_of,
        end,
        load,
        parse,
        run_script,
        wait,
        write_all,
    )

# A MON answers in milliseconds. If it does not, the script waits for another connection, as long as
# it would wait for its first one.
ANSWER_S = 2.0
# An answer of `Connected`: whether it serves on, whether the script was run; then as ANSWER.
OUTCOME = struct.Struct(">??III")
# The fork, or nothing.
KEPT: list[Connected] = []


class Connected:
    """A fork of ourselves for scripts that connect to a cluster, one after the other."""

    def __init__(self) -> None:
        theirs, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        gc.freeze()  # or it would copy most of our memory
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.close(self._requests)
                os.close(self._answers)
                serve_scripts(theirs, answers)
            finally:
                os._exit(1)
        os.close(theirs)
        os.close(answers)
        self.serves = True

    def run(self, request: bytes, leaving: int, asker: Asker) -> tuple[int, bytes, bytes] | None:
        """What a script came to: (code, stdout, stderr); None: it has done nothing, because the
        cluster does not answer over this connection. Raises Gone as `finish` does.
        """
        if os.waitpid(self.pid, os.WNOHANG)[0]:  # somebody has ended it
            self.serves = False
            return None
        write_all(LENGTH.pack(len(request)) + request, self._requests)
        content, size = bytearray(), OUTCOME.size
        poll = select.poll()
        for descriptor in (0, leaving, self._answers):
            poll.register(descriptor, select.POLLIN)
        while len(content) < size:
            for descriptor in wait(poll, leaving, asker):
                if descriptor != self._answers:
                    continue
                chunk = os.read(self._answers, 65536)
                if not chunk:
                    self.serves = False
                    code = code_of(os.waitpid(self.pid, 0)[1])
                    return code, b"", b"the script has ended its process\n"
                content += chunk
                if len(content) >= OUTCOME.size:
                    size = OUTCOME.size + sum(OUTCOME.unpack_from(content)[3:])
        self.serves, is_run, code, stdout_size, _ = OUTCOME.unpack_from(content)
        stdout_end = OUTCOME.size + stdout_size
        said = bytes(content[OUTCOME.size : stdout_end]), bytes(content[stdout_end:])
        return (code, *said) if is_run else None

    def leave(self) -> None:
        """Forget it; it ends by itself."""
        for descriptor in (self._requests, self._answers):
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):  # it was waited for
            os.waitpid(self.pid, 0)

    def end(self) -> None:
        """End it, with the script that runs."""
        end(self.pid)


class KeptConnections:
    """What `keep_connection` is in a script: connections by their settings."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}

    def __call__(self, settings: dict[str, str], make: Callable[[], Any]) -> Lent:
        # How long to wait for a first answer makes no other connection.
        others = {key: settings[key] for key in settings if key != "client_mount_timeout"}
        return Lent(self._open, repr(sorted(others.items())), make)


class Lent:
    """A connection for the block of a script. Raises Unconnected."""

    def __init__(self, known: dict[str, Any], key: str, make: Callable[[], Any]) -> None:
        self._known = known
        self._key = key
        self._make = make

    def __enter__(self) -> Any:
        cluster = self._known.get(self._key)
        if cluster is None:
            cluster = self._make()
            cluster.connect()
            self._known[self._key] = cluster
        elif not answers_soon(cluster):
            raise Unconnected
        return cluster

    def __exit__(self, *_error: object) -> None:
        """It stays open."""


def answers_soon(cluster: Any) -> bool:
    """Whether a MON answers over this connection."""
    codes: list[int] = []
    asking = threading.Thread(
        target=lambda: codes.append(cluster.mon_command('{"prefix": "version"}', b"")[0]),
        daemon=True,
    )
    asking.start()
    asking.join(ANSWER_S)
    return codes == [0]


def read_all(descriptor: int, size: int) -> bytes:
    """`size` bytes of a pipe. Raises Gone when nobody writes to it any more."""
    content = bytearray()
    while len(content) < size:
        chunk = os.read(descriptor, size - len(content))
        if not chunk:
            raise Gone
        content += chunk
    return bytes(content)


def serve_scripts(requests: int, answers: int) -> None:
    """Run scripts until one ends otherwise than by its own will.

    What such a script has left open is closed by the end of this process. Raises Gone when nobody
    asks any more.
    """
    # Ceph's libraries write to the descriptors themselves.
    for number in range(3):
        os.dup2(os.memfd_create("stream"), number)
    keep, serves = KeptConnections(), True
    while serves:
        (size,) = LENGTH.unpack(read_all(requests, LENGTH.size))
        _, argv, content = parse(read_all(requests, size))
        for number in range(3):
            os.ftruncate(number, 0)
            os.lseek(number, 0, os.SEEK_SET)
        write_all(content or b"", 0)
        os.lseek(0, 0, os.SEEK_SET)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the script's
        for library in CEPH_LIBRARIES:
            load(library)
        code, is_run, said = 0, True, [b"", b""]
        try:
            code, serves = run_script(
                argv[2].decode(), [os.fsdecode(word) for word in argv[3:]], {KEEP: keep}
            )
            said = [os.pread(number, os.fstat(number).st_size, 0) for number in (1, 2)]
        except Unconnected:
            serves = is_run = False
        write_all(OUTCOME.pack(serves, is_run, code, *map(len, said)) + b"".join(said), answers)


def run(request: bytes, leaving: int, asker: Asker) -> tuple[int, bytes, bytes] | None:
    """Run a script in the fork, which is made if need be; as `Connected.run`."""
    if not KEPT:
        KEPT.append(Connected())
    one = KEPT[0]
    try:
        outcome = one.run(request, leaving, asker)
    except Gone:
        one.end()
        raise
    if not one.serves:
        KEPT.clear()
        one.leave()
    return outcome
