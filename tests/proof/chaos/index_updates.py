"""Many updates of an index of new tables, until the server is gone.

Their redo is what InnoDB applies in its buffer pool after a crash, and what hung it there while the
log was larger than the pool (ADR 59). No other client of these trials writes that much.
"""

from __future__ import annotations

import subprocess
import time

from tests.proof.operations.remote_client import RemoteClient, end_client
from tests.system.machine import wait_for

TEST, TABLES, ROWS, THREADS = "oltp_update_index", 2, 100_000, 8
WRITES_FOR_S = 20.0  # before the fault
MOST_S = 600


class IndexUpdates:
    """sysbench on one host of the lab; it ends with the first connection that it loses."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> IndexUpdates:
        """Make the tables anew, and write for some time.

        Raises subprocess.CalledProcessError when sysbench fails.
        """
        self._client.rows("drop database if exists sbtest; create database sbtest")
        subprocess.run(
            self._argv("prepare", f"--threads={TABLES}"), check=True, capture_output=True
        )
        argv = self._argv("run", f"--threads={THREADS}", f"--time={MOST_S}")
        began_s = time.monotonic()
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: time.monotonic() > began_s + WRITES_FOR_S, "updates", 2 * WRITES_FOR_S)
        assert self._process.poll() is None, "sysbench ended before the fault"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end_client(self._process)

    def _argv(self, command: str, *options: str) -> list[str]:
        tables = (f"--tables={TABLES}", f"--table-size={ROWS}")
        return self._client.sysbench_argv(TEST, command, *tables, *options, timeout_s=MOST_S + 60)
