"""A backup restored as a part of a verification: where it is, and what came of it. All pure."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from grampus.core.errors import NotFoundError, RefusedError
from grampus.core.models import Model
from grampus.databases.backup.decide_schedule import BackupSchedule, BackupState
from grampus.databases.backup.decide_tested import RestoreTest
from grampus.databases.backup.places import S3_SCHEME, TargetPlace

# `untried`: what kept it from being restored says nothing about the backup.
RestoreOutcome = Literal["good", "broken", "untried"]


class RestoredBackup(Model):
    """What became of the newest backup of a database."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    place: str
    outcome: RestoreOutcome
    backup: str = ""  # empty: none was reached
    tables: int = 0  # that were checked
    compared: bool = False  # with the snapshot that the backup was read from
    said: str = ""  # what is wrong, or what kept it from being tried


def decide_place(
    name: str, schedule: BackupSchedule | None, state: BackupState | None
) -> TargetPlace:
    """Where the newest backup of a database is, as far as it is known here.

    Raises NotFoundError with code `no-backup`; RefusedError with code `no-credentials` when it is
    in a bucket whose keys nobody has left here.
    """
    if state is None or state.last_id is None:
        if schedule is not None:
            return schedule.place
        raise NotFoundError(
            f"Grampus knows no backup of the database {name}.",
            f"Take a backup: `grampus db backup create {name} --to PLACE`. If there is one, "
            "give its place with --from.",
            code="no-backup",
        )
    if schedule is not None and schedule.place.url == state.place:
        return schedule.place
    if state.place.startswith(S3_SCHEME):
        raise RefusedError(
            f"The newest backup of the database {name} is in {state.place}, and Grampus does "
            "not know its access keys.",
            f"Add `--from {state.place} --credentials FILE`.",
            code="no-credentials",
        )
    return TargetPlace(url=state.place)


def classify_tested(place: TargetPlace, backup: str, test: RestoreTest) -> RestoredBackup:
    """A restore test as a part of a verification."""
    return RestoredBackup(
        place=place.url,
        outcome="good" if test.problem is None else "broken",
        backup=backup,
        tables=test.tables,
        compared=test.compared,
        said=test.problem or "",
    )


def describe_restored(restored: RestoredBackup) -> str:
    """It in a few words, such as `backup shop/20261122t015455z: 39 tables restored, ...`."""
    said = restored.said.rstrip(".")
    if restored.outcome == "untried":
        return f"backup not restored: {said}"
    if restored.outcome == "broken":
        return f"backup {restored.backup} is broken: {said}"
    compared = (
        "rows equal to its snapshot"
        if restored.compared
        else "nothing to compare with (its snapshot is deleted)"
    )
    return f"backup {restored.backup}: {restored.tables} tables restored, {compared}"
