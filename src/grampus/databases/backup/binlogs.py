"""Archived binary logs: their pieces, what is to be copied next, and where a gap is (pure).

A *stretch* is what one server wrote without a gap. In the target:

    DATABASE/binlogs/STRETCH/stretch               whose it is, sealed; STRETCH: `stretch_names`
    DATABASE/binlogs/STRETCH/covered               up to when nothing is missing, sealed
    DATABASE/binlogs/STRETCH/FILE/START-END-TAIL   bytes START to END of a binary log, sealed

TAIL tells whether the server's file still begins with what was copied of it. A piece that lies
within a bigger one is spent (`decide_joins`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import ConfigDict

from grampus.core.clock import format_moment
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.models import Model
from grampus.core.units import MIB
from grampus.databases.backup.decide_chain import Backups, decide_chain
from grampus.databases.backup.decide_schedule import ArchiveEnd, BinlogPlace, LeadingBackup
from grampus.databases.backup.model import BackupManifest

# Its first row is the server's UUID and its time, the others are its binary logs.
BINLOGS_QUERY = "SELECT @@GLOBAL.server_uuid, UTC_TIMESTAMP(6); SHOW BINARY LOGS"
DIRECTORY = "binlogs"
STRETCH = "stretch"
COVERED = "covered"
# What is held at once, twice (plain and sealed).
PIECE_BYTES = 16 * MIB
TAIL_BYTES = 4096
# LOG_EVENT_BINLOG_IN_USE_F, in the flags of a log's first event: behind the log's four magic bytes,
# and 17 of the event's header (MySQL 9.7, "Binary Log Event Structure").
IN_USE_AT, IN_USE_BIT = 4 + 17, 1


class StretchFacts(Model):
    """Whose binary logs a stretch holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server_uuid: str
    begun_at: datetime
    database_id: str = ""  # empty: an earlier release wrote this


class Coverage(Model):
    """Everything that was committed before `until` is archived."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    until: datetime


@dataclass(frozen=True)
class BinlogFile:
    """A binary log as the server lists it."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Piece:
    """Bytes of one binary log."""

    file: str
    start_bytes: int
    end_bytes: int
    tail: str = ""  # of the last TAIL_BYTES of them, at most

    @property
    def size_bytes(self) -> int:
        return self.end_bytes - self.start_bytes

    @property
    def tail_start_bytes(self) -> int:
        return max(self.start_bytes, self.end_bytes - TAIL_BYTES)

    @property
    def name(self) -> str:
        """Below its stretch; sorts as the server wrote."""
        return f"{self.file}/{self.start_bytes:015d}-{self.end_bytes:015d}-{self.tail}"


@dataclass(frozen=True)
class Stretch:
    """An archived stretch as observed; pieces in the server's order."""

    id: str  # `stretch_names`
    facts: StretchFacts
    until: datetime | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class StretchEnd:
    """The newest stretch, as far as it takes to go on with it."""

    id: str
    facts: StretchFacts
    first_file: str | None  # None: it has no piece yet
    last: Piece | None

    def followed_by(self, copied: Sequence[Piece]) -> StretchEnd:
        """With pieces that were added since, in order, named as they are kept."""
        if not copied:
            return self
        return replace(self, first_file=self.first_file or copied[0].file, last=copied[-1])

    @property
    def remembered(self) -> ArchiveEnd:
        """What to keep of it for the next look."""
        last_piece = self.last.name if self.last is not None else None
        return ArchiveEnd(stretch=self.id, first_file=self.first_file, last_piece=last_piece)


def tail_of(content: bytes | bytearray) -> str:
    """What tells a piece's end from any other."""
    return hashlib.sha256(content[-TAIL_BYTES:]).hexdigest()[:16]


def parse_piece(name: str) -> Piece | None:
    """The piece that a name below a stretch tells of, or None."""
    file, _, rest = name.partition("/")
    words = rest.split("-")
    if len(words) != 3 or not (words[0].isdecimal() and words[1].isdecimal()):
        return None
    return Piece(file, int(words[0]), int(words[1]), words[2])


def in_order(pieces: Iterable[Piece]) -> list[Piece]:
    """As the server wrote them. Names alone do not tell it for ever: 1000000 follows 999999."""
    return sorted(pieces, key=lambda one: (_number(one.file), one.start_bytes, one.end_bytes))


def name_before(piece: Piece) -> str | None:
    """A name below a stretch that sorts before that piece's and all later ones', next to it.

    None where a later one may sort before it, since the number of its log has another digit.
    """
    if not piece.file.rpartition(".")[2].strip("9"):
        return None
    return f"{piece.file}/{piece.start_bytes:015d}-"


