"""A client that connects anew for each row, as a program does after its connection was lost."""

from __future__ import annotations

import contextlib
import subprocess
import threading

from tests.proof.operations.commit_watch import AcknowledgedRows
from tests.proof.operations.remote_client import RemoteClient

EVERY_S = 0.2
# A connection to nobody is given up after a second, and a statement that gets no answer, too.
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 1, 2.5
MAKE_TABLE = (
    "create schema if not exists watch; drop table if exists watch.fresh; "
    "create table watch.fresh (number int primary key)"
)


class FreshClient(AcknowledgedRows):
    """Rows that were committed over new connections, and how many attempts failed."""

    def __init__(self, client: RemoteClient) -> None:
        super().__init__()
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> FreshClient:
        self._client.rows(MAKE_TABLE)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def missing(self) -> list[int]:
        """Acknowledged rows that the database does not hold."""
        rows = self.rows()
        held = {int(row[0]) for row in self._client.rows("select number from watch.fresh")}
        return [row.number for row in rows if row.number not in held]

    def _work(self) -> None:
        number = 0
        while not self._stop.wait(EVERY_S):
            number += 1
            self.note(number, is_acknowledged=self._commit(number))

    def _commit(self, number: int) -> bool:
        argv = self._client.mysql_argv(
            *("--batch", "--skip-column-names", f"--connect-timeout={CONNECT_TIMEOUT_S}"),
            *("-e", f"insert into watch.fresh values ({number}); select row_count(), {number}"),
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            ended = subprocess.run(
                argv, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S
            )
            return ended.stdout.strip() == f"1\t{number}"
        return False
