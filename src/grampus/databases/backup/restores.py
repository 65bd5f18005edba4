"""Restores: a backup becomes a new database, whatever became of the one it was taken from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from grampus.core.errors import RefusedError
from grampus.core.units import format_bytes
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlog_links import links_of
from grampus.databases.backup.binlogs import decide_point
from grampus.databases.backup.decide_chain import (
    decide_chain,
    require_known,
    require_whole,
)
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.model import (
    BackedUpDatabase,
    BackupManifest,
    ReplayOrder,
    RestoreOrder,
)
from grampus.databases.backup.owners import decide_meant, is_same
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.restoring import RESTORE_BACKUP
from grampus.databases.model import DatabaseRecord
from grampus.databases.request import CreateRequest
from grampus.databases.service import DatabaseService


@dataclass(frozen=True)
class RestoreRequest:
    """What shall be restored, and as what; None: as it was."""

    name: str  # of the new database
    place: TargetPlace
    backup_id: str | None = None  # None: the latest, or what `moment` needs
    source: str | None = None  # of which database, when there are several
    source_id: str | None = None  # the beginning of its id, where several had the same name
    moment: datetime | None = None  # all that was committed before, and nothing after
    size_bytes: int | None = None  # None: as it was, or as the database is now if that is bigger
    memory_bytes: int | None = None
    cpus: float | None = None
    host: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RestoredDatabase:
    """A database that was restored, and the newest backup that it was made from."""

    record: DatabaseRecord
    manifest: BackupManifest


class DatabaseRestores:
    """Restores into one lab or cluster."""

    def __init__(self, databases: DatabaseService) -> None:
        self._databases = databases
        self._operations = databases.operations

    def plan_restore(self, request: RestoreRequest) -> RestoreOrder:
        """The restore, everything chosen and checked; nothing is changed.

        Raises NotFoundError for what is not there, RefusedError with code `incomplete`,
        `not-archived` or `shrink`, BackupDamagedError when the chain is not whole or not
        authentic, and what `DatabaseService.plan_create` raises.
        """
        kept = KeptBackups(self._operations.home, self._operations.clock, request.place)
        chain, replay = _decide_source(kept, request, self._find_ready)
        for backup in chain:
            kept.catalogue.require_authentic(backup)
        newest = chain[-1]
        was = newest.database
        if newest.volume_key is not None:
            self._operations.volumes.encryption.require_openable(newest.volume_key)
        size_bytes = decide_size(was.size_bytes, request.size_bytes, self._size_now(was))
        spec = self._databases.plan_create(
            CreateRequest(
                name=request.name,
                size_bytes=size_bytes,
                memory_bytes=request.memory_bytes or was.memory_bytes,
                cpus=request.cpus or was.cpus,
                flavour=was.flavour,
                host=request.host,
                write_path=was.write_path,
                max_lag_ms=was.max_lag_ms if was.write_path == "cache" else None,
                journal_memory_bytes=was.journal_memory_bytes,
                encrypt=was.encryption is not None,
            )
        )
        return RestoreOrder(
            database=spec.model_copy(
                update={
                    "parameters": was.parameters,
                    "labels": dict(request.labels),
                    "external_log_bytes": was.external_log_bytes,
                }
            ),
            source_user=was.user,
            chain=tuple(backup.id for backup in chain),
            target=request.place,
            replay=replay,
            volume_key=newest.volume_key,
            grows_from_bytes=was.size_bytes if spec.size_bytes > was.size_bytes else None,
        )

    def _size_now(self, was: BackedUpDatabase) -> int:
        """The size of the database that the backup was taken of; 0: it is not here any more."""
        records = self._operations.records.all().values()
        return next((one.spec.size_bytes for one in records if is_same(was, one)), 0)

    def _find_ready(self, name: str) -> DatabaseRecord | None:
        record = self._operations.records.find(name)
        return record if record is not None and record.phase == "ready" else None

    def restore(self, request: RestoreRequest) -> RestoredDatabase:
        """Make the new database, with the rows that the backup holds, and wait for its server.

        What fails or is cut off is undone. Raises what `plan_restore` raises, and
        BackupDamagedError where the data is not what was written.
        """
        self.plan_restore(request)  # before the lock: a host image may have to be built
        with self._operations.locked(request.name):
            self._operations.settle(request.name)
            with self._operations.addresses_locked():
                order = self.plan_restore(request)
                operation = self._operations.begin(RESTORE_BACKUP, order)
            self._operations.apply(operation, RESTORE_BACKUP, order)
            record = self._operations.ready(request.name)
            kept = KeptBackups(self._operations.home, self._operations.clock, request.place)
            manifest = require_known(kept.observe().backups, order.chain[-1])
        return RestoredDatabase(record, manifest)


def decide_size(was_bytes: int, wanted_bytes: int | None, now_bytes: int) -> int:
    """The size of a restored database: its backup's, or more.

    A database that has grown since its backup has rows in its binary logs that need the room.
    Raises RefusedError with code `shrink`.
    """
    if wanted_bytes is not None and wanted_bytes < was_bytes:
        raise RefusedError(
            f"The backup needs a volume of {format_bytes(was_bytes)}. A volume cannot shrink "
            f"to {format_bytes(wanted_bytes)}.",
            f"Remove --size, or choose at least {format_bytes(was_bytes)}.",
            code="shrink",
        )
    return wanted_bytes or max(was_bytes, now_bytes)


def _decide_source(
    kept: KeptBackups,
    request: RestoreRequest,
    find_record: Callable[[str], DatabaseRecord | None],
) -> tuple[tuple[BackupManifest, ...], ReplayOrder | None]:
    """The chain of backups, and the binary logs to apply after it."""
    contents = kept.observe()
    if request.backup_id is not None:
        wanted = require_whole(contents.backups, contents.incomplete, request.backup_id)
        return decide_chain(contents.backups, wanted.id), None
    meant = decide_meant(
        contents.backups, request.source, owner_id=request.source_id, find_record=find_record
    )
    newest = max(meant.values(), key=lambda backup: (backup.taken_at, backup.id))
    if request.moment is None:
        return decide_chain(meant, newest.id), None
    database, keys = newest.database.name, kept.keys
    archive = BinlogArchive(
        *(kept.target, keys.get(newest.key_id), database),
        others=keys.all(),
        database_id=newest.database.database_id,
    )
    links = links_of(archive)
    point = decide_point(meant, archive.stretches(), database, request.moment, links)
    replay = ReplayOrder(
        moment=request.moment, stretch=point.stretch.id, first_file=point.pieces[0].file
    )
    return point.chain, replay