def parse_binary_logs(rows: Iterable[Sequence[str]]) -> list[BinlogFile]:
    """What `SHOW BINARY LOGS` says, oldest first."""
    return [BinlogFile(row[0], int(row[1])) for row in rows]


def decide_until(now: datetime, server_time: str) -> datetime:
    """Up to when everything that was committed is in what the server lists afterwards.

    Commit times are by the clock of the server's host. Where that is behind Grampus's own, what is
    committed next may have an earlier time than `now`.
    """
    try:
        told = datetime.fromisoformat(f"{server_time}+00:00")
    except ValueError:
        raise GrampusError(
            f"The server's answer about its time is not valid: {server_time!r}.",
            "Try again. If it fails again, run the command as `grampus --debug ...` and "
            "report the output.",
        ) from None
    return min(now, told)


def decide_copies(last: Piece | None, files: Sequence[BinlogFile], database: str) -> list[Piece]:
    """What is to be copied now, in order, in pieces of at most PIECE_BYTES.

    `last` is the newest piece that is archived.

    Raises GrampusError with code `archive-gap` when the server no longer has what comes next.
    """
    names = [file.name for file in files]
    for former, following in itertools.pairwise(names):
        if _number(following) != _number(former) + 1:
            raise _gap(database, f"the server has {following} after {former}")
    start_bytes = 0
    if last is not None:
        if last.file not in names:
            raise _gap(database, f"the server no longer has {last.file}")
        files = files[names.index(last.file) :]
        if files[0].size_bytes < last.end_bytes:
            raise _gap(database, f"the server's {last.file} is shorter than the archived one")
        start_bytes = last.end_bytes
    pieces: list[Piece] = []
    for file in files:
        while start_bytes < file.size_bytes:
            end_bytes = min(start_bytes + PIECE_BYTES, file.size_bytes)
            pieces.append(Piece(file.name, start_bytes, end_bytes))
            start_bytes = end_bytes
        start_bytes = 0
    return pieces


def require_same_history(last: Piece, found: bytes, database: str) -> None:
    """Raise GrampusError with code `archive-gap` when the file holds something else there now.

    `found` is what it holds where the piece's end was read from. A short log's end begins with its
    first event, in which the server clears one bit as it closes the log.
    """
    tails = {tail_of(found)}
    if last.tail_start_bytes == 0 and len(found) > IN_USE_AT:
        flipped = bytearray(found)
        flipped[IN_USE_AT] ^= IN_USE_BIT
        tails.add(tail_of(flipped))
    if last.tail not in tails:
        raise _gap(database, f"the server's {last.file} differs from the archived one")


def require_contiguous(pieces: Sequence[Piece], first_file: str) -> tuple[Piece, ...]:
    """The pieces from the beginning of `first_file` on.

    Raises GrampusError with code `archive-gap` when one is missing.
    """
    wanted = [piece for piece in pieces if _number(piece.file) >= _number(first_file)]
    at = Piece(first_file, 0, 0)
    for piece in wanted:
        follows = piece.file == at.file and piece.start_bytes == at.end_bytes
        begins = _number(piece.file) == _number(at.file) + 1 and piece.start_bytes == 0
        if not (follows or (begins and at.end_bytes > 0)):
            raise GrampusError(
                f"The archive lacks the data after byte {at.end_bytes} of {at.file}.",
                "Restore only the backup: `grampus db restore NAME --from PLACE --backup "
                "ID`. Or put the missing files back.",
                code="archive-gap",
            )
        at = piece
    if not wanted:
        raise GrampusError(
            f"The archive does not have {first_file}, the log at the time of the backup.",
            "Restore only the backup: `grampus db restore NAME --from PLACE --backup ID`.",
            code="archive-gap",
        )
    return tuple(wanted)


def decide_leading(backups: Iterable[BackupManifest], database: str) -> LeadingBackup | None:
    """The newest backup of that database that binary logs can lead on from."""
    known = [
        (backup.taken_at, backup.id, backup.binlog, backup.gtid_executed)
        for backup in backups
        if backup.database.name == database and backup.binlog is not None
    ]
    if not known:
        return None
    taken_at, backup_id, binlog, executed = max(known, key=lambda one: one[:2])
    return LeadingBackup(id=backup_id, taken_at=taken_at, binlog=binlog, gtid_executed=executed)


def earliest_after(taken_at: datetime) -> datetime:
    """The first moment that binary logs lead to from a backup.

    The cluster tells the second of a snapshot: it may be from the end of that second.
    """
    return taken_at + timedelta(seconds=1)


