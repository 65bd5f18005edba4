"""The binary logs of a running database, copied into a target as far as they go now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import format_bytes
from grampus.databases.administrator import administrator_of
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.binlog_events import ENCRYPTED_MAGIC, encrypted
from grampus.databases.backup.binlog_links import leads_on
from grampus.databases.backup.binlog_source import BinlogSource
from grampus.databases.backup.binlogs import (
    BINLOGS_QUERY,
    BinlogFile,
    Coverage,
    Piece,
    StretchEnd,
    StretchFacts,
    decide_copies,
    decide_unreachable,
    decide_until,
    earliest_after,
    in_order,
    parse_binary_logs,
    require_same_history,
    unreachable,
)
from grampus.databases.backup.decide_schedule import BackupState
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.states import BackupStates, Copied
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.operating import DatabaseOperations
from grampus.state.locks import hold_lock

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
    # What the archive itself says of `until`; earlier where nothing was committed since.
    covered_until: datetime | None = None


class BinlogArchiver:
    """Copies binary logs. It changes no database, so it takes no database's lock."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def archive(
        self,
        name: str,
        place: TargetPlace,
        *,
        new_stretch: bool = False,
        covers_every: timedelta = timedelta(0),
    ) -> Archived:
        """Copy what the archive does not have yet, the part of the open file included.

        As long as there is nothing to copy, the archive is told only so often up to when nothing
        is missing; until then, no later moment is shown as restorable.

        A gap is never skipped: only `new_stretch` goes on after one. A server that is another one
        than before (its volume was rolled back), or whose binary logs were reset, begins a stretch
        of its own; until a backup leads to it, the answer has a `problem`. Raises NotFoundError,
        RefusedError with code `not-ready`, `not-running`, `flavour` or `busy`, and GrampusError
        with code `archive-gap` or `binlog-encrypted`.
        """
        states = BackupStates(self._operations)
        archived, end = self._archive(
            name, place, states, new_stretch=new_stretch, covers_every=covers_every
        )
        covered_until = archived.covered_until or archived.until
        copied = Copied(covered_until, end.remembered)
        state = self._known(name, place, states)
        leading = state.leading if state is not None else None
        leads_from = leading.binlog if leading is not None else None
        problem = decide_unreachable(name, end.facts.server_uuid, end.first_file, leads_from)
        if problem is None and state is not None and not self._is_linked(name, place, state, end):
            problem = unreachable(name, "its binary logs were reset since the last backup")
        if problem is None and leading is not None:
            if covered_until > earliest_after(leading.taken_at):
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
                f"Grampus archives binary logs of mysql only, not of {flavour}.",
                "Take backups of the database: `grampus db backup create NAME --to PLACE`.",
                code="flavour",
            )

    def _known(self, name: str, place: TargetPlace, states: BackupStates) -> BackupState | None:
        """What is known of the backups; read from the place when the leading one is not there."""
        state = states.find(name, place)
        # One small file is looked for each time, not all that there are.
        if state is not None and state.leading is not None and state.leading.is_under(name):
            if self._kept(place).catalogue.is_whole(state.leading.id):
                return state
        elif state is not None and self._was_read(state):
            return state  # there was none, and whoever takes one notes it
        return states.refresh(name, place)

    def _is_linked(
        self, name: str, place: TargetPlace, state: BackupState, end: StretchEnd
    ) -> bool:
        """Whether the newest stretch goes on where the leading backup was taken."""
        leading = state.leading
        if leading is None:
            return True
        linked = f"{end.id}/{leading.id}"
        if state.linked == linked:
            return True
        states, kept = BackupStates(self._operations), self._kept(place)
        if leading.binlog.head is None and leading.gtid_executed is None:
            read = states.refresh(name, place)  # an earlier release did not remember that
            found = read.leading if read is not None else None
            leading = found if found is not None and found.id == leading.id else leading
        archive = BinlogArchive(
            kept.target, kept.keys.ensure_current(), name, others=kept.keys.all()
        )
        to_first = leading.binlog.head is None
        head = archive.head(end.id, leading.binlog.file, to_first=to_first)
        if not leads_on(leading.binlog, leading.gtid_executed, leading.taken_at, head):
            return False
        states.note_linked(name, place, linked)
        return True

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
        self,
        name: str,
        place: TargetPlace,
        states: BackupStates,
        *,
        new_stretch: bool,
        covers_every: timedelta,
    ) -> tuple[Archived, StretchEnd]:
        """What was done, and where the archive ends now."""
        operations = self._operations
        record = operations.ready(name)
        spec = record.spec
        self._require_running(spec)
        kept = self._kept(place)
        found_id = kept.target.find_id()
        states.require_place(name, place, found_id)
        target_id = found_id or kept.target.ensure_id()
        states.note_place(name, place, target_id)
        with hold_lock(operations.home, f"archive.{target_id}.{name}", operations.clock):
            key, others = kept.keys.ensure_current(), kept.keys.all()
            archive = BinlogArchive(kept.target, key, name, others=others, database_id=record.id)
            # Before the server is asked: all that was committed until now is in what it lists.
            now = operations.clock.now()
            rows = administrator_of(operations.ports, spec).query(BINLOGS_QUERY)
            until = decide_until(now, rows[0][1])
            state = states.find(name, place)  # now that nobody else adds to the archive
            known = archive.end(
                state.archive_end if state is not None else None, server_uuid=rows[0][0]
            )
            # Another server's: its volume was rolled back, or a database of that name made anew.
            if new_stretch or known is None or known.facts.server_uuid != rows[0][0]:
                facts = StretchFacts(server_uuid=rows[0][0], begun_at=until, database_id=record.id)
                known = archive.begin(facts, after=known)
            source, files = BinlogSource(operations.ports, spec), parse_binary_logs(rows[1:])
            try:
                copies = _decide_copies(known, files, source, name)
            except GrampusError as error:
                if error.code != "archive-gap":
                    raise
                if known.last is None or not _was_reset(archive, known, files, source):
                    after = f"{known.id}/{known.last.name if known.last is not None else ''}"
                    states.note_gap(name, place, error.problem, after=after)
                    raise
                # No number of a log or transaction means what it did: nothing goes on there.
                facts = StretchFacts(server_uuid=rows[0][0], begun_at=until, database_id=record.id)
                known = archive.begin(facts, after=known)
                copies = decide_copies(None, files, name)
            copied_bytes, added = 0, []
            for piece in copies:
                content = source.read(piece.file, piece.start_bytes, piece.end_bytes)
                if piece.start_bytes == 0 and content.startswith(ENCRYPTED_MAGIC):
                    raise encrypted(piece.file)
                added.append(archive.add(known.id, piece, content))
                copied_bytes += len(content)
                operations.progress.detail(f"{format_bytes(copied_bytes)} copied")
            end = known.followed_by(added)
            covered_until = _still_covered(state, end, until, covers_every)
            if covered_until is None:
                archive.cover(known.id, Coverage(until=until))
        return Archived(known.id, copied_bytes, until, covered_until=covered_until or until), end

    def _require_running(self, spec: DatabaseSpec) -> None:
        self.require_flavour(spec.flavour)
        self._operations.require_reachable(spec.host, spec.name)
        host = self._operations.fleet.host(spec.host)
        if observe_daemon_state(host, server_daemon_name(spec.name)) != "running":
            raise RefusedError(
                f"The database {spec.name} is not running.",
                f"`grampus db start {spec.name}` starts it.",
                code="not-running",
            )


