"""sysbench on a database at a fixed rate, going on whatever happens."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass

from grampus.bench.drivers.outcome import Second as Sysbench
from grampus.bench.drivers.sysbench_result import parse_second
from tests.proof.operations.remote_client import RemoteClient, end_client
from tests.system.machine import wait_for

THREADS = 4
TABLES = 4
# Of 20 queries each; two busy cores do some 60 to 100 (docs/guide/benchmarks.md).
TRANSACTIONS_PER_S = 10
MOST_S = 6 * 3600
# sysbench's own counts are of the second before.
LATE_S = 1.5
LINES_KEPT = 5
# Between two attempts to connect, as programs wait. Each is a process in a container here: started
# one after the other without a pause, they took two fifths of two cores from the server that they
# waited for.
RETRY_S = 0.5


@dataclass(frozen=True)
class Second:
    """One second's figures, and when they were told, on the monotonic clock."""

    at_s: float
    figures: Sysbench


@dataclass(frozen=True)
class Ended:
    """An end of sysbench that nobody asked for, and its last words."""

    at_s: float  # on the monotonic clock
    said: str


class SteadyLoad:
    """sysbench's oltp_read_write on one host of the lab, started again when it ends: it takes no
    new password while it runs, and gives up when a new connection is refused.
    """

    def __init__(self, client: RemoteClient, rows_per_table: int) -> None:
        self._client = client
        self._rows_per_table = rows_per_table
        self._seconds: list[Second] = []
        self._ended: list[Ended] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._work)

    def prepare(self, timeout_s: float = 3600.0) -> None:
        """Make the tables anew, and fill them."""
        self._client.rows("drop database if exists sbtest; create database sbtest")
        argv = self._argv("prepare", f"--threads={TABLES}")
        finished = subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]

    def data_bytes(self) -> int:
        """Data and indexes of its tables, as InnoDB counts them."""
        self._client.rows("analyze table " + ", ".join(f"sbtest.sbtest{n + 1}" for n in range(4)))
        rows = self._client.rows(
            "select sum(data_length + index_length) from information_schema.tables "
            "where table_schema = 'sbtest'"
        )
        return int(float(rows[0][0]))

    def __enter__(self) -> SteadyLoad:
        self._thread.start()
        wait_for(lambda: len(self.seconds()) > 2, "sysbench to begin", 60.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._process is not None:
            end_client(self._process)
        self._thread.join()

    def seconds(self) -> list[Second]:
        """What each second so far brought."""
        with self._lock:
            return list(self._seconds)

    def ended(self) -> list[Ended]:
        """When sysbench ended by itself so far; it was started again."""
        with self._lock:
            return list(self._ended)

    def wait_for_more(self, timeout_s: float = 120.0) -> None:
        """Wait until it works."""
        wanted = len(self.seconds()) + 2
        wait_for(lambda: len(self.seconds()) >= wanted, "sysbench to work", timeout_s)

    def _argv(self, command: str, *options: str) -> list[str]:
        tables = (f"--tables={TABLES}", f"--table-size={self._rows_per_table}")
        return self._client.sysbench_argv(
            "oltp_read_write", command, *tables, *options, timeout_s=MOST_S + 60
        )

    def _work(self) -> None:
        options = (
            *(f"--threads={THREADS}", f"--time={MOST_S}", "--report-interval=1"),
            *(f"--rate={TRANSACTIONS_PER_S}", "--percentile=99", "--mysql-ignore-errors=all"),
        )
        while not self._stop.is_set():
            with subprocess.Popen(
                self._argv("run", *options),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                self._process = process
                if self._stop.is_set():  # asked for between two of them
                    process.terminate()
                said = self._read(process)
            if not self._stop.is_set():
                with self._lock:
                    self._ended.append(Ended(time.monotonic(), said))
                self._stop.wait(RETRY_S)

    def _read(self, process: subprocess.Popen[str]) -> str:
        """Take its seconds until it ends; the last lines beside them."""
        assert process.stdout is not None
        said: deque[str] = deque(maxlen=LINES_KEPT)
        after_s = 0.0
        for line in process.stdout:
            figures = parse_second(line, after_s=after_s)
            if figures is None:
                said.append(line.strip())
                continue
            after_s = figures.ended_s
            with self._lock:
                self._seconds.append(Second(time.monotonic(), figures))
        return " ".join(line for line in said if line)


@dataclass(frozen=True)
class LoadDuring:
    """What sysbench saw during an operation."""

    transactions_per_s: float
    latency_p99_ms: float  # of the worst second
    errors: float
    reconnects: float
    ends: list[str]  # of sysbench itself: its last words


def decide_load_during(
    seconds: list[Second], ended: list[Ended], began_s: float, ended_s: float
) -> LoadDuring:
    """The seconds that reach into these two moments, put together."""
    within = [one.figures for one in seconds if began_s < one.at_s < ended_s + LATE_S]
    return LoadDuring(
        transactions_per_s=sum(one.operations_per_s for one in within) / max(1, len(within)),
        latency_p99_ms=max((one.latency_p99_ms or 0.0 for one in within), default=0.0),
        errors=sum(one.errors for one in within),
        reconnects=sum(one.reconnects for one in within),
        ends=[one.said for one in ended if began_s < one.at_s < ended_s + LATE_S],
    )