def decide_unreachable(
    database: str, server_uuid: str, first_file: str | None, leads_from: BinlogPlace | None
) -> GrampusError | None:
    """Why nothing of a stretch can be restored; None: a backup leads to all of it.

    `server_uuid` and `first_file` are the stretch's, which has no hole and reaches to the server's
    newest log; `leads_from` is where the newest backup of a running server begins. The error has
    the code `archive-unreachable`.
    """
    if leads_from is None:
        why = "no backup was taken while the database ran"
    elif leads_from.server_uuid != server_uuid:
        why = "the database was rolled back or created again since the last backup"
    elif first_file is None or _number(first_file) > _number(leads_from.file):
        why = f"the last backup needs {leads_from.file}, which was never archived"
    else:
        return None
    return unreachable(database, why)


def unreachable(database: str, why: str) -> GrampusError:
    """That nothing of the newest stretch can be restored; `why` is the end of a sentence."""
    return GrampusError(
        f"No backup of {database} leads to the binary logs that are archived now: {why}.",
        "The archived logs are kept. No later moment can be restored until there is a new "
        f"backup: `grampus db backup create {database} --to ...`, or a schedule.",
        code="archive-unreachable",
    )


@dataclass(frozen=True)
class Point:
    """How a moment is restored: a backup from before it, and binary logs up to it."""

    chain: tuple[BackupManifest, ...]
    stretch: Stretch
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class _Way:
    """A backup, and binary logs that lead on from it without a gap."""

    backup: BackupManifest
    stretch: Stretch
    pieces: tuple[Piece, ...]
    earliest: datetime
    latest: datetime


# Whether a stretch goes on where a backup was taken: `binlog_links.links_of` makes it.
Links = Callable[[BackupManifest, Stretch], bool]


def _newest_first(backups: Backups, database: str) -> list[BackupManifest]:
    own = (backup for backup in backups.values() if backup.database.name == database)
    return sorted(own, key=lambda backup: backup.taken_at, reverse=True)


def _ways(
    backups: Backups, stretches: Sequence[Stretch], database: str, links: Links
) -> Iterator[_Way]:
    """All of them, from the newest backup on."""
    for backup in _newest_first(backups, database):
        for stretch in stretches:
            binlog = backup.binlog
            if binlog is None or binlog.server_uuid != stretch.facts.server_uuid:
                continue
            earliest = earliest_after(backup.taken_at)
            if stretch.until is None or stretch.until <= earliest:
                continue
            try:
                pieces = require_contiguous(stretch.pieces, binlog.file)
            except GrampusError:
                continue  # another stretch, or an older backup, may do
            if links(backup, stretch):  # last, since the archive is read for it
                yield _Way(backup, stretch, pieces, earliest, stretch.until)


def decide_reach(
    backups: Backups, stretches: Sequence[Stretch], database: str, links: Links
) -> tuple[datetime, str] | None:
    """The latest moment that `decide_point` finds a way to, and the backup that leads to it."""
    covered = [(stretch.until, stretch) for stretch in stretches if stretch.until is not None]
    for _, stretch in sorted(covered, key=lambda one: one[0], reverse=True):
        for way in _ways(backups, [stretch], database, links):
            return way.latest, way.backup.id
    return None


def decide_point(
    backups: Backups, stretches: Sequence[Stretch], database: str, moment: datetime, links: Links
) -> Point:
    """The newest backup before `moment` from which the archive leads to it without a gap.

    Raises RefusedError with code `not-archived`, which says what moments there are.
    """
    ways = []
    for way in _ways(backups, stretches, database, links):
        ways.append(way)
        if way.earliest <= moment <= way.latest:
            return Point(decide_chain(backups, way.backup.id), way.stretch, way.pieces)
    reachable = [f"{format_moment(way.earliest)} to {format_moment(way.latest)}" for way in ways]
    newest_first = _newest_first(backups, database)
    if newest_first and newest_first[0].database.flavour != "mysql":
        flavour = newest_first[0].database.flavour
        raise RefusedError(
            f"The moment {format_moment(moment)} of {database} cannot be restored: binary "
            f"logs of {flavour} are not archived.",
            f"Restore one of its {len(newest_first)} backups (`--latest`, or `--backup`). "
            "`grampus db backup list` shows them.",
            code="not-archived",
        )
    raise RefusedError(
        f"The moment {format_moment(moment)} of {database} cannot be restored.",
        "These times can be restored: " + "; ".join(reachable) + "."
        if reachable
        else "Take a backup, then archive the binary logs: `grampus db backup archive`.",
        code="not-archived",
    )


def _number(file: str) -> int:
    ending = file.rpartition(".")[2]
    return int(ending) if ending.isdecimal() else -1


def _gap(database: str, what: str) -> GrampusError:
    return GrampusError(
        f"There is a gap in the binary logs of {database}: {what}.",
        "The archived logs are kept. Take a new backup, then continue after the gap: "
        "`grampus db backup archive ... --new-stretch`. No moment within the gap can be "
        "restored.",
        code="archive-gap",
    )
