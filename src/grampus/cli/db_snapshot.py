"""`grampus db snapshot`: snapshots of databases."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import EXIT_FAILED, command, make_noun
from grampus.cli.composition.copies import database_snapshots, snapshot_schedules
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.volume_snapshot import (
    SnapshotArgument,
    details_of_snapshot,
    show_snapshots,
    snapshot_document,
)
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.core.intervals import format_interval, parse_interval_s
from grampus.databases.snapshots.decide_retention import (
    SnapshotSchedule,
    require_schedule,
)
from grampus.databases.snapshots.snapshot_schedules import Carried

db_snapshot_app = make_noun("snapshot", "Snapshots of databases.", under=db_app)
_DEFAULT_KEEP = 24


@command(db_snapshot_app, "create", "grampus db snapshot create shop before-upgrade")
def snapshot_create(
    name: NameArgument,
    snapshot: Annotated[
        str | None,
        typer.Argument(help="The snapshot's name (default: the current time)."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take a snapshot while the database runs. Writes wait for well under a second."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        info = database_snapshots(session).create(name, snapshot)
    make_output(output_format).details(
        {**snapshot_document(info), "database": name}, details_of_snapshot(name, info)
    )


@command(db_snapshot_app, "list", "grampus db snapshot list shop")
def snapshot_list(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List the snapshots of a database, oldest first, with the data that each one added."""
    with work_on_databases(lab) as (session, _):
        measured = database_snapshots(session).measured(name)
    show_snapshots(output_format, f"'{name}' has no snapshot yet.", measured)


