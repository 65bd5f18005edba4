"""A bank: transfers between accounts, each over a new connection, as after a lost one."""

from __future__ import annotations

import contextlib
import subprocess
import threading

from tests.proof.operations.commit_watch import AcknowledgedRows
from tests.proof.operations.remote_client import RemoteClient

EVERY_S = 0.2
# A connection to nobody is given up after a second, and a statement that gets no answer, too.
CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 1, 2.5
ACCOUNTS, OPENING_BALANCE = 10, 100
TOTAL = ACCOUNTS * OPENING_BALANCE
_READ_TOTAL = "select sum(balance) from watch.accounts"


class BankClient(AcknowledgedRows):
    """Transfers that were acknowledged, attempts that failed, and totals that were wrong.

    Each transfer is a transaction that reads the total first, takes 1 from an account, adds 1 to
    another and notes its number. Whatever is lost, the total stays, and an acknowledged transfer is
    there.
    """

    def __init__(self, client: RemoteClient) -> None:
        super().__init__()
        self._client = client
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._wrong_totals = 0

    def __enter__(self) -> BankClient:
        self._client.rows(render_opening())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def missing(self) -> list[int]:
        """Acknowledged transfers that the database does not hold."""
        rows = self.rows()
        held = {int(row[0]) for row in self._client.rows("select number from watch.transfers")}
        return [row.number for row in rows if row.number not in held]

    def wrong_totals(self) -> int:
        """How often the total was wrong, now included."""
        return self._wrong_totals + (self._client.rows(_READ_TOTAL) != [[str(TOTAL)]])

    def _work(self) -> None:
        number = 0
        while not self._stop.wait(EVERY_S):
            number += 1
            self.note(number, is_acknowledged=self._transfer(number))

    def _transfer(self, number: int) -> bool:
        argv = self._client.mysql_argv(
            *("--batch", "--skip-column-names", f"--connect-timeout={CONNECT_TIMEOUT_S}"),
            *("-e", render_transfer(number)),
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            ended = subprocess.run(
                argv, capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S
            )
            is_acknowledged, is_wrong = read_answer(ended.stdout, number)
            self._wrong_totals += is_wrong
            return is_acknowledged
        return False


def render_opening() -> str:
    """The accounts, all with the same balance."""
    rows = ", ".join(f"({number}, {OPENING_BALANCE})" for number in range(ACCOUNTS))
    return (
        "create schema if not exists watch; "
        "drop table if exists watch.accounts; drop table if exists watch.transfers; "
        "create table watch.accounts (number int primary key, balance int not null); "
        "create table watch.transfers (number int primary key); "
        f"insert into watch.accounts values {rows}"
    )


def render_transfer(number: int) -> str:
    """One transaction; it answers with the total before it, and with its number once committed."""
    source = number % ACCOUNTS
    target = (source + 1 + number // ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS
    return (
        f"start transaction; {_READ_TOTAL}; "
        f"update watch.accounts set balance = balance - 1 where number = {source}; "
        f"update watch.accounts set balance = balance + 1 where number = {target}; "
        f"insert into watch.transfers values ({number}); commit; select {number}"
    )


def read_answer(output: str, number: int) -> tuple[bool, bool]:
    """Whether the transfer was acknowledged, and whether the total that it read was wrong."""
    lines = output.split()
    is_wrong = bool(lines) and lines[0] != str(TOTAL)
    return lines[1:] == [str(number)], is_wrong