def _still_covered(
    state: BackupState | None, end: StretchEnd, until: datetime, covers_every: timedelta
) -> datetime | None:
    """Up to when the archive says that nothing is missing, if that will do; None: say it again.

    What it says is noted in the state after it was written, so the state never says more.
    """
    if state is None or state.copied_until is None or state.archive_end != end.remembered:
        return None
    is_late = not timedelta(0) <= until - state.copied_until < covers_every
    return None if is_late or state.archive_problem is not None else state.copied_until


def _decide_copies(
    known: StretchEnd, files: Sequence[BinlogFile], source: BinlogSource, database: str
) -> list[Piece]:
    """As `decide_copies`, once it was seen that the archive's end is still there."""
    copies = decide_copies(known.last, files, database)
    if known.last is not None:
        require_same_history(known.last, source.tail(known.last), database)
    return copies


def _was_reset(
    archive: BinlogArchive, known: StretchEnd, files: Sequence[BinlogFile], source: BinlogSource
) -> bool:
    """Whether the server has begun to number its binary logs again (RESET BINARY LOGS AND GTIDS).

    Then a log of the name that was archived last begins with something else, or is yet to come.
    """
    last = known.last
    if last is None or not files:
        return False
    found = next((file for file in files if file.name == last.file), None)
    if found is None:
        return in_order([Piece(files[-1].name, 0, 0), last])[0] is not last
    archived = archive.head(known.id, last.file)
    return archived is not None and archived.digest != source.head(found).digest
