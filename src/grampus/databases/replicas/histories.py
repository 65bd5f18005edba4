"""Whether two servers committed the same transactions under the same names: pure.

A primary that loses commits in a crash gives their GTIDs to new transactions, so a set of GTIDs
that contains another one does not prove that the contents agree. The binary logs do. A server
begins a new binary log at each start, and whatever it lost was committed before that. So the first
transaction that a primary commits after a start is compared with the one of the same GTID in the
replica: a replica copies the moment of the original commit into its own binary log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from grampus.core.errors import GrampusError
from grampus.databases.replicas.gtid_sets import GtidSet, has, unite

# What is read of a log, a line each: `begun TIME`, `start` when it is the first one after a start
# of the server, `commit GTID STAMP` for each transaction. `end` is the last line: without it the
# log was not read to where it was to be.
_BEGUN, _START, _COMMIT, _END = "begun", "start", "commit", "end"

Verdict = Literal["same", "differs", "unknown"]


@dataclass(frozen=True)
class Commit:
    """A transaction in a binary log; `stamp` is when it was committed at first, and sorts so."""

    source: str  # MySQL: UUID or UUID:TAG. MariaDB: the domain
    number: int
    stamp: str


@dataclass(frozen=True)
class LogHead:
    """The beginning of a binary log."""

    file: str
    begun: str  # in UTC, such as `261127 3:51:17`
    is_start: bool  # the server's start began it, not the size of the one before
    commits: tuple[Commit, ...]

    @property
    def key(self) -> str:
        """Names this log and no other one that is given the same name later."""
        return f"{self.file} {self.begun}"


def parse_log(file: str, text: str) -> LogHead:
    """What was read of one log. Raises GrampusError with code `unreadable-log`."""
    begun, is_start, commits, is_whole = "", False, [], False
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == _BEGUN:
            begun = " ".join(rest.split())
        elif word == _START:
            is_start = True
        elif word == _COMMIT:
            gtid, _, stamp = rest.partition(" ")
            source, number = _parse_gtid(gtid)
            commits.append(Commit(source, number, _sortable(stamp)))
        elif word == _END:
            is_whole = True
    if not (is_whole and begun):
        raise GrampusError(
            f"The binary log {file} could not be read completely.",
            "Try again. If it fails again, `grampus db verify NAME` checks its volume.",
            code="unreadable-log",
        )
    return LogHead(file, begun, is_start, tuple(commits))


def first_of_each_source(commits: Iterable[Commit]) -> tuple[Commit, ...]:
    """The first transaction of each source, in order."""
    found: dict[str, Commit] = {}
    for commit in commits:
        found.setdefault(commit.source, commit)
    return tuple(found.values())


def decide_verdict(
    firsts: Sequence[Commit], holds: GtidSet, of_replica: Mapping[tuple[str, int], str]
) -> Verdict:
    """Whether the replica's history agrees with what its primary committed first after a start.

    `holds` is what the replica executed or received, `of_replica` are stamps by GTID as far as its
    logs tell them. A transaction that the replica does not have cannot differ: it has none after
    it either, since a replica commits in its primary's order.
    """
    known = [commit for commit in firsts if has(holds, commit.source, commit.number)]
    stamps = [of_replica.get((commit.source, commit.number)) for commit in known]
    if any(stamp not in (None, commit.stamp) for stamp, commit in zip(stamps, known, strict=True)):
        return "differs"
    return "unknown" if None in stamps else "same"


def decide_lost(firsts: Sequence[Commit], of_replica: Iterable[Commit]) -> GtidSet:
    """The transactions of the replica that its primary lost before it committed `firsts`.

    They have the numbers from the first one on, and were committed before it: both moments are by
    the primary's clock.
    """
    begins = {commit.source: commit for commit in firsts}
    return unite(
        *(
            {commit.source: ((commit.number, commit.number),)}
            for commit in of_replica
            if (first := begins.get(commit.source)) is not None
            and commit.number >= first.number
            and commit.stamp < first.stamp
        )
    )


def parse_begun(text: str) -> datetime | None:
    """When a log was begun, as its first event says in UTC: `261127 3:51:17`."""
    try:
        return datetime.strptime(text, "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _parse_gtid(gtid: str) -> tuple[str, int]:
    mariadb = re.fullmatch(r"(\d+)-\d+-(\d+)", gtid)
    if mariadb is not None:
        return mariadb[1], int(mariadb[2])
    source, _, number = gtid.lower().rpartition(":")
    return source, int(number)


def _sortable(stamp: str) -> str:
    """Microseconds (MySQL), or `261127 3:51:17` (MariaDB), so that strings sort as moments do."""
    words = stamp.split()
    if len(words) == 2:
        return f"{words[0]} {words[1]:0>8}"
    return f"{stamp:0>20}"
