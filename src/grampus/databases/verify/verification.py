"""Databases verified: every copy of what they read on the OSDs, and every table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.verify.decide_restored import RestoredBackup
from grampus.databases.verify.decide_verified import Verification
from grampus.databases.verify.table_checks import TableChecks
from grampus.databases.verify.verify_steps import VERIFY, VerifiedOrder
from grampus.volumes.decide_scrub import ScrubReport
from grampus.volumes.model import VolumeRecord


class ScrubPort(Protocol):
    """Deep scrubs of the volumes of the cluster."""

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

    def __init__(
        self, operations: DatabaseOperations, scrubs: ScrubPort, checks: TableChecks
    ) -> None:
        self._operations = operations
        self._scrubs = scrubs
        self._checks = checks

    def verify(
        self,
        name: str,
        *,
        scrub: bool,
        tables: bool,
        repair: bool,
        in_place: bool = False,
        restore: Callable[[], RestoredBackup] | None = None,
    ) -> Verification:
        """Look at all that is asked for, and keep the result with the database, also of what was
        looked at before something could not be.

        `in_place`: its own server checks its tables, and not one of a clone. `restore` is called
        last, and restores its newest backup (`NewestBackups.prepare`). Raises NotFoundError,
        RefusedError with code `not-ready`, `not-running` (for its tables), `busy` or
        `scrub-forbidden`, HostUnreachableError, GrampusError with code `timeout`.
        """
        record, runner = self._require(name, tables=tables), self._operations.runner
        report = None
        if scrub:
            volume = self._operations.volumes.get(name)
            with runner.part_of_plan():
                report = self._scrubs.scrub(volume, repair=repair)
        seen = Verification(name, self._operations.clock.now(), report, None)
        try:
            if tables:
                with runner.part_of_plan():
                    checks = tuple(self._checks.check(record, in_place=in_place))
                    seen = replace(seen, tables=checks)
            if restore is not None:
                with runner.part_of_plan():
                    seen = replace(seen, restored=restore())
        except GrampusError:
            # What was looked at before took its time, and may have been repaired.
            if seen.scrub is not None or seen.tables is not None:
                self._keep(seen)
            raise
        return self._keep(seen)

    def _keep(self, seen: Verification) -> Verification:
        operations, name = self._operations, seen.database
        verification = replace(seen, at=operations.clock.now())
        with operations.locked(name):
            operations.settle(name)
            order = VerifiedOrder(database=name, verified=verification.summary)
            operations.run(VERIFY, order)
        return verification

    def _require(self, name: str, *, tables: bool) -> DatabaseRecord:
        record = self._operations.ready(name)
        if tables:
            self._operations.require_reachable(record.spec.host, record.spec.name)
            host = self._operations.fleet.host(record.spec.host)
            if observe_daemon_state(host, server_daemon_name(name)) != "running":
                raise RefusedError(
                    f"The database {name} does not run, so its tables cannot be checked.",
                    f"Start the database (`grampus db start {name}`), or verify only the "
                    "copies on the OSDs (--deep-scrub).",
                    code="not-running",
                )
        return record
