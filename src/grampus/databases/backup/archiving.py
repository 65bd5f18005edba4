"""The binary logs of a running database, copied into a target as far as they go now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import MIB, format_bytes
from grampus.databases.administrator import administrator_of
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlogs import (
    BINLOGS_QUERY,
    Coverage,
    Piece,
    StretchEnd,
    StretchFacts,
    decide_copies,
    decide_unreachable,
    earliest_after,
    parse_binary_logs,
    require_same_history,
)
from grampus.databases.backup.decide_schedule import BackupState
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.states import BackupStates, Copied
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.operating import DatabaseOperations
from grampus.hosts.port import Host
from grampus.state.locks import hold_lock

_BINLOGS_IN_VOLUME = "binlog"
# What only somebody else can have changed in a place is read again so seldom: all of its manifests
# are read for it, and all pieces listed.
_READ_AGAIN = timedelta(minutes=10)


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
        archived, end = self._archive(name, place, states, new_stretch=new_stretch)
        copied = Copied(archived.until, end.remembered)
        state = self._known(name, place, states)
        leading = state.leading if state is not None else None
        leads_from = leading.binlog if leading is not None else None
        problem = decide_unreachable(name, end.facts.server_uuid, end.first_file, leads_from)
        if problem is None and leading is not None:
            if archived.until > earliest_after(leading.taken_at):
                states.note_archived(name, place, copied, leading.id)
            else:
                states.note_copied(name, place, copied)
        elif problem is not None and state is not None and state.last_id is not None:
            states.note_unreachable(name, place, copied, problem.problem)
            if not self._still_reaches(place, state):
                states.refresh(name, place)  # older backups led to more, and are gone now
        else:
            problem = None  # there is no backup yet: nothing has gone wrong
            states.note_copied(name, place, copied)
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
        state = states.find(name, place)
        # One small file is looked for each time, not all that there are.
        if state is not None and state.leading is not None:
            if self._kept(place).catalogue.is_whole(state.leading.id):
                return state
        elif state is not None and self._was_read(state):
            return state  # there was none, and whoever takes one notes it
        return states.refresh(name, place)

    def _still_reaches(self, place: TargetPlace, state: BackupState) -> bool:
        """Whether what is remembered as restorable still is, without reading all of the place."""
        if not self._was_read(state):
            return False
        if state.reaching_id is None:
            return state.archived_until is None
        return self._kept(place).catalogue.is_whole(state.reaching_id)

    def _was_read(self, state: BackupState) -> bool:
        """Whether the place was asked for all of it lately."""
        if state.read_at is None:
            return False
        return abs(self._operations.clock.now() - state.read_at) < _READ_AGAIN

    def _kept(self, place: TargetPlace) -> KeptBackups:
        return KeptBackups(self._operations.home, self._operations.clock, place)

    def _archive(
        self, name: str, place: TargetPlace, states: BackupStates, *, new_stretch: bool
    ) -> tuple[Archived, StretchEnd]:
        """What was done, and where the archive ends now."""
        operations = self._operations
        spec = operations.ready(name).spec
        self._require_running(spec)
        kept = self._kept(place)
        states.require_place(name, place, kept.target.find_id())
        target_id = kept.target.ensure_id()
        states.note_place(name, place, target_id)
        with hold_lock(operations.home, f"archive.{target_id}.{name}", operations.clock):
            key, others = kept.keys.ensure_current(), kept.keys.all()
            archive = BinlogArchive(kept.target, key, name, others=others)
            # Before the server is asked: all that was committed until now is in what it lists.
            until = operations.clock.now()
            rows = administrator_of(operations.ports, spec).query(BINLOGS_QUERY)
            state = states.find(name, place)  # now that nobody else adds to the archive
            known = archive.end(state.archive_end if state is not None else None)
            # Another server's: its volume was rolled back, or a database of that name made anew.
            if new_stretch or known is None or known.facts.server_uuid != rows[0][0]:
                facts = StretchFacts(server_uuid=rows[0][0], begun_at=until)
                known = archive.begin(facts, after=known)
            source = _BinlogSource(operations, spec)
            try:
                copies = decide_copies(known.last, parse_binary_logs(rows[1:]), name)
                if known.last is not None:
                    require_same_history(known.last, source.tail(known.last), name)
            except GrampusError as error:
                if error.code == "archive-gap":
                    after = f"{known.id}/{known.last.name if known.last is not None else ''}"
                    states.note_gap(name, place, error.problem, after=after)
                raise
            copied_bytes, added = 0, []
            for piece in copies:
                content = source.read(piece.file, piece.start_bytes, piece.end_bytes)
                added.append(archive.add(known.id, piece, content))
                copied_bytes += len(content)
                operations.progress.detail(f"{format_bytes(copied_bytes)} copied")
            archive.cover(known.id, Coverage(until=until))
        return Archived(known.id, copied_bytes, until), known.followed_by(added)

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

    def tail(self, piece: Piece) -> bytes:
        """What the file holds now where the piece's end was read from; errors as `read`."""
        return self.read(piece.file, piece.tail_start_bytes, piece.end_bytes)

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
