"""Clients of a database that commit numbered changes and note when each was acknowledged.

Beside those that commit a row each, one commits rows of two tables together, one commits with XA,
and one creates tables: each of these is made durable in another way by the server.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from tests.proof.outcome import Row
from tests.system.command_line import CommandLine
from tests.system.machine import wait_for

SCHEMA = "ledger"
TABLE = f"{SCHEMA}.entries"
PAIRS = f"{SCHEMA}.pairs"
# Wide enough that pages of the table, and not the log alone, are written all the time.
FILLER_BYTES = 800
MAKE_TABLE = (
    f"drop schema if exists {SCHEMA}; create schema {SCHEMA}; create table {TABLE} (client int, "
    f"number int, place int, filler varchar({FILLER_BYTES}) not null, primary key (client, "
    f"number), key (place)); create table {PAIRS} (number int primary key); select 1"
)
# Clients by number; an acknowledged XA PREPARE counts as one of its own.
SINGLE = range(4)
PAIRED, XA, PREPARED, CREATING = 4, 5, 6, 7

Held = frozenset[tuple[int, int]]  # client, and number of a change of it


@dataclass(frozen=True)
class Turn:
    """SQL of a client that is acknowledged as a change of the client `as_client`."""

    as_client: int
    sql: str


def _insert(client: int, number: int) -> str:
    return (
        f"insert into {TABLE} values ({client}, {number}, rand() * 1000000, "
        f"repeat('x', {FILLER_BYTES}))"
    )


def decide_turns(client: int, number: int) -> list[Turn]:
    """What a client does as its change of that number. Pure."""
    row = _insert(client, number)
    if client == PAIRED:
        pair = f"insert into {PAIRS} values ({number})"
        return [Turn(client, f"start transaction; {row}; {pair}; commit")]
    if client == XA:
        prepare = f"xa start '{number}'; {row}; xa end '{number}'; xa prepare '{number}'"
        return [Turn(PREPARED, prepare), Turn(client, f"xa commit '{number}'")]
    if client == CREATING:
        return [Turn(client, f"create table {SCHEMA}.made_{number} (id int primary key)")]
    return [Turn(client, row)]


@dataclass(frozen=True)
class Found:
    """What a server holds of the changes."""

    rows: Held  # of the table
    pairs: frozenset[int]
    tables: frozenset[int]
    prepared: frozenset[int]  # XA transactions that are neither committed nor rolled back

    @property
    def held(self) -> Held:
        """The changes that are there. One that is prepared is so until it is committed."""
        committed = {number for client, number in self.rows if client == XA}
        return (
            self.rows
            | {(PREPARED, number) for number in committed | self.prepared}
            | {(CREATING, number) for number in self.tables}
        )

    def describe_halves(self) -> list[str]:
        """Transactions of which only a part is there, in words."""
        paired = {number for client, number in self.rows if client == PAIRED}
        halves = paired ^ self.pairs
        return [f"{len(halves)} transactions over two tables are there by half"] if halves else []


def find_changes(sql: Callable[[str], list[list[str]]]) -> Found:
    """What a server holds, asked by `sql`."""
    tables = (
        "select substring(table_name, 6) from information_schema.tables "
        f"where table_schema = '{SCHEMA}' and table_name like 'made%'"
    )
    rows = sql(f"select client, number from {TABLE}")
    return Found(
        rows=frozenset((int(client), int(number)) for client, number in rows),
        pairs=_numbers(sql(f"select number from {PAIRS}")),
        tables=_numbers(sql(tables)),
        prepared=_numbers([[row[-1]] for row in sql("xa recover")]),
    )


def render_rollbacks(prepared: Collection[int]) -> str:
    """SQL that ends prepared transactions: their tables cannot be dropped before."""
    return "; ".join([*(f"xa rollback '{number}'" for number in sorted(prepared)), "select 1"])


def _numbers(rows: list[list[str]]) -> frozenset[int]:
    return frozenset(int(row[0]) for row in rows)


class SqlLoad:
    """Commits changes until the database is gone, or it is left."""

    def __init__(self, command_line: CommandLine, database: str) -> None:
        self._command_line = command_line
        self._database = database
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._rows: list[Row] = []
        self._clients: list[subprocess.Popen[str]] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> SqlLoad:
        self._command_line.sql(self._database, MAKE_TABLE)
        for client in (*SINGLE, PAIRED, XA, CREATING):
            process = self._command_line.start("db", "connect", self._database, stdin=-1)
            self._clients.append(process)
            thread = threading.Thread(target=self._commit, args=(client, process))
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for process in self._clients:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._clients:
            with process:  # waits for it, and closes its pipes
                pass

    def acknowledged(self) -> list[Row]:
        """The changes acknowledged so far."""
        with self._lock:
            return list(self._rows)

    def wait_for(self, count: int, timeout_s: float = 180.0) -> None:
        """Wait until so many changes are acknowledged, and some of each client."""

        def is_enough() -> bool:
            rows = self.acknowledged()
            kinds = {row.client for row in rows}
            return len(rows) >= count and kinds >= {*SINGLE, PAIRED, XA, PREPARED, CREATING}

        wait_for(is_enough, "acknowledged commits", timeout_s)

    def _commit(self, client: int, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        number = 0
        # Once its host is lost, the client ends: no answer, or nobody to write to.
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            while not self._stop.is_set():
                number += 1
                for turn in decide_turns(client, number):
                    answer = f"{turn.as_client} {number}"
                    stdin.write(f"{turn.sql};select '{answer}';\n")
                    stdin.flush()
                    if not self._is_answered(process, answer):
                        return
                    with self._lock:
                        self._rows.append(Row(turn.as_client, number, time.time_ns()))

    def _is_answered(self, process: subprocess.Popen[str], answer: str) -> bool:
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            # Its name as a column, and then its value.
            seen += line.strip() == answer
            if seen == 2:
                return True
        return False
