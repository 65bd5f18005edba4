"""Databases verified: every copy of what they read on the OSDs, and every table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from grampus.core.errors import RefusedError
from grampus.databases.administrator import (
    Administrator,
    StatementFailedError,
    administrator_of,
)
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.verify.decide_tables import (
    CONNECTION_LOST,
    LIST_TABLES,
    Table,
    classify_check,
    parse_tables,
    render_check,
    show_table,
)
from grampus.databases.verify.decide_verified import Verification
from grampus.databases.verify.model import TableCheck
from grampus.databases.verify.verify_steps import VERIFY, VerifiedOrder
from grampus.volumes.decide_scrub import ScrubReport
from grampus.volumes.model import VolumeRecord

# A check reads the whole table, with every index, through the buffer pool.
CHECK_TIMEOUT_S = 12 * 3600.0


class ScrubPort(Protocol):
    """Deep scrubs of the volumes of the cluster."""

    def describe(self, volume: VolumeRecord, *, repair: bool) -> list[str]:
        """What `scrub` would do, one line a step."""
        ...

    def scrub(self, volume: VolumeRecord, *, repair: bool) -> ScrubReport:
        """Read and compare every copy of all that the volume reads.

        Raises RefusedError with code `scrub-forbidden`, GrampusError with code `timeout`.
        """
        ...


class DatabaseVerification:
    """Verifications of the databases of one lab or cluster.

    Nothing is locked while they run, which may be for hours: they change nothing of the database,
    and it goes on serving.
    """

    def __init__(self, operations: DatabaseOperations, scrubs: ScrubPort) -> None:
        self._operations = operations
        self._scrubs = scrubs

    def describe(self, name: str, *, scrub: bool, tables: bool, repair: bool) -> list[str]:
        """What `verify` would do, one line a step. Raises what it raises at its start."""
        record = self._require(name, tables=tables)
        steps = []
        if scrub:
            volume = self._operations.volumes.get(name)
            steps += self._scrubs.describe(volume, repair=repair)
        if tables:
            count = len(parse_tables(self._administrator(record).query(LIST_TABLES)))
            steps.append(f"Check {count} tables of {name}")
        order = VerifiedOrder(
            database=name, verified=Verification(name, record.created_at, None, None).summary
        )
        return [*steps, *self._operations.describe(VERIFY, order)]

    def verify(self, name: str, *, scrub: bool, tables: bool, repair: bool) -> Verification:
        """Look at all that is asked for, and keep the result with the database.

        Raises NotFoundError, RefusedError with code `not-ready`, `not-running` (for its tables) or
        `scrub-forbidden`, HostUnreachableError, GrampusError with code `timeout`.
        """
        record = self._require(name, tables=tables)
        report = None
        if scrub:
            volume = self._operations.volumes.get(name)
            report = self._scrubs.scrub(volume, repair=repair)
        checks = tuple(self._check(record)) if tables else None
        verification = Verification(name, self._operations.clock.now(), report, checks)
        with self._operations.locked(name):
            self._operations.settle(name)
            order = VerifiedOrder(database=name, verified=verification.summary)
            self._operations.run(VERIFY, order)
        return verification

    def _require(self, name: str, *, tables: bool) -> DatabaseRecord:
        record = self._operations.ready(name)
        if tables:
            self._operations.require_reachable(record.spec.host)
            host = self._operations.fleet.host(record.spec.host)
            if observe_daemon_state(host, server_daemon_name(name)) != "running":
                raise RefusedError(
                    f"The database {name} does not run, so its tables cannot be checked.",
                    f"Start it (`grampus db start {name}`), or verify what the OSDs hold of it "
                    "alone (--deep-scrub).",
                    code="not-running",
                )
        return record

    def _check(self, record: DatabaseRecord) -> Iterator[TableCheck]:
        administrator, progress = self._administrator(record), self._operations.progress
        tables = parse_tables(administrator.query(LIST_TABLES))
        progress.phase(f"Check {len(tables)} tables")
        ended = ""
        for number, table in enumerate(tables):
            progress.detail(show_table(table), fraction=number / len(tables))
            if ended:
                yield TableCheck(table=show_table(table), outcome="unchecked", said=ended)
                continue
            check, is_lost = _check_table(administrator, table)
            if is_lost:
                ended = f"The server ended at the check of {show_table(table)}."
            yield check

    def _administrator(self, record: DatabaseRecord) -> Administrator:
        return administrator_of(self._operations.ports, record.spec)


def _check_table(administrator: Administrator, table: Table) -> tuple[TableCheck, bool]:
    """The check, and whether it lost us the server: InnoDB ends at pages that it cannot read."""
    try:
        rows = administrator.query(render_check(table), timeout_s=CHECK_TIMEOUT_S)
    except StatementFailedError as error:
        broken = TableCheck(table=show_table(table), outcome="broken", said=error.said)
        # Without a number the client itself was ended: it goes with the server's container.
        return broken, error.number is None or error.number in CONNECTION_LOST
    return classify_check(table, rows), False
