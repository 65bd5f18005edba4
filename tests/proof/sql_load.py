"""Clients of a database that commit numbered rows and note when each was acknowledged."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time

from tests.proof.outcome import Row
from tests.system.command_line import CommandLine
from tests.system.machine import wait_for

CLIENTS = 4
TABLE = "ledger.entries"
# Wide enough that pages of the table, and not the log alone, are written all the time.
FILLER_BYTES = 800
MAKE_TABLE = (
    "create schema if not exists ledger; drop table if exists ledger.entries; "
    "create table ledger.entries (client int, number int, place int, "
    f"filler varchar({FILLER_BYTES}) not null, primary key (client, number), key (place)); "
    "select 1"
)


class SqlLoad:
    """Commits rows until the database is gone, or it is left."""

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
        for client in range(CLIENTS):
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
        """The rows acknowledged so far."""
        with self._lock:
            return list(self._rows)

    def wait_for(self, count: int, timeout_s: float = 180.0) -> None:
        """Wait until so many rows are acknowledged."""
        wait_for(lambda: len(self.acknowledged()) >= count, "acknowledged commits", timeout_s)

    def _commit(self, client: int, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        number = 0
        # Once its host is lost, the client ends: no answer, or nobody to write to.
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            while not self._stop.is_set():
                number += 1
                stdin.write(
                    f"insert into {TABLE} values ({client}, {number}, rand() * 1000000, "
                    f"repeat('x', {FILLER_BYTES}));select 'row {number}';\n"
                )
                stdin.flush()
                if not self._is_answered(process, f"row {number}"):
                    return
                with self._lock:
                    self._rows.append(Row(client, number, time.time_ns()))

    def _is_answered(self, process: subprocess.Popen[str], answer: str) -> bool:
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            # Its name as a column, and then its value.
            seen += line.strip() == answer
            if seen == 2:
                return True
        return False
