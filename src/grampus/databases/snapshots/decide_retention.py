"""When a scheduled snapshot is due, and which of them are let go: decided from their times alone.

Only snapshots that the schedule took are ever let go; they are told by their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pydantic import ConfigDict

from grampus.core.errors import UsageError
from grampus.core.intervals import require_interval
from grampus.core.models import Model
from grampus.volumes.model import SnapshotInfo

SCHEDULED_PREFIX = "auto-"
_SCHEDULED = re.compile(r"auto-\d{8}-\d{6}")
MIN_EVERY_S, MAX_EVERY_S = 5 * 60, 31 * 86400
MAX_KEEP = 500  # RBD works with more, but each read of an image's header carries them all
_NAME_TIME = "%Y%m%d-%H%M%S"


class SnapshotSchedule(Model):
    """How often a database is snapshotted, and how many of these snapshots are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every_s: int
    keep: int  # the newest so many
    keep_daily: int = 0  # besides, the newest one of each of the last so many days that have one


def require_schedule(schedule: SnapshotSchedule) -> SnapshotSchedule:
    """The schedule if it can be carried out. Raises UsageError."""
    require_interval("A snapshot", schedule.every_s, least_s=MIN_EVERY_S, most_s=MAX_EVERY_S)
    if not 1 <= schedule.keep <= MAX_KEEP or not 0 <= schedule.keep_daily <= MAX_KEEP:
        raise UsageError(
            f"{schedule.keep} snapshots and {schedule.keep_daily} daily ones cannot be kept.",
            f"Choose 1 to {MAX_KEEP} for --keep, and 0 to {MAX_KEEP} for --keep-daily.",
            code="invalid-schedule",
        )
    return schedule


def name_at(prefix: str, moment: datetime) -> str:
    """A snapshot's name that says when it was taken (UTC), such as `auto-20261122-010000`."""
    return f"{prefix}{moment:{_NAME_TIME}}"


def is_scheduled(snapshot: str) -> bool:
    """Whether a snapshot of that name was taken by a schedule."""
    return _SCHEDULED.fullmatch(snapshot) is not None


def decide_due(
    schedule: SnapshotSchedule, snapshots: Sequence[SnapshotInfo], now: datetime
) -> bool:
    """Whether the schedule wants a snapshot now.

    Time is cut into intervals from the Unix epoch on, and each is to have one: so a caller that
    comes a little earlier than the last time misses none. A snapshot from the future, as after a
    clock was set back, counts for nothing.
    """
    return decide_next(schedule, snapshots, now) <= now


def decide_next(
    schedule: SnapshotSchedule, snapshots: Sequence[SnapshotInfo], now: datetime
) -> datetime:
    """When the schedule wants the next snapshot; not after `now`: it is due (`decide_due`)."""
    every = timedelta(seconds=schedule.every_s)
    taken = [
        snapshot.created_at
        for snapshot in snapshots
        if is_scheduled(snapshot.name) and snapshot.created_at < now + every
    ]
    if not taken:
        return now
    number = _interval(max(taken), schedule.every_s) + 1
    return datetime.fromtimestamp(number * schedule.every_s, tz=UTC)


def decide_let_go(
    schedule: SnapshotSchedule, snapshots: Sequence[SnapshotInfo]
) -> list[SnapshotInfo]:
    """The scheduled snapshots that need not be kept, oldest first; never a protected one.

    Kept are the newest `keep`, and the newest of each of the last `keep_daily` days (UTC) that
    have one. A protected one counts among them.
    """
    newest_first = sorted(
        (snapshot for snapshot in snapshots if is_scheduled(snapshot.name)),
        key=lambda snapshot: (snapshot.created_at, snapshot.name),
        reverse=True,
    )
    kept = {snapshot.name for snapshot in newest_first[: schedule.keep]}
    newest_of_day: dict[object, str] = {}
    for snapshot in newest_first:
        newest_of_day.setdefault(snapshot.created_at.date(), snapshot.name)
    kept |= set(list(newest_of_day.values())[: schedule.keep_daily])
    return [
        snapshot
        for snapshot in reversed(newest_first)
        if snapshot.name not in kept and not snapshot.protected
    ]


def _interval(moment: datetime, every_s: int) -> int:
    return int(moment.timestamp()) // every_s