@command(db_snapshot_app, "delete", "grampus db snapshot delete shop before-upgrade --yes")
def snapshot_delete(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove a snapshot that is not protected and has no clones."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        snapshots = database_snapshots(session)
        snapshots.plan_delete(name, snapshot)
        session.confirm(f"Remove the snapshot '{snapshot}' of the database '{name}'?", yes=yes)
        snapshots.delete(name, snapshot)
    make_output(output_format).text(
        {"deleted": snapshot, "database": name},
        (f"The snapshot '{snapshot}' of '{name}' is removed."),
    )


@command(db_snapshot_app, "protect", "grampus db snapshot protect shop before-upgrade")
def snapshot_protect(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Refuse to remove a snapshot, also by a schedule."""
    _set_protection(name, snapshot, lab, output_format, protected=True, dry_run=dry_run)


@command(db_snapshot_app, "unprotect", "grampus db snapshot unprotect shop before-upgrade")
def snapshot_unprotect(
    name: NameArgument,
    snapshot: SnapshotArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Allow the removal of a snapshot again."""
    _set_protection(name, snapshot, lab, output_format, protected=False, dry_run=dry_run)


@command(
    db_snapshot_app,
    "rollback",
    "grampus db snapshot rollback shop before-upgrade --yes",
    is_long=True,
)
def snapshot_rollback(
    name: NameArgument,
    snapshot: SnapshotArgument,
    no_safety: Annotated[
        bool,
        typer.Option(
            "--no-safety-snapshot",
            metavar="",
            help="Take no snapshot of the current data: the data is lost for good.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Return a database to a snapshot. Grampus first takes a snapshot of the current data.

    Grampus stops the database, and starts it again if it was running. Grampus's own accounts keep
    their current passwords.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        snapshots = database_snapshots(session)
        snapshots.plan_rollback(name, snapshot, with_safety=not no_safety)
        loss = "lose all later data for good" if no_safety else "stop the database meanwhile"
        session.confirm(f"Roll '{name}' back to '{snapshot}', and {loss}?", yes=yes)
        done = snapshots.rollback(name, snapshot, with_safety=not no_safety)
        view = databases.show(name)
    safety = done.safety_snapshot
    back = (
        f"\n`grampus db snapshot rollback {name} {safety}` undoes the rollback." if safety else ""
    )
    make_output(output_format).text(
        {**database_document(view), "rolled_back_to": snapshot, "safety_snapshot": safety},
        f"The database '{name}' is back at '{snapshot}', and {view.status}.{back}",
    )


@command(
    db_snapshot_app,
    "schedule",
    "grampus db snapshot schedule shop --every 1h --keep 24 --keep-daily 7",
)
def snapshot_schedule(
    name: NameArgument,
    every: Annotated[
        str | None,
        typer.Option(metavar="INTERVAL", help="Interval, such as 30m, 1h or 1d."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Keep the newest N snapshots (default {_DEFAULT_KEEP})."),
    ] = None,
    keep_daily: Annotated[
        int | None,
        typer.Option(metavar="N", help="Also keep the newest snapshot of each of the last N days."),
    ] = None,
    none: Annotated[bool, typer.Option("--none", metavar="", help="Remove the schedule.")] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set or show the snapshot schedule of a database. `db snapshot due` applies the schedule."""
    schedule = _parse_schedule(every, keep, keep_daily, none=none)
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        schedules = snapshot_schedules(session)
        if schedule is not None or none:
            schedules.put(name, schedule)
        schedule = schedules.get(name)
    make_output(output_format).text(
        {"database": name, "schedule": schedule.model_dump() if schedule else None},
        f"The database '{name}' has no snapshot schedule."
        if schedule is None
        else f"Snapshots of '{name}': every {format_interval(schedule.every_s)}; keeps the "
        f"newest {schedule.keep} and one of each of the last {schedule.keep_daily} days.",
    )


@command(db_snapshot_app, "due", "grampus db snapshot due")
def snapshot_due(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take the snapshots that are due, and delete old ones; for cron."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        carried = snapshot_schedules(session).carry_out(changes_nothing=dry_run)
        session.runner.propose(lambda: [line for one in carried for line in _plan_of(one)])
    make_output(output_format).table(
        {"databases": [_carried_document(one) for one in carried]},
        ["database", "taken", "deleted", "kept", "problem"],
        [
            [
                one.database,
                one.taken or "-",
                ", ".join(one.deleted) or "-",
                ", ".join(f"{snapshot} ({why})" for snapshot, why in one.kept.items()) or "-",
                one.problem or "-",
            ]
            for one in carried
            if not one.is_quiet
        ],
        "Nothing is due." if carried else "No database has a snapshot schedule.",
    )
    if any(one.problem for one in carried):
        raise typer.Exit(EXIT_FAILED)


def _parse_schedule(
    every: str | None, keep: int | None, keep_daily: int | None, *, none: bool
) -> SnapshotSchedule | None:
    """The schedule that is asked for. Raises UsageError."""
    if every is None:
        if keep is not None or keep_daily is not None:
            raise UsageError("--keep and --keep-daily need --every.", "Add --every 1h.")
        return None
    if none:
        raise UsageError("--none and --every contradict each other.", "Remove one of them.")
    schedule = SnapshotSchedule(
        every_s=parse_interval_s(every),
        keep=_DEFAULT_KEEP if keep is None else keep,
        keep_daily=keep_daily or 0,
    )
    return require_schedule(schedule)


def _plan_of(one: Carried) -> list[str]:
    taken = [f"Take the snapshot '{one.taken}' of {one.database}"] if one.taken else []
    deleted = [f"Remove the snapshot '{gone}' of {one.database}" for gone in one.deleted]
    return [*taken, *deleted]


def _carried_document(one: Carried) -> dict[str, Any]:
    return {
        "database": one.database,
        "taken": one.taken,
        "deleted": one.deleted,
        "kept": one.kept,
        "problem": one.problem,
    }


def _set_protection(
    name: str,
    snapshot: str,
    lab: str,
    output_format: OutputFormat,
    *,
    protected: bool,
    dry_run: bool,
) -> None:
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        info = database_snapshots(session).protect(name, snapshot, protected=protected)
    state = "protected" if protected else "no longer protected"
    make_output(output_format).text(
        {**snapshot_document(info), "database": name},
        f"The snapshot '{snapshot}' of '{name}' is {state}.",
    )
