"""Backups as the command line shows them, and how places of backups are named to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from grampus.core.clock import format_duration, format_moment
from grampus.core.intervals import format_interval
from grampus.core.units import format_bytes
from grampus.databases.backup.catalogue import Contents
from grampus.databases.backup.decide_schedule import BackupSchedule, BackupState
from grampus.databases.backup.decide_tested import RestoreTest
from grampus.databases.backup.model import BackupManifest
from grampus.databases.backup.owners import Owner
from grampus.databases.backup.places import S3_SCHEME, TargetPlace, parse_place
from grampus.databases.model import DatabaseRecord

FromOption = Annotated[
    str,
    typer.Option(
        "--from", metavar="DIR|S3-URL", help="The directory with the backups, or s3://BUCKET."
    ),
]
ToOption = Annotated[
    str,
    typer.Option(
        metavar="DIR|S3-URL",
        help="The directory for the backups, or s3://BUCKET/PREFIX. Grampus creates the "
        "directory if its parent exists.",
    ),
]
EndpointOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The S3 service (default: the one in the credentials file)."),
]
CredentialsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="GRAMPUS_S3_CREDENTIALS",
        help="The file with the keys of the S3 service.",
    ),
]
ObjectLockOption = Annotated[
    int | None,
    typer.Option(
        "--object-lock",
        metavar="DAYS",
        min=1,
        max=36_500,
        help="Prevent the deletion of a backup for DAYS days. The bucket must have object lock.",
    ),
]
# Of what is remembered of backups: how to look again, which says nothing to anybody else.
_OWN_MEMORY = {"place_id", "archive_end", "gap_after", "reaching_id", "read_at"}
NameArgument = Annotated[str, typer.Argument(help="The database's name.")]


def place_of(url: str, endpoint: str | None, credentials: str | None) -> TargetPlace:
    """The place that options name. Raises UsageError."""
    # The variable may be set while a directory is named: it says nothing of that.
    if not url.startswith(S3_SCHEME) and endpoint is None:
        credentials = None
    return parse_place(url, endpoint=endpoint, credentials=credentials)


def backup_document(backup: BackupManifest) -> dict[str, Any]:
    """The stable JSON form of a backup."""
    return {
        "id": backup.id,
        "kind": backup.kind,
        "database": backup.database.model_dump(mode="json"),
        "taken_at": backup.taken_at.isoformat(),
        "finished_at": backup.finished_at.isoformat(),
        "base": backup.base.id if backup.base is not None else None,
        "plain_bytes": backup.data.plain_bytes,
        "stored_bytes": backup.data.stored_bytes,
        "stored_sha256": backup.data.stored_sha256,
        "gtid_executed": backup.gtid_executed,
        "key": backup.key_id,
        "locked_until": backup.locked_until.isoformat() if backup.locked_until else None,
    }


def contents_document(contents: Contents, ordered: list[BackupManifest]) -> dict[str, Any]:
    """The stable JSON form of what a place of backups holds."""
    return {
        "backups": [backup_document(backup) for backup in ordered],
        "incomplete": list(contents.incomplete),
        "unreadable": contents.unreadable,
        "tests": {found: test.model_dump(mode="json") for found, test in contents.tests.items()},
    }


def describe_test(test: RestoreTest | None) -> str:
    """When a backup was tested and what came of it, in short."""
    if test is None:
        return "never"
    how = "failed" if test.problem else "compared" if test.compared else "checked"
    return f"{format_moment(test.at)}, {how}"


def describe_owner(owner: Owner | None) -> str:
    """Which of several databases of the same name a backup is of."""
    if owner is None:
        return ""
    return f"{owner.short_id}, lab {owner.lab}" if owner.lab else owner.short_id


def backup_pairs(backup: BackupManifest) -> Mapping[str, str]:
    return {
        "backup": backup.id,
        "kind": backup.kind,
        "taken": format_moment(backup.taken_at),
        "data": format_bytes(backup.data.plain_bytes),
        "stored": f"{format_bytes(backup.data.stored_bytes)}, compressed and encrypted",
        **(
            {"locked": f"until {format_moment(backup.locked_until)}"} if backup.locked_until else {}
        ),
    }


def describe_schedule(schedule: BackupSchedule) -> str:
    """After `a backup`: how often, where to, and what is kept."""
    full = f", full every {format_interval(schedule.full_every_s)}" if schedule.full_every_s else ""
    keep = "all of them" if schedule.keep is None else f"the newest {schedule.keep}"
    logs = "; binary logs are archived" if schedule.archives else ""
    if schedule.test_every_s is not None:
        logs += f"; the newest is tested every {format_interval(schedule.test_every_s)}"
    if schedule.object_lock_days is not None:
        logs += f"; each is locked for {schedule.object_lock_days} days"
    every = format_interval(schedule.every_s)
    return f"every {every}{full}, to {schedule.place.url}; keeps {keep}{logs}"


def state_document(
    record: DatabaseRecord,
    state: BackupState | None,
    now: datetime,
    *,
    checked_until: datetime | None = None,
) -> dict[str, Any]:
    """What `db show` tells of backups, for programs."""
    schedule = record.backup_schedule
    until = state.archived_until if state is not None else None
    return {
        "schedule": schedule.model_dump(mode="json") if schedule else None,
        "last": state.model_dump(mode="json", exclude=_OWN_MEMORY) if state else None,
        "restorable_until": until.isoformat() if until else None,
        "archive_lag_s": _archive_lag_s(record, state, now, checked_until),
    }


def _archive_lag_s(
    record: DatabaseRecord,
    state: BackupState | None,
    now: datetime,
    checked_until: datetime | None,
) -> float | None:
    """How long ago all binary logs were copied; None: nobody is to do it, or it never was done.

    `checked_until`: up to then nothing was committed that the archive lacks. While nothing is
    written, the archive itself is told less often.
    """
    schedule = record.backup_schedule
    is_wanted = schedule is not None and schedule.archives and record.desired == "running"
    if not is_wanted or state is None or state.copied_until is None:
        return None
    copied_until = state.copied_until
    # What was seen of a former database of that name counts for nothing.
    if checked_until is not None and checked_until > record.created_at:
        copied_until = max(copied_until, checked_until)
    return round(max(0.0, (now - copied_until).total_seconds()), 1)


def pairs_of_state(
    record: DatabaseRecord,
    state: BackupState | None,
    now: datetime,
    *,
    checked_until: datetime | None = None,
) -> dict[str, str]:
    """What `db show` tells of backups, for people."""
    schedule = record.backup_schedule
    if record.spec.replica_of is not None:
        return {}  # its primary is backed up
    has_some = state is not None and state.last_id is not None
    without = "manual only" if has_some else "none"
    pairs = {"backups": describe_schedule(schedule) if schedule else without}
    if state is None:
        return pairs
    if state.last_id is not None and state.last_taken_at is not None:
        pairs["last backup"] = f"{state.last_id}, {format_moment(state.last_taken_at)}"
    if state.archived_until is not None:
        pairs["restorable"] = f"until {format_moment(state.archived_until)}"
    elif state.last_id is not None:
        pairs["restorable"] = "as of each backup; no binary logs are archived after a backup"
    if state.last_tested_at is not None:
        found = "good" if state.test_problem is None else state.test_problem
        pairs["restore test"] = f"{found}, {format_moment(state.last_tested_at)}"
    lag_s = _archive_lag_s(record, state, now, checked_until)
    if lag_s is not None:
        pairs["archive"] = f"{format_duration(lag_s)} behind"
    if state.archive_problem is not None:
        pairs["archive"] = state.archive_problem
    return pairs
