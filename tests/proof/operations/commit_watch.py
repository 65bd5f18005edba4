"""A client that commits numbered rows all the time, comes back by itself, and keeps account."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.proof.operations.remote_client import RemoteClient
from tests.system.machine import wait_for

PAUSE_S = 0.02  # between an answer and the next row
# Between two attempts to connect. A client is a process in a container here: started one after the
# other without a pause, they took one of two cores from the server that they waited for.
RETRY_S = 0.2
MAKE_TABLE = (
    "create schema if not exists watch; drop table if exists watch.entries; "
    "create table watch.entries (number int primary key, place int, key (place))"
)


@dataclass(frozen=True)
class Acknowledged:
    """A row whose commit was acknowledged, and when, on the monotonic clock."""

    number: int
    at_s: float


class AcknowledgedRows:
    """What a client was told of its rows; it is noted and read in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: list[Acknowledged] = []
        self._failed = 0

    def rows(self) -> list[Acknowledged]:
        """What was acknowledged so far."""
        with self._lock:
            return list(self._rows)

    def failed(self) -> int:
        """Statements without an acknowledgement so far."""
        with self._lock:
            return self._failed

    def note(self, number: int, *, is_acknowledged: bool) -> None:
        """What came of a row, now."""
        with self._lock:
            if is_acknowledged:
                self._rows.append(Acknowledged(number, time.monotonic()))
            else:
                self._failed += 1


class CommitWatch(AcknowledgedRows):
    """One row after the other: the longest time between two answers is the longest pause."""

    def __init__(self, client: RemoteClient) -> None:
        super().__init__()
        self._client = client
        self._stop = threading.Event()
        self._gone: set[int] = set()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> CommitWatch:
        self._client.rows(MAKE_TABLE)
        self._thread.start()
        wait_for(lambda: len(self.rows()) > 3, "the watch to begin")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # An answer that never comes is not waited for.
        self._thread.join(timeout=30)
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
        self._thread.join()

    def wait_for_more(self, count: int = 20, timeout_s: float = 120.0) -> None:
        """Wait until `count` further rows are acknowledged."""
        wanted = len(self.rows()) + count
        wait_for(lambda: len(self.rows()) >= wanted, "further acknowledged rows", timeout_s)

    def missing(self) -> list[int]:
        """Acknowledged rows that the database does not hold, and that were not let go."""
        rows = self.rows()  # first: what is acknowledged while the answer comes is not in it
        held = self.held() | self._gone
        return [row.number for row in rows if row.number not in held]

    def held(self) -> set[int]:
        """The rows that the database holds."""
        self._client.refresh()  # its password may be another by now
        return read_rows(self._client)

    def let_go(self, numbers: set[int]) -> None:
        """Rows that were rolled back: nobody misses them from now on."""
        self._gone |= numbers

    def gone(self) -> set[int]:
        """The rows that were let go so far."""
        return set(self._gone)

    def _work(self) -> None:
        numbers = itertools.count(1)
        while not self._stop.is_set():
            # Without `--force` it ends at the first error. `--reconnect` of MySQL 9.7's client
            # does nothing for a connection that the server has ended.
            with subprocess.Popen(
                self._client.mysql_argv(
                    *("--batch", "--skip-column-names", "--unbuffered", "--connect-timeout=1"),
                    "watch",
                ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                self._process = process
                self._use(process, numbers)

    def _use(self, process: subprocess.Popen[str], numbers: Iterator[int]) -> None:
        """One row after the other, until the watch is over or the connection is."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            while not self._stop.wait(PAUSE_S):
                number = next(numbers)
                process.stdin.write(
                    f"insert into watch.entries values ({number}, rand() * 1000000);"
                    f"select row_count(), {number};\n"
                )
                process.stdin.flush()
                if process.stdout.readline().strip() != f"1\t{number}":
                    break
                self.note(number, is_acknowledged=True)
            else:
                return
        except BrokenPipeError:
            pass
        self.note(number, is_acknowledged=False)
        # What is written to nobody is not to be told again as the pipe is closed.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        self._stop.wait(RETRY_S)


def read_rows(client: RemoteClient) -> set[int]:
    """The rows of the watch that a database holds, or a copy of it."""
    return {int(row[0]) for row in client.rows("select number from watch.entries")}


def longest_wait_s(rows: list[Acknowledged], began_s: float, ended_s: float) -> float:
    """The longest time without an answer that reaches into these two moments, in seconds."""
    moments = [row.at_s for row in rows]
    waits = [
        later - earlier
        for earlier, later in itertools.pairwise(moments)
        if later > began_s and earlier < ended_s
    ]
    return max(waits, default=0.0)
