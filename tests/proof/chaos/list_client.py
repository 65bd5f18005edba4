"""Transactions on lists by several clients at once, and the history of what each was told.

A transaction reads lists and appends to lists, at the isolation level SERIALIZABLE. A list that is
read tells the order of all appends to it, so a checker finds out whether some order of all
transactions, in real time, explains every answer (Kingsbury and Alvaro, *Elle*, VLDB 2020). The
checker is adya (docs/adr/0056): no part of the answer is decided here.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from tests.proof.chaos.bank_client import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S
from tests.proof.operations.remote_client import RemoteClient
from tests.system.command_line import CHECKOUT

CLIENTS, EVERY_S = 2, 0.3
LISTS = 4  # few, so that transactions meet
CHECKER = CHECKOUT / "build" / "tools" / "bin" / "adya"  # `make chaos` installs it
MODEL = "strict-serializable"
_CHECK_TIMEOUT_S = 120.0
_COMMITTED = "committed"
# ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT: nothing of the transaction is kept, since the client ends
# at an error. CR_CONN_HOST_ERROR: it did not begin. All others may come from the commit itself.
_REFUSED = ("ERROR 1213 ", "ERROR 1205 ", "ERROR 2003 ")
# `info`: nobody knows whether it was committed.
Outcome = Literal["ok", "fail", "info"]
# `["append", list, number]` or `["r", list, None]`; of an answer, what was read instead of None.
Action = list[Any]


class ListClients:
    """Clients that work on the lists until they are ended; `history` is what they saw."""

    def __init__(self, client: RemoteClient, seed: int) -> None:
        self._client = client
        self._seed = seed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._history: list[dict[str, Any]] = []
        self._clients = CLIENTS  # a client whose transaction may be open is another one afterwards
        self._numbers = 0
        self._threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(CLIENTS)
        ]

    def __enter__(self) -> ListClients:
        self._client.rows(
            "create schema if not exists watch; drop table if exists watch.lists; "
            "create table watch.lists (list int primary key, numbers text not null)"
        )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def history(self) -> list[dict[str, Any]]:
        """What was asked and answered, with one read of all lists at the end."""
        with self._lock:
            process, self._clients = self._clients, self._clients + 1
        everything: list[Action] = [["r", number, None] for number in range(LISTS)]
        with _Connection(self._client) as connection:
            self._transact(connection, process, everything)
        with self._lock:
            return list(self._history)

    # -- inside -------------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        source, process = random.Random(self._seed * CLIENTS + number), number  # noqa: S311
        with _Connection(self._client) as connection:
            while not self._stop.wait(EVERY_S):
                if self._transact(connection, process, self._draw(source)) == "info":
                    with self._lock:
                        process, self._clients = self._clients, self._clients + 1

    def _draw(self, source: random.Random) -> list[Action]:
        actions: list[Action] = []
        for _ in range(source.randint(1, 3)):
            chosen = source.randrange(LISTS)
            if source.random() < 0.5:
                actions.append(["r", chosen, None])
                continue
            with self._lock:
                self._numbers += 1
                actions.append(["append", chosen, self._numbers])
        return actions

    def _transact(self, connection: _Connection, process: int, actions: list[Action]) -> Outcome:
        self._note("invoke", process, actions)
        output, errors = connection.ask(render_transaction(actions))
        outcome, answered = read_transaction(output, errors, actions)
        self._note(outcome, process, answered)
        return outcome

    def _note(self, kind: str, process: int, actions: list[Action]) -> None:
        with self._lock:
            index = len(self._history)
            self._history.append(
                {"index": index, "type": kind, "process": process, "f": "txn", "value": actions}
            )


class _Connection:
    """One client of MySQL, as long as it is connected: to start one takes much of a lab's CPUs."""

    def __init__(self, client: RemoteClient) -> None:
        self._argv = client.mysql_argv(
            *("--batch", "--skip-column-names", "--unbuffered"),
            f"--connect-timeout={CONNECT_TIMEOUT_S}",
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()

    def ask(self, sql: str) -> tuple[str, str]:
        """What the client prints, to stdout and stderr.

        At an error it ends, and nothing of an open transaction is kept; the next call starts
        another one. One that does not answer in time is left: its program is in a container, and
        ends when it notices that nobody listens.
        """
        pipe = subprocess.PIPE
        process = self._process or subprocess.Popen(
            self._argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
        )
        self._process = None
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{sql};\n".encode())
        output, is_ended = _read_answer(process)
        if not is_ended and output.endswith(f"{_COMMITTED}\n"):
            self._process = process
            return output, ""
        errors = ""
        if is_ended and process.stderr is not None:
            errors = process.stderr.read().decode()
        else:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        return output, errors


def _read_answer(process: subprocess.Popen[bytes]) -> tuple[str, bool]:
    """What the client prints until the transaction is committed, and whether it has ended.

    An answer that takes too long is not read to its end.
    """
    assert process.stdout is not None
    read, until_s = b"", time.monotonic() + ANSWER_TIMEOUT_S
    while not read.endswith(f"{_COMMITTED}\n".encode()):
        readable, _, _ = select.select([process.stdout], [], [], max(0, until_s - time.monotonic()))
        if not readable:
            return read.decode(), False
        chunk = os.read(process.stdout.fileno(), 65536)
        if not chunk:
            return read.decode(), True
        read += chunk
    return read.decode(), False


def render_transaction(actions: Sequence[Action]) -> str:
    """The transaction as SQL: it answers with each list that it reads, and once committed says so.

    Below SERIALIZABLE, InnoDB allows a transaction to overwrite what it has not seen.
    """
    statements = []
    for kind, chosen, number in actions:
        if kind == "r":
            read = f"select numbers from watch.lists where list = {chosen}"
            statements.append(f"select concat('read:', coalesce(({read}), ''))")
        else:
            statements.append(
                f"insert into watch.lists values ({chosen}, '{number}') "
                f"on duplicate key update numbers = concat(numbers, ',{number}')"
            )
    begin = ("set session transaction isolation level serializable", "start transaction")
    return "; ".join((*begin, *statements, "commit", f"select '{_COMMITTED}'"))


def read_transaction(
    output: str, errors: str, actions: Sequence[Action]
) -> tuple[Outcome, list[Action]]:
    """How the transaction ended, and its actions, with what was read if it was committed."""
    *said, last = output.splitlines() or [""]
    if last != _COMMITTED:
        is_refused = any(error in errors for error in _REFUSED)
        return ("fail" if is_refused else "info"), [list(action) for action in actions]
    reads = iter(said)
    answered: list[Action] = []
    for kind, chosen, number in actions:
        read = next(reads).removeprefix("read:") if kind == "r" else ""
        numbers = [int(one) for one in read.split(",") if one]
        answered.append([kind, chosen, numbers if kind == "r" else number])
    return "ok", answered


def check_history(
    history: Sequence[Mapping[str, Any]], file: Path, checker: Path = CHECKER
) -> tuple[bool, str]:
    """Whether the history is strictly serializable, and what the checker says of it.

    The history is kept in `file`, one operation a line. Raises OSError without the checker, and
    AssertionError when it cannot tell.
    """
    file.write_text("".join(json.dumps(operation) + "\n" for operation in history))
    argv = [str(checker), "check", "-m", "list-append", "-c", MODEL, str(file)]
    ended = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=_CHECK_TIMEOUT_S
    )
    said = f"{ended.stdout}{ended.stderr}".strip()
    assert ended.returncode in (0, 1), f"the checker does not know: {said}"
    return ended.returncode == 0, said
