"""Up to where archived binary logs are applied for a moment, decided by commit times (pure).

Each transaction has in its GTID event when the server committed it, to the microsecond. No client
can set that time, unlike the time of the other events, which is also when a statement began.

The rule: the logs are applied, in the order in which they were written, up to the last transaction
that was committed before the moment. Order and times agree, since the server takes the time as it
writes. Only where its clock was set back, transactions with a later time may lie before that last
one. They are applied too, since those after them may need them, and the plan says how many they
are. To find the last one, logs are read for LOOK_AHEAD_US of commit time after the moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from grampus.core.errors import GrampusError
from grampus.databases.backup.binlog_events import BinlogScanner, Previous, Transaction
from grampus.databases.backup.errors import damaged
from grampus.databases.backup.gtid_tally import GtidTally
from grampus.databases.replicas.gtid_sets import (
    GtidSet,
    describe_gtid_set,
    intersect,
    subtract,
    unite,
)

# A clock that is set back by more is not noticed.
LOOK_AHEAD_US = 3600 * 1_000_000
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True)
class ReplayFile:
    """One binary log, as far as it is applied."""

    name: str
    end_bytes: int
    transactions: GtidSet


@dataclass(frozen=True)
class ReplayPlan:
    """All that is applied for a moment."""

    files: tuple[ReplayFile, ...]  # those with transactions, in order
    previous: GtidSet  # what was executed before the first file
    transactions: GtidSet
    count: int
    later: GtidSet  # what was read, and is not applied
    out_of_order: int  # applied ones whose commit time is not before the moment

    @property
    def size_bytes(self) -> int:
        return sum(file.end_bytes for file in self.files)


@dataclass
class _Seen:
    """What was seen of one file so far."""

    name: str
    size_bytes: int
    applied: GtidTally = field(default_factory=GtidTally)
    end_bytes: int = 0
    later: GtidTally = field(default_factory=GtidTally)
    later_end_bytes: int = 0


def decide_replay(
    logs: Iterable[tuple[str, int, Callable[[], Iterator[bytes]]]],
    moment: datetime,
    database: str,
) -> ReplayPlan:
    """The plan; `logs` are name, archived size and content of each, in order.

    Raises GrampusError with code `archive-gap` where a log does not go on where the one before it
    ended, and what `BinlogScanner.feed` raises.
    """
    reader = _Reader(to_us(moment), database)
    for name, size_bytes, content in logs:
        if not reader.is_past:
            reader.read(name, size_bytes, content())
    return reader.plan()


class _Reader:
    def __init__(self, moment_us: int, database: str) -> None:
        self.is_past = False
        self._moment_us = moment_us
        self._database = database
        self._files: list[_Seen] = []
        self._previous: GtidSet | None = None
        self._known = GtidTally()
        self._out_of_order = 0
        self._has_later = False

    def read(self, name: str, size_bytes: int, content: Iterator[bytes]) -> None:
        self._files.append(_Seen(name, size_bytes))
        scanner = BinlogScanner(name)
        begun = False
        for data in content:
            for found in scanner.feed(data):
                if isinstance(found, Previous):
                    self._link(name, found)
                    begun = True
                    continue
                if not begun:
                    raise damaged(f"{name} does not list its previous transactions")
                self._take(found)
                if self.is_past:
                    return

    def plan(self) -> ReplayPlan:
        applied = [seen for seen in self._files if seen.applied.count]
        return ReplayPlan(
            files=tuple(
                ReplayFile(seen.name, seen.end_bytes, seen.applied.transactions) for seen in applied
            ),
            previous=self._previous or {},
            transactions=unite(*(seen.applied.transactions for seen in applied)),
            count=sum(seen.applied.count for seen in applied),
            later=unite(*(seen.later.transactions for seen in self._files)),
            out_of_order=self._out_of_order,
        )

    def _link(self, name: str, previous: Previous) -> None:
        known, said = self._known.transactions, previous.transactions
        if self._previous is None:
            self._previous = said
            self._known.add_all(said)
            return
        missing, foreign = subtract(known, said), subtract(said, known)
        if missing or foreign:
            what = (
                f"it does not list {describe_gtid_set(missing)}"
                if missing
                else f"it also lists {describe_gtid_set(foreign)}"
            )
            raise _gap(self._database, f"{name} does not continue the previous log: {what}")

    def _take(self, found: Transaction) -> None:
        seen = self._files[-1]
        if self._known.has(found.source, found.number):
            raise _gap(self._database, f"{seen.name} has {found.gtid} for the second time")
        self._known.add(found.source, found.number)
        if found.committed_us >= self._moment_us:
            seen.later.add(found.source, found.number)
            seen.later_end_bytes = found.end_bytes
            self._has_later = True
            self.is_past = found.committed_us >= self._moment_us + LOOK_AHEAD_US
            return
        if found.end_bytes > seen.size_bytes:
            raise _gap(
                self._database, f"the archived {seen.name} ends in the middle of {found.gtid}"
            )
        if self._has_later:
            self._apply_later()
        seen.applied.add(found.source, found.number)
        seen.end_bytes = found.end_bytes

    def _apply_later(self) -> None:
        """What was committed after the moment by a clock that was set back afterwards."""
        for one in self._files:
            if one.later.count:
                self._out_of_order += one.later.count
                one.applied.add_all(one.later.transactions)
                one.end_bytes = one.later_end_bytes
                one.later = GtidTally()
        self._has_later = False


def decide_expected(plan: ReplayPlan, executed: GtidSet, backup_id: str, database: str) -> GtidSet:
    """What the restored server has executed once the plan is carried out.

    `executed` is what it has executed before. Raises GrampusError with code `archive-gap` when the
    logs do not lead on from that, and `backup-too-late` when it has more than the moment allows.
    """
    missing = subtract(plan.previous, executed)
    if missing:
        raise _gap(
            database,
            f"the backup {backup_id} does not have {describe_gtid_set(missing)}, which the "
            "first archived log needs",
        )
    too_late = intersect(executed, plan.later)
    if too_late:
        raise GrampusError(
            f"The backup {backup_id} of {database} already has {describe_gtid_set(too_late)}, "
            "with a commit time after the requested moment by the clock of the database's "
            "host.",
            "Restore a moment that is a few seconds later, or an earlier backup: `grampus db "
            f"backup list {database} --from PLACE` shows the times of the backups.",
            code="backup-too-late",
        )
    return unite(executed, plan.transactions)


def require_executed(expected: GtidSet, executed: GtidSet, database: str) -> None:
    """Raise GrampusError with code `replay-incomplete` unless both are the same."""
    missing, foreign = subtract(expected, executed), subtract(executed, expected)
    if not missing and not foreign:
        return
    said = (
        f"it lacks {describe_gtid_set(missing)}"
        if missing
        else f"it also has {describe_gtid_set(foreign)}"
    )
    raise GrampusError(
        f"The restored database {database} would not have exactly the transactions before the "
        f"requested moment: {said}.",
        "The restore is undone. Restore only a backup (`--backup ID`) or another moment, and "
        "report this as a defect of Grampus.",
        code="replay-incomplete",
    )


def decide_rounds(
    files: Sequence[ReplayFile], executed: GtidSet, *, most_bytes: int
) -> list[tuple[ReplayFile, ...]]:
    """Which logs lie on the host at a time: at most `most_bytes` of them, and one at least.

    Logs that hold nothing new are left out.
    """
    rounds: list[list[ReplayFile]] = []
    room_bytes = 0
    for file in files:
        if not subtract(file.transactions, executed):
            continue
        if not rounds or file.end_bytes > room_bytes:
            rounds.append([])
            room_bytes = most_bytes
        rounds[-1].append(file)
        room_bytes -= file.end_bytes
    return [tuple(one) for one in rounds]


def to_us(moment: datetime) -> int:
    """Microseconds since the Unix epoch."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _gap(database: str, what: str) -> GrampusError:
    return GrampusError(
        f"There is a gap in the archived binary logs of {database}: {what}.",
        "Restore only a backup (`--backup ID`), or an earlier moment. `grampus db backup "
        f"list {database} --from PLACE` shows the backups.",
        code="archive-gap",
    )
