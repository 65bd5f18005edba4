"""Restore tests: the latest backup becomes a database for a while, and is looked through.

Its tables are checked, and compared by checksum with those of a thin clone of the snapshot that
the backup was read from. That snapshot stays with the database until the next backup, so nothing
has to be computed while a backup is taken; once it is gone, the check stands alone.

Where binary logs are archived, the latest moment that they lead to is restored next: it is shown as
restorable, so it must be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from grampus.core.clock import format_moment
from grampus.core.errors import GrampusError
from grampus.databases.administrator import (
    Administrator,
    administrator_of,
)
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlog_links import links_of
from grampus.databases.backup.binlogs import decide_reach
from grampus.databases.backup.decide_chain import decide_latest
from grampus.databases.backup.decide_tested import (
    LOG_PROBLEMS,
    SYSTEM_SCHEMAS,
    RestoreTest,
    decide_problem,
    name_of_scratch,
    parse_checksums,
    render_checksums,
)
from grampus.databases.backup.errors import BackupDamagedError
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.owners import is_of, own_backups, owner_of
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.restores import DatabaseRestores, RestoreRequest
from grampus.databases.backup.states import BackupStates
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.model import DatabaseRecord
from grampus.databases.service import DatabaseService
from grampus.databases.verify.decide_scratch import TEST_LABEL, Maker
from grampus.databases.verify.decide_tables import (
    LIST_TABLES,
    Table,
    parse_tables,
)
from grampus.databases.verify.model import TableCheck
from grampus.databases.verify.scratch_databases import ScratchDatabases
from grampus.databases.verify.table_checks import check_tables
from grampus.state.locks import hold_lock

# As long as it takes to read the biggest table once.
TABLE_TIMEOUT_S = 12 * 3600.0
_TABLES_OF_A_STATEMENT = 50  # a statement is a part of a command line
Checksums = dict[Table, str]


@dataclass(frozen=True)
class TestedBackup:
    """A backup that was tested, and what was found."""

    manifest: BackupManifest
    test: RestoreTest


class RestoreTests:
    """Tests of backups, with databases of one lab or cluster."""

    def __init__(self, databases: DatabaseService, clones: DatabaseClones) -> None:
        self._databases = databases
        self._scratch = ScratchDatabases(databases, TEST_LABEL)
        self._clones = clones
        self._operations = databases.operations

    def names(self, place: TargetPlace) -> list[str]:
        """The databases that have backups in `place`. Raises NotFoundError with `no-target`."""
        backups = self._kept(place).observe().backups.values()
        return sorted({backup.database.name for backup in backups})

    def plan(self, name: str, place: TargetPlace) -> list[str]:
        """What `test` would do, one line each. Raises what it raises."""
        manifest = self._latest(self._kept(place), name)
        lines = [
            f"Restore {manifest.id} into the database {name_of_scratch('new', name)}",
            "Check all its tables, and compute their checksums",
        ]
        if self._find_origin(manifest) is not None:
            lines += [
                f"Clone the snapshot {manifest.snapshot} of {name}",
                "Read the clone's tables, and compare the checksums",
            ]
        moment = self._latest_moment(manifest, place)
        if moment is not None:
            lines.append(
                f"Restore {format_moment(moment)} by its archived binary logs, and check each table"
            )
        return [*lines, "Delete these databases, and record the result with the backup"]

    def test(self, name: str, place: TargetPlace) -> TestedBackup:
        """Restore the latest backup of `name`, look through it, and keep what was found.

        What is wrong with the backup is the answer. Raises NotFoundError, RefusedError with code
        `busy`, and what keeps a restore from being tried.
        """
        operations, kept = self._operations, self._kept(place)
        manifest = self._latest(kept, name)
        lock = Maker(TEST_LABEL, name).lock(operations.lab)
        with hold_lock(operations.home, lock, operations.clock, timeout_s=0):
            test = self._test(manifest, place)
        kept.catalogue.keep_test(manifest.id, test)
        BackupStates(operations).note_test(manifest, place, test)
        return TestedBackup(manifest, test)

    def _test(self, manifest: BackupManifest, place: TargetPlace) -> RestoreTest:
        operations, name = self._operations, manifest.database.name
        restored_name, origin_name = name_of_scratch("new", name), name_of_scratch("old", name)
        for leftover in (restored_name, origin_name):
            self._scratch.remove(leftover)
        try:
            with self._scratch.gone_after(restored_name):
                request = RestoreRequest(
                    restored_name,
                    place,
                    backup_id=manifest.id,
                    labels={TEST_LABEL: name},
                )
                DatabaseRestores(self._databases).restore(request)
                checks, restored = self._check(restored_name), self._checksums(restored_name)
        except BackupDamagedError as error:
            return RestoreTest(
                at=operations.clock.now(), tables=0, compared=False, problem=error.problem
            )
        original: Checksums | None = None
        if (origin := self._find_origin(manifest)) is not None:
            with self._scratch.gone_after(origin_name):
                source = origin.spec.name
                labels = {TEST_LABEL: name}
                self._clones.clone(
                    CloneRequest(source, origin_name, snapshot=manifest.snapshot, labels=labels)
                )
                original = self._checksums(origin_name)
        problem = decide_problem(checks, restored, original)
        moment = self._latest_moment(manifest, place)
        if problem is None and moment is not None:
            problem = self._test_moment(manifest, restored_name, place, moment)
        return RestoreTest(
            at=operations.clock.now(),
            tables=len(checks),
            compared=original is not None,
            problem=problem,
            logs_until=moment,
        )

    def _test_moment(
        self, manifest: BackupManifest, restored_name: str, place: TargetPlace, moment: datetime
    ) -> str | None:
        """What is wrong with the archived binary logs up to that moment, or None."""
        name = manifest.database.name
        owner = owner_of(self._kept(place).observe(name).backups, manifest)
        try:
            with self._scratch.gone_after(restored_name):
                labels = {TEST_LABEL: name}
                request = RestoreRequest(
                    restored_name,
                    place,
                    source=name,
                    source_id=owner.id,
                    moment=moment,
                    labels=labels,
                )
                DatabaseRestores(self._databases).restore(request)
                return decide_problem(self._check(restored_name), {}, None)
        except GrampusError as error:
            if not isinstance(error, BackupDamagedError) and error.code not in LOG_PROBLEMS:
                raise
            return f"The moment {format_moment(moment)}: {error.problem}"

    def _latest_moment(self, manifest: BackupManifest, place: TargetPlace) -> datetime | None:
        """The latest moment that archived binary logs lead to from this backup."""
        kept, name = self._kept(place), manifest.database.name
        archive = BinlogArchive(
            *(kept.target, kept.keys.get(manifest.key_id), name),
            others=kept.keys.all(),
            database_id=manifest.database.database_id,
        )
        backups = {manifest.id: manifest}
        reach = decide_reach(backups, archive.stretches(), name, links_of(archive))
        return reach[0] if reach is not None else None

    def _check(self, name: str) -> list[TableCheck]:
        """What CHECK TABLE says of each table."""
        return check_tables(self._administrator(name), self._operations.progress)

    def _checksums(self, name: str) -> Checksums:
        """Of each table that a user made."""
        administrator = self._administrator(name)
        listed = parse_tables(administrator.query(LIST_TABLES))
        tables = [table for table in listed if table[0] not in SYSTEM_SCHEMAS]
        self._operations.progress.phase(f"Read {len(tables)} tables of {name}")
        found: Checksums = {}
        for start in range(0, len(tables), _TABLES_OF_A_STATEMENT):
            some = tables[start : start + _TABLES_OF_A_STATEMENT]
            rows = administrator.query(render_checksums(some), timeout_s=TABLE_TIMEOUT_S)
            found |= parse_checksums(some, rows)
        return found

    def _administrator(self, name: str) -> Administrator:
        return administrator_of(self._operations.ports, self._operations.ready(name).spec)

    def _find_origin(self, manifest: BackupManifest) -> DatabaseRecord | None:
        """The database that still has the snapshot which the backup was read from."""
        record = self._operations.records.find(manifest.database.name)
        if record is None or not is_of(manifest, record):
            return None
        found = {snapshot.name for snapshot in self._operations.volumes.snapshots(record.spec.name)}
        return record if manifest.snapshot in found and record.phase == "ready" else None

    def _latest(self, kept: KeptBackups, name: str) -> BackupManifest:
        """The database's own newest backup; of one that is gone, or has none, any of that name."""
        backups, record = kept.observe(name).backups, self._operations.records.find(name)
        own = own_backups(backups, record) if record is not None else {}
        return decide_latest(own or backups, name)

    def _kept(self, place: TargetPlace) -> KeptBackups:
        return KeptBackups(self._operations.home, self._operations.clock, place)
