"""Which binary logs a server may delete: decided from who still needs them, and from space (pure).

A log is kept until it is archived (where the database archives), until every known replica has
applied it, and for the retention. What takes too much room gives way in this order:

1. what is kept for the retention alone,
2. what only replicas need that are away: such a replica is renewed from its primary,
3. what the archive or a replica that answers needs: at twice that room, or when the volume is
   nearly full. The archive then has a gap, which is reported, and the next backup closes it.

Why: `docs/adr/0041-binary-logs-by-need.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from grampus.core.units import MIB
from grampus.databases.replicas.gtid_sets import GtidSet, count_missing

LOGS_HELD = "logs-held"  # the kind of warning, or its beginning: one for each who holds logs
DEFAULT_RETENTION_S = 3600
MAX_RETENTION_S = 366 * 86400
# Of the bound: who needs so much is warned of, before anything is deleted.
WARN_RATIO = 0.75
# How long a server without a controller keeps at least what somebody needs.
LEASE_S = 3600
# Of a replica that nobody looks after, at this rate and at least so long: its own logs may hold the
# only copy of what its primary lost.
_REPLICA_BYTES_PER_S = 2 * MIB
_MIN_REPLICA_S = 300
MAX_EXPIRY_S = 30 * 86400


@dataclass(frozen=True)
class KeptLog:
    """A binary log as it lies on the volume."""

    name: str
    size_bytes: int
    ended_at: datetime  # when it was written to last


@dataclass(frozen=True)
class Need:
    """Somebody who has not read all binary logs yet."""

    who: Literal["archive", "replica"]
    name: str = ""  # the replica's
    first_log: str | None = None  # the oldest log that it needs; None: not known, so all of them
    is_away: bool = False  # it does not answer

    @property
    def words(self) -> str:
        """Who it is, in a sentence."""
        if self.who == "archive":
            return "the archive"
        return f"the replica {self.name}" + (" (it does not answer)" if self.is_away else "")


@dataclass(frozen=True)
class LogRoom:
    """The room that binary logs may take, and what the volume has left."""

    share_bytes: int
    free_bytes: int
    low_bytes: int  # with less than this left, the volume is nearly full


@dataclass(frozen=True)
class Held:
    """What is kept for somebody who has not read it."""

    need: Need
    size_bytes: int
    bound_bytes: int  # from so much on it is deleted all the same

    @property
    def is_to_be_warned_of(self) -> bool:
        return self.size_bytes >= self.bound_bytes * WARN_RATIO


@dataclass(frozen=True)
class Purge:
    """What may be deleted, and at whose cost."""

    keep_from: str | None  # the oldest log that stays; None: all stay
    freed_bytes: int
    given_up: tuple[Need, ...]  # those who lose what they need
    is_retention_cut: bool  # logs go before their retention is over
    held: tuple[Held, ...]  # by those who keep any of what stays


def decide_purge(
    logs: Sequence[KeptLog],
    needs: Sequence[Need],
    room: LogRoom,
    *,
    retention_s: int,
    now: datetime,
) -> Purge:
    """What to delete of `logs`, which are in the server's order; the last one is in use."""
    closed = logs[:-1]
    remaining_bytes = sum(log.size_bytes for log in logs)
    free_bytes, dropped = room.free_bytes, 0
    given_up: list[Need] = []
    is_cut = False
    for index, log in enumerate(closed):
        is_tight = free_bytes < room.low_bytes
        holders = [need for need in needs if _begins_at(need, logs) <= index]
        if holders:
            bound_bytes = max(_bound(need, room, is_tight=is_tight) for need in holders)
            if remaining_bytes <= bound_bytes:
                break
            given_up += [need for need in holders if need not in given_up]
        elif (now - log.ended_at).total_seconds() < retention_s:
            if remaining_bytes <= room.share_bytes and not is_tight:
                break
            is_cut = True
        dropped += 1
        remaining_bytes -= log.size_bytes
        free_bytes += log.size_bytes
    is_tight = free_bytes < room.low_bytes
    held = []
    for need in needs:
        kept = closed[max(dropped, _begins_at(need, logs)) :]
        if kept:
            size_bytes = sum(log.size_bytes for log in kept)
            held.append(Held(need, size_bytes, _bound(need, room, is_tight=is_tight)))
    return Purge(
        keep_from=logs[dropped].name if dropped else None,
        freed_bytes=sum(log.size_bytes for log in closed[:dropped]),
        given_up=tuple(given_up),
        is_retention_cut=is_cut,
        held=tuple(held),
    )


def decide_expiry_s(
    logs: Sequence[KeptLog],
    share_bytes: int,
    *,
    retention_s: int,
    unattended_s: int,
    is_needed: bool,
    now: datetime,
) -> int:
    """The age in seconds at which the server itself deletes logs, should nobody look again.

    A server alone knows no bound of space (MySQL). What nobody needs is kept for `unattended_s`, or
    for the retention. What is needed is kept for as long as the logs of the last time, at the rate
    at which they were written, take to fill their share; and for LEASE_S from now on in any case.
    """
    expiry_s = max(unattended_s, retention_s)
    if not is_needed or not logs:
        return min(expiry_s, MAX_RETENTION_S)
    span_s = max(0.0, (now - logs[0].ended_at).total_seconds())
    written_bytes = sum(log.size_bytes for log in logs[1:])  # since the oldest one ended
    left_bytes = max(0, share_bytes - written_bytes)
    more_s = left_bytes * span_s / written_bytes if written_bytes else 0.0
    return max(expiry_s, int(span_s + max(LEASE_S, min(more_s, MAX_EXPIRY_S - span_s))))


def decide_unattended_s(expire_s: int, share_bytes: int, *, is_replica: bool) -> int:
    """For how long a server alone keeps what nobody needs, in seconds (`expire_s`: by default)."""
    if not is_replica:
        return expire_s
    return max(expire_s, _MIN_REPLICA_S, share_bytes // _REPLICA_BYTES_PER_S)


def find_first_needed(
    names: Sequence[str], executed: GtidSet, previous_of: Callable[[str], GtidSet]
) -> str:
    """The oldest of the logs `names` that a server which has `executed` still needs.

    `previous_of` says which transactions came before a log. It never gets less from log to log,
    so a few of them are asked for.
    """
    low, high = 0, len(names) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if count_missing(previous_of(names[middle]), executed):
            high = middle - 1
        else:
            low = middle
    return names[low]


def _bound(need: Need, room: LogRoom, *, is_tight: bool) -> int:
    return room.share_bytes if need.is_away or is_tight else 2 * room.share_bytes


def _begins_at(need: Need, logs: Sequence[KeptLog]) -> int:
    """The index of the first log that it needs. One that is not there says nothing: all."""
    return next((i for i, log in enumerate(logs) if log.name == need.first_log), 0)
