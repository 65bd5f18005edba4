"""A process that has all of Grampus imported, and forks for each command that it is asked for.

To import the source takes most of a short command's time, and an integration test runs many. A
forked command is a process of its own as any other: with its own arguments, environment and files,
with failpoints that kill it, and with its own end. `forked_commands.py` asks for them.

    python -m tests.system.fork_server SOCKET

It ends with its standard input. Each request is one connection: a JSON line with the files 0, 1 and
2 of the command beside it; the answers are the command's process id and, at its end, its code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import sys
from typing import Any, NoReturn

import grampus
from grampus.core.models import Model

STANDARD_FILES = (0, 1, 2)
_LONGEST_REQUEST = 1 << 20


def import_everything() -> None:
    """Import every module that a command could: what is imported later is imported each time."""
    for module in pkgutil.walk_packages(grampus.__path__, "grampus."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for model in find_models():
        model.model_rebuild()  # or each command would build what it uses


def find_models() -> list[type[Model]]:
    """Every model of Grampus that was imported."""
    found, ahead = [], [Model]
    while ahead:
        model = ahead.pop()
        found.append(model)
        ahead += model.__subclasses__()
    return found


def receive_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The request and the three files of the command."""
    data, files, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, len(STANDARD_FILES))
    while not data.endswith(b"\n"):
        more = connection.recv(_LONGEST_REQUEST)
        if not more:
            raise EOFError("a request without its end")
        data += more
    return json.loads(data), files


def run_command(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Be that command, and end as it does."""
    for file, number in zip(files, STANDARD_FILES, strict=True):
        os.dup2(file, number)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv = ["grampus", *request["arguments"]]
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end
        for number, mode in zip(STANDARD_FILES, ("r", "w", "w"), strict=True)
    )
    random.seed()
    code = 1
    try:
        importlib.import_module("grampus.cli.main").main()
        code = 0
    except SystemExit as end:
        code = _code_of(end)
    except BaseException:  # noqa: BLE001 - as the interpreter does at the end of a program
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(code)


def _code_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    return 1


def serve(connection: socket.socket) -> NoReturn:
    """Run the command of one connection, and say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files = receive_request(connection)
    process = os.fork()
    if process == 0:
        connection.close()
        run_command(request, files)
    connection.sendall(f"{process}\n".encode())
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(OSError):  # whoever asked gave up
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def main(path: str) -> None:
    import_everything()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # handlers of connections end unattended
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)  # noqa: T201 - read by whoever started it
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in readable:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve(connection)
        connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
