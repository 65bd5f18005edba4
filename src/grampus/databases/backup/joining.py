"""Pieces of archived binary logs joined to bigger ones, beside the archiving that goes on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from grampus.core.clock import Clock
from grampus.databases.backup.archive import BinlogArchive
from grampus.databases.backup.decide_joins import decide_joins, decide_spent, without_parts
from grampus.databases.backup.kept import KeptBackups
from grampus.databases.backup.places import TargetPlace
from grampus.databases.operating import DatabaseOperations
from grampus.state.home import Home
from grampus.state.locks import hold_lock

# In one call: what it has begun it also has to end before `serve` can.
PIECES_AT_ONCE = 5000


@dataclass(frozen=True)
class Joined:
    """What one call did."""

    made: int  # bigger pieces
    dropped: int  # that lie within bigger ones


class BinlogJoiner:
    """Keeps the number of pieces small. It reads and writes the place of backups alone."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def join(self, name: str, place: TargetPlace) -> Joined:
        """Delete what a former call has joined, then join what has come since.

        What a call joins stays beside its parts until the next one: who lists or reads meanwhile
        finds the one or the others. Raises RefusedError with code `busy` while another process
        does the same or lets logs go, BackupDamagedError, and what the place says.
        """
        operations = self._operations
        kept = KeptBackups(operations.home, operations.clock, place)
        target_id = kept.target.find_id()
        if target_id is None:
            return Joined(0, 0)
        key, record = kept.keys.ensure_current(), operations.records.find(name)
        archive = BinlogArchive(
            *(kept.target, key, name),
            others=kept.keys.all(),
            database_id=record.id if record is not None else "",
        )
        with holding_logs(operations.home, operations.clock, target_id, name, timeout_s=0.0):
            return join_pieces(archive)


def join_pieces(archive: BinlogArchive) -> Joined:
    """As `BinlogJoiner.join`, with nobody else at it."""
    made = dropped = 0
    listed = archive.pieces()
    for stretch_id, pieces in listed.items():
        for whole, parts in decide_spent(pieces).items():
            archive.drop_parts(stretch_id, whole, parts)
            dropped += len(parts)
    left = PIECES_AT_ONCE
    for stretch_id, pieces in listed.items():
        for parts in decide_joins(without_parts(pieces)):
            if left > 0:
                archive.join(stretch_id, parts)
                left, made = left - len(parts), made + 1
    return Joined(made, dropped)


def holding_logs(
    home: Home, clock: Clock, target_id: str, name: str, *, timeout_s: float = 10.0
) -> AbstractContextManager[None]:
    """Held by who deletes archived logs of that database; copying more goes on.

    So nothing is written into a stretch that is being taken away. Raises RefusedError with code
    `busy`.
    """
    return hold_lock(home, f"archived-logs.{target_id}.{name}", clock, timeout_s=timeout_s)
