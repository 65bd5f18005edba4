"""Whether archived binary logs go on where a backup was taken (pure).

A server's UUID and the number of a file do not tell that: RESET BINARY LOGS AND GTIDS keeps the one
and begins the other again. So a backup notes what its file begins with: when it was made, by which
server, and which transactions came before it. A backup of an earlier release notes its transactions
alone; those and their commit times tell as well, but for a reset within CLOCKS_APART_S after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from grampus.databases.backup.binlog_events import BinlogScanner, Previous, Transaction
from grampus.databases.backup.binlogs import IN_USE_AT, IN_USE_BIT, Stretch
from grampus.databases.backup.decide_schedule import BinlogPlace
from grampus.databases.backup.gtid_tally import GtidTally
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.replay_plan import to_us
from grampus.databases.replicas.gtid_sets import GtidSet, parse_gtid_set, subtract

# How far the clocks of a database's host and of the cluster, which tells a backup's time, may be
# apart.
CLOCKS_APART_S = 300.0


@dataclass(frozen=True)
class LogHead:
    """What a binary log begins with."""

    digest: str  # of its first two events
    previous: GtidSet  # the transactions before it
    first: Transaction | None  # its first transaction; None: it has none yet


def read_head(name: str, chunks: Iterable[bytes], *, to_first: bool = False) -> LogHead | None:
    """The head of the log of which `chunks` are the beginning; None: that does not have all of it.

    With `to_first`, chunks are read until a transaction begins. Raises what `BinlogScanner.feed`
    raises.
    """
    scanner, begun = BinlogScanner(name), bytearray()
    previous: Previous | None = None
    for chunk in chunks:
        if previous is None:
            begun += chunk
        for found in scanner.feed(chunk):
            if isinstance(found, Previous):
                previous = found
                if not to_first:
                    return _head(begun, found, None)
            else:
                return None if previous is None else _head(begun, previous, found)
    return None if previous is None else _head(begun, previous, None)


def leads_on(
    binlog: BinlogPlace, executed: str | None, taken_at: datetime, head: LogHead | None
) -> bool:
    """Whether a log of the name that a backup noted is the one that it meant.

    `executed` are the transactions that the backup noted, `taken_at` is when it was taken; `head`
    is the archived log's, None if there is none.
    """
    if head is None:
        return False
    if binlog.head is not None:
        return binlog.head == head.digest
    if executed is None:
        return False
    known = parse_gtid_set("mysql", executed)
    if subtract(head.previous, known):
        return False
    first = head.first
    if first is None or not GtidTally(known).has(first.source, first.number):
        return not subtract(known, head.previous)
    return first.committed_us <= to_us(taken_at + timedelta(seconds=CLOCKS_APART_S))


class HeadsPort(Protocol):
    """Where archived logs are read from; `BinlogArchive` is one."""

    def head(self, stretch_id: str, file: str, *, to_first: bool = False) -> LogHead | None:
        """What that binary log begins with; None: it is not there."""
        ...


def links_of(
    archive: HeadsPort,
) -> Callable[[BackupManifest, Stretch], bool]:
    """Whether a stretch leads on from a backup, for `binlogs.decide_point`.

    The archive is asked for each head once.
    """
    heads: dict[tuple[str, str, bool], LogHead | None] = {}

    def links(backup: BackupManifest, stretch: Stretch) -> bool:
        binlog = backup.binlog
        if binlog is None:
            return False
        to_first = binlog.head is None
        place = (stretch.id, binlog.file, to_first)
        if place not in heads:
            heads[place] = archive.head(stretch.id, binlog.file, to_first=to_first)
        return leads_on(binlog, backup.gtid_executed, backup.taken_at, heads[place])

    return links


def _head(content: bytearray, previous: Previous, first: Transaction | None) -> LogHead:
    # The server clears that bit as it closes the log.
    content[IN_USE_AT] &= ~IN_USE_BIT & 0xFF
    digest = hashlib.sha256(content[: previous.end_bytes]).hexdigest()[:32]
    return LogHead(digest, previous.transactions, first)
