"""When a scheduled backup is due, and which archived binary logs need not be kept (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import ConfigDict

from grampus.core.errors import UsageError
from grampus.core.intervals import format_interval, require_interval
from grampus.core.models import Model
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.stretch_names import newest_stretch

MIN_EVERY_S, MAX_EVERY_S = 5 * 60, 31 * 86400
MAX_FULL_EVERY_S = MAX_TEST_EVERY_S = 366 * 86400


class BackupSchedule(Model):
    """How often a database is backed up, where to, and what is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: TargetPlace
    every_s: int
    full_every_s: int | None = None  # None: as often as `decide_base` wants one
    keep: int | None = None  # the newest so many, and what they stand on; None: all
    archives: bool = False  # binary logs too, whenever the schedule is looked at
    test_every_s: int | None = None  # the newest backup is restored and compared; None: never
    object_lock_days: int | None = None  # nobody can delete a backup for so long; None: anybody can


class BinlogPlace(Model):
    """The binary log that a server was writing at a moment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server_uuid: str
    file: str
    head: str | None = None  # digest of what the file begins with; None: of an earlier release


class LeadingBackup(Model):
    """A backup that binary logs lead on from: the newest that was taken of a running server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    taken_at: datetime
    binlog: BinlogPlace
    gtid_executed: str | None = None  # as in its manifest

    def is_under(self, name: str) -> bool:
        """Whether it was taken under that name. Archived logs of another name do not follow it."""
        return self.id.partition("/")[0] == name


class ArchiveEnd(Model):
    """Where an archive of binary logs ended at a look; the next one begins there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stretch: str
    first_file: str | None = None  # the oldest log of the stretch; None: it has none yet
    last_piece: str | None = None  # the name of the newest piece, below the stretch


class BackupState(Model):
    """What is remembered of a database's backups; the place itself knows better."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    created_at: datetime  # of the database: a later one of that name has no part in it
    place: str  # the URL of the place of what follows
    place_id: str | None = None  # that the place had; None: an older Grampus did not note it
    last_id: str | None = None
    last_taken_at: datetime | None = None
    last_full_at: datetime | None = None
    leading: LeadingBackup | None = None
    copied_until: datetime | None = None  # everything committed before is in the archive
    # The latest moment that `db restore --time` takes: a backup leads to it by archived logs. After
    # a rollback it stays where it was until there is a new backup.
    archived_until: datetime | None = None
    archive_problem: str | None = None  # why the last call archived nothing that can be restored
    # No backup leads to what is archived now, or there is a gap that no backup was taken after.
    needs_backup: bool = False
    gap_after: str | None = None  # the piece that a gap follows, which a backup was asked for
    archive_end: ArchiveEnd | None = None
    # Stretch and leading backup, once it was seen that the one goes on where the other was taken.
    linked: str | None = None
    reaching_id: str | None = None  # the backup that leads to `archived_until`
    read_at: datetime | None = None  # when the place was last asked for all of this
    last_tested_at: datetime | None = None
    test_problem: str | None = None  # what the last restore test found wrong

    def without_looks(self) -> BackupState:
        """What remains the same while nothing but binary logs are copied."""
        moving = dict.fromkeys(("copied_until", "archived_until", "archive_end", "read_at"))
        return self.model_copy(update=moving)


class ArchiveChecks(Model):
    """Up to when all was archived of each database, as `grampus serve` saw it last.

    Kept for all of them at once, since it moves every two seconds: nothing is restored by it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    until: dict[str, datetime]


def require_backup_schedule(schedule: BackupSchedule) -> BackupSchedule:
    """The schedule if it can be carried out. Raises UsageError with code `invalid-schedule`."""
    require_interval("A backup", schedule.every_s, least_s=MIN_EVERY_S, most_s=MAX_EVERY_S)
    full_every_s = schedule.full_every_s
    if full_every_s is not None and not schedule.every_s <= full_every_s <= MAX_FULL_EVERY_S:
        raise UsageError(
            f"A full backup every {format_interval(full_every_s)} does not fit a backup every "
            f"{format_interval(schedule.every_s)}.",
            "Choose a --full-every between --every and 366d.",
            code="invalid-schedule",
        )
    test_every_s = schedule.test_every_s
    if test_every_s is not None and not schedule.every_s <= test_every_s <= MAX_TEST_EVERY_S:
        raise UsageError(
            f"A restore test every {format_interval(test_every_s)} does not fit a backup every "
            f"{format_interval(schedule.every_s)}.",
            "Choose a --test-every between --every and 366d.",
            code="invalid-schedule",
        )
    if schedule.keep is not None and schedule.keep < 1:
        raise UsageError(
            f"{schedule.keep} is not a valid number of backups to keep.",
            "Choose at least 1 for --keep.",
            code="invalid-schedule",
        )
    return schedule


def decide_due(every_s: int, last_at: datetime | None, now: datetime) -> bool:
    """Whether a backup, or a restore test, is due.

    Time is cut into intervals from the Unix epoch on, and each is to have one: so a caller that
    comes a little earlier than the last time misses none. One from the future, as after a clock
    was set back, counts for nothing.
    """
    if last_at is None or last_at >= now + timedelta(seconds=every_s):
        return True
    return int(last_at.timestamp()) // every_s < int(now.timestamp()) // every_s


def decide_spent_pieces(
    files: Mapping[str, Sequence[str]], needed: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The archived binary logs that no kept backup needs, by stretch, oldest first.

    `files` are the names of the archived logs by stretch, `needed` those that kept backups of the
    stretch's server begin with: a backup needs that log and all later ones. The last log of the
    newest stretch stays in any case: the archive goes on after it.
    """
    spent: dict[str, tuple[str, ...]] = {}
    newest = newest_stretch(files)
    for stretch, found in files.items():
        ordered = sorted(set(found), key=_number)
        if stretch == newest:
            ordered = ordered[:-1]
        first = min((_number(file) for file in needed.get(stretch, ())), default=None)
        gone = tuple(file for file in ordered if first is None or _number(file) < first)
        if gone:
            spent[stretch] = gone
    return spent


def _number(file: str) -> int:
    ending = file.rpartition(".")[2]
    return int(ending) if ending.isdecimal() else -1
