"""A client that writes numbered rows and keeps account of what was acknowledged."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import suppress

from tests.system.command_line import CommandLine
from tests.system.machine import wait_for


class Ledger:
    """Inserts rows one by one through the database's own client until it is stopped."""

    def __init__(self, command_line: CommandLine, database: str) -> None:
        self._command_line = command_line
        self._database = database
        self.acknowledged: list[int] = []
        self.longest_wait_s = 0.0
        self._stop = threading.Event()
        self._writer: threading.Thread | None = None
        self._reader: threading.Thread | None = None
        self._client: subprocess.Popen[str] | None = None

    def __enter__(self) -> Ledger:
        self._command_line.sql(
            self._database,
            "create schema if not exists ledger; drop table if exists ledger.entries; "
            "create table ledger.entries (id int primary key); select 1",
        )
        self._client = self._command_line.start("db", "connect", self._database, stdin=-1)
        self._writer = threading.Thread(target=self._write)
        self._reader = threading.Thread(target=self._read)
        self._writer.start()
        self._reader.start()
        wait_for(lambda: len(self.acknowledged) > 3, "the ledger to begin")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        assert self._client is not None
        if kind is not None:
            self._client.terminate()  # it may wait for an answer that never comes
        assert self._writer is not None
        assert self._reader is not None
        self._writer.join()
        self._reader.join()
        with self._client:  # waits for it, and closes its pipes
            pass

    def wait_for_more(self, count: int = 5, timeout_s: float = 60.0) -> None:
        """Wait until `count` further rows are acknowledged: the writes go on."""
        wanted = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= wanted, "further acknowledged rows", timeout_s)

    def missing(self) -> list[int]:
        """Acknowledged rows that the database does not hold."""
        rows = self._command_line.sql(self._database, "select id from ledger.entries")
        held = {int(row[0]) for row in rows}
        return [number for number in self.acknowledged if number not in held]

    def _write(self) -> None:
        assert self._client is not None
        assert self._client.stdin is not None
        number = 0
        # A client whose server ends, ends as well.
        with suppress(BrokenPipeError), self._client.stdin as stdin:
            while not self._stop.wait(0.1):
                number += 1
                # The client sends the next statement when the one before is answered.
                stdin.write(f"insert into ledger.entries values ({number});select {number};\n")
                stdin.flush()

    def _read(self) -> None:
        assert self._client is not None
        assert self._client.stdout is not None
        last_s = time.monotonic()
        for line in self._client.stdout:
            if line.strip().isdigit():
                number = int(line)
                if not self.acknowledged or number > self.acknowledged[-1]:
                    self.acknowledged.append(number)
                    now_s = time.monotonic()
                    self.longest_wait_s = max(self.longest_wait_s, now_s - last_s)
                    last_s = now_s
