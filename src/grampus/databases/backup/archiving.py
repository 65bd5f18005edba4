"""The binary logs of a running database, copied into a target as far as they go now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import MIB, format_bytes
from grampus.databases.administrator import administrator_of
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlogs import (
    BINLOGS_QUERY,
    Coverage,
    Stretch,
    StretchFacts,
    decide_copies,
    decide_unreachable,
    earliest_after,
    parse_binary_logs,
    require_same_history,
    tail_of,
)
from grampus.databases.backup.decide_schedule import BackupState
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.states import BackupStates
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.operating import DatabaseOperations
from grampus.hosts.port import Host
from grampus.state.locks import hold_lock

_BINLOGS_IN_VOLUME = "binlog"


@dataclass(frozen=True)
class Archived:
    """What one call did."""

    stretch: str
    copied_bytes: int
    until: datetime  # all that was committed before is in the archive
    restorable_until: datetime | None = None  # the latest moment to which a backup leads
    problem: GrampusError | None = None  # why that is not `until`, where it should be


class BinlogArchiver:
    """Copies binary logs. It changes no database, so it takes no database's lock."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def archive(self, name: str, place: TargetPlace, *, new_stretch: bool = False) -> Archived:
        """Copy what the archive does not have yet, the part of the open file included.

        A gap is never skipped: only `new_stretch` goes on after one. A server that is another one
        than before (its volume was rolled back) begins a stretch of its own; until a backup leads
        to it, the answer has a `problem`. Raises NotFoundError, RefusedError with code `not-ready`,
        `not-running`, `flavour` or `busy`, and GrampusError with code `archive-gap`.
        """
        states = BackupStates(self._operations)
        try:
            archived, first_file, server_uuid = self._archive(name, place, new_stretch=new_stretch)
        except GrampusError as error:
            if error.code == "archive-gap":
                states.note_archive_problem(name, place, error.problem)
            raise
        state = self._known(name, place, states)
        leading = state.leading if state is not None else None
        leads_from = leading.binlog if leading is not None else None
        problem = decide_unreachable(name, server_uuid, first_file, leads_from)
        if problem is None and leading is not None:
            if archived.until > earliest_after(leading.taken_at):
                states.note_archived(name, place, archived.until)
            else:
                states.note_copied(name, place, archived.until)
        elif problem is not None and state is not None and state.last_id is not None:
            states.note_unreachable(name, place, archived.until, problem.problem)
            states.refresh(name, place)  # older backups may have led to more, and be gone now
        else:
            problem = None  # there is no backup yet: nothing has gone wrong
            states.note_copied(name, place, archived.until)
        state = states.find(name, place)
        until = state.archived_until if state is not None else None
        return replace(archived, restorable_until=until, problem=problem)

    @staticmethod
    def require_flavour(flavour: FlavourName) -> None:
        """Raise RefusedError with code `flavour` where binary logs cannot be archived."""
        if flavour != "mysql":
            raise RefusedError(
                f"Binary logs of {flavour} are not archived yet, only those of mysql.",
                "Take backups of it: `grampus db backup create`.",
                code="flavour",
            )

    def _known(self, name: str, place: TargetPlace, states: BackupStates) -> BackupState | None:
        """What is known of the backups; read from the place when the leading one is not there."""
        kept = KeptBackups(self._operations.home, self._operations.clock, place)
        state = states.find(name, place)
        # One small file is looked for each time, not all that there are.
        if state is not None and state.leading and kept.catalogue.is_whole(state.leading.id):
            return state
        return states.refresh(name, place)

    def _archive(
        self, name: str, place: TargetPlace, *, new_stretch: bool
    ) -> tuple[Archived, str | None, str]:
        """What was done; the first log of the stretch, and whose it is."""
        operations = self._operations
        spec = operations.ready(name).spec
        self._require_running(spec)
        kept = KeptBackups(operations.home, operations.clock, place)
        target_id = kept.target.ensure_id()
        with hold_lock(operations.home, f"archive.{target_id}.{name}", operations.clock):
            key, others = kept.keys.ensure_current(), kept.keys.all()
            archive = BinlogArchive(kept.target, key, name, others=others)
            # Before the server is asked: all that was committed until now is in what it lists.
            until = operations.clock.now()
            rows = administrator_of(operations.ports, spec).query(BINLOGS_QUERY)
            stretch = self._stretch(archive, rows[0][0], until, new_stretch=new_stretch)
            copies = decide_copies(stretch.pieces, parse_binary_logs(rows[1:]), name)
            source = _BinlogSource(operations, spec)
            if stretch.pieces:
                last = stretch.pieces[-1]
                found = source.read(last.file, last.tail_start_bytes, last.end_bytes)
                require_same_history(last, tail_of(found), name)
            copied_bytes = 0
            for piece in copies:
                content = source.read(piece.file, piece.start_bytes, piece.end_bytes)
                archive.add(stretch, piece, content)
                copied_bytes += len(content)
                operations.progress.detail(f"{format_bytes(copied_bytes)} copied")
            archive.cover(stretch, Coverage(until=until))
        pieces = [*stretch.pieces[:1], *copies[:1]]
        first_file = pieces[0].file if pieces else None
        return Archived(stretch.id, copied_bytes, until), first_file, stretch.facts.server_uuid

    def _stretch(
        self, archive: BinlogArchive, server_uuid: str, now: datetime, *, new_stretch: bool
    ) -> Stretch:
        known = archive.stretches()
        # Another server's: a database of that name was made anew.
        if not new_stretch and known and known[-1].facts.server_uuid == server_uuid:
            return known[-1]
        return archive.begin(StretchFacts(server_uuid=server_uuid, begun_at=now))

    def _require_running(self, spec: DatabaseSpec) -> None:
        self.require_flavour(spec.flavour)
        self._operations.require_reachable(spec.host)
        host = self._operations.fleet.host(spec.host)
        if observe_daemon_state(host, server_daemon_name(spec.name)) != "running":
            raise RefusedError(
                f"The database {spec.name} is not running.",
                f"`grampus db start {spec.name}` starts it.",
                code="not-running",
            )


class _BinlogSource:
    """The server's own files, on the volume that is mounted on its host."""

    def __init__(self, operations: DatabaseOperations, spec: DatabaseSpec) -> None:
        self._host: Host = operations.fleet.host(spec.host)
        attachment = operations.volumes.get(spec.name).attachment
        if attachment is None:
            raise GrampusError(
                f"The volume of {spec.name} is not attached.",
                f"`grampus db start {spec.name}` mends it.",
                code="not-running",
            )
        self._directory = PurePosixPath(attachment.mount_path) / _BINLOGS_IN_VOLUME

    def read(self, file: str, start_bytes: int, end_bytes: int) -> bytes:
        """Exactly these bytes, at most a piece. Raises GrampusError when they are not all there."""
        size_bytes = end_bytes - start_bytes
        command = [
            "dd",
            f"if={self._directory / file}",
            f"bs={MIB}",
            "iflag=skip_bytes,count_bytes",
            f"skip={start_bytes}",
            f"count={size_bytes}",
            "status=none",
        ]
        parts: list[bytes] = []
        with self._host.reading(command) as source:
            while data := source.read(MIB):
                parts.append(data)
        content = b"".join(parts)
        if len(content) != size_bytes:
            raise GrampusError(
                f"{file} has {len(content)} bytes after byte {start_bytes}, not {size_bytes}.",
                "Try again; if it stays so, the server's files were changed by hand.",
                code="archive-short",
            )
        return content
