"""A client that commits numbered rows all the time, comes back by itself, and keeps account."""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from dataclasses import dataclass

from tests.proof.operations.remote_client import RemoteClient
from tests.system.machine import wait_for

PAUSE_S = 0.02  # between an answer and the next row
MAKE_TABLE = (
    "create schema if not exists watch; drop table if exists watch.entries; "
    "create table watch.entries (number int primary key, place int, key (place))"
)


@dataclass(frozen=True)
class Acknowledged:
    """A row whose commit was acknowledged, and when, on the monotonic clock."""

    number: int
    at_s: float


class CommitWatch:
    """One row after the other: the longest time between two answers is the longest pause."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._rows: list[Acknowledged] = []
        self._failed = 0
        self._threads: list[threading.Thread] = []
        self._process: subprocess.Popen[str] | None = None
        self._answered = threading.Event()

    def __enter__(self) -> CommitWatch:
        self._client.rows(MAKE_TABLE)
        # It tries again after each failure (`--force`), with a new connection (`--reconnect`).
        argv = self._client.mysql_argv(
            *("--batch", "--skip-column-names", "--unbuffered", "--force", "--reconnect"),
            *("--connect-timeout=1", "watch"),
        )
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [
            threading.Thread(target=work) for work in (self._write, self._read, self._count)
        ]
        for thread in self._threads:
            thread.start()
        wait_for(lambda: len(self.rows()) > 3, "the watch to begin")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._answered.set()
        assert self._process is not None
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        for thread in self._threads:
            thread.join()
        with self._process:  # closes its pipes
            pass

    def rows(self) -> list[Acknowledged]:
        """What was acknowledged so far."""
        with self._lock:
            return list(self._rows)

    def failed(self) -> int:
        """Statements that were answered with an error so far."""
        with self._lock:
            return self._failed

    def wait_for_more(self, count: int = 20, timeout_s: float = 120.0) -> None:
        """Wait until `count` further rows are acknowledged."""
        wanted = len(self.rows()) + count
        wait_for(lambda: len(self.rows()) >= wanted, "further acknowledged rows", timeout_s)

    def missing(self) -> list[int]:
        """Acknowledged rows that the database does not hold."""
        self._client.refresh()  # its password may be another by now
        rows = self.rows()  # first: what is acknowledged while the answer comes is not in it
        held = {int(row[0]) for row in self._client.rows("select number from watch.entries")}
        return [row.number for row in rows if row.number not in held]

    def _write(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        number = 0
        with self._process.stdin as stdin:
            while not self._stop.wait(PAUSE_S):
                number += 1
                self._answered.clear()
                # Not acknowledged unless the insert itself is what the count is of: a new
                # connection in between knows of no row.
                stdin.write(
                    f"insert into watch.entries values ({number}, rand() * 1000000);"
                    f"select row_count(), {number};\n"
                )
                stdin.flush()
                self._answered.wait(1.0)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            count, _, number = line.strip().partition("\t")
            if number:
                if count == "1":
                    with self._lock:
                        self._rows.append(Acknowledged(int(number), time.monotonic()))
                self._answered.set()

    def _count(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("ERROR"):
                with self._lock:
                    self._failed += 1
                self._answered.set()


def longest_wait_s(rows: list[Acknowledged], began_s: float, ended_s: float) -> float:
    """The longest time without an answer that reaches into these two moments, in seconds."""
    moments = [row.at_s for row in rows]
    waits = [
        later - earlier
        for earlier, later in itertools.pairwise(moments)
        if later > began_s and earlier < ended_s
    ]
    return max(waits, default=0.0)
