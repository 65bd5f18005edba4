"""Runs commands of Grampus by forks of one process that has imported it (`fork_server.py`)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class ForkedCommands:
    """A server of commands that runs, and its socket."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: str,
        timeout_s: float,
    ) -> tuple[int, str, str]:
        """Code, stdout and stderr of a command; a negative code is the signal that ended it.

        Raises subprocess.TimeoutExpired, once the command is killed.
        """
        with contextlib.ExitStack() as stack:
            files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
            for file in files:
                stack.callback(os.close, file)
            os.write(files[0], stdin.encode())
            os.lseek(files[0], 0, os.SEEK_SET)
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(str(self._path))
            request = {
                "arguments": list(arguments),
                "environment": dict(environment),
                "directory": str(Path.cwd()),
            }
            line = f"{json.dumps(request)}\n".encode()
            socket.send_fds(connection, [line[:1]], files)
            connection.sendall(line[1:])
            answers = stack.enter_context(connection.makefile())
            process = int(answers.readline())
            connection.settimeout(timeout_s)
            try:
                code = int(answers.readline())
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(["grampus", *arguments], timeout_s) from None
            return code, _content(files[1]), _content(files[2])


def _content(file: int) -> str:
    size_bytes = os.fstat(file).st_size
    return os.pread(file, size_bytes, 0).decode()


@contextmanager
def forked_commands(directory: Path, environment: Mapping[str, str]) -> Iterator[ForkedCommands]:
    """A server of commands, as long as the block lasts."""
    path = directory / "commands.sock"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.system.fork_server", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environment),
        cwd=Path(__file__).resolve().parents[2],
        text=True,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n", "the server of commands did not start"
        yield ForkedCommands(path)
    finally:
        server.communicate(timeout=30)
