"""`grampus db backup schedule` and `due`: backups again and again, without anybody asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from grampus.cli.app import EXIT_FAILED, command
from grampus.cli.backup_documents import (
    CredentialsOption,
    EndpointOption,
    NameArgument,
    ObjectLockOption,
    describe_schedule,
    place_of,
)
from grampus.cli.binlog_documents import keep_binlogs
from grampus.cli.composition.backups import backup_schedules, scheduled_tests
from grampus.cli.composition.session import Session
from grampus.cli.db_backup import backup_app
from grampus.cli.due_backups import carry_out_due_tests, take_due_backups
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import GrampusError, UsageError
from grampus.core.intervals import parse_interval_s
from grampus.core.units import format_bytes
from grampus.databases.backup.backup_schedules import CarriedBackup
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.backup.scheduled_tests import CarriedTest


@command(
    backup_app,
    "schedule",
    "grampus db backup schedule shop --every 6h --full-every 7d --to /srv/backups --keep 28 "
    "--archive",
)
def backup_schedule(
    name: NameArgument,
    every: Annotated[
        str | None, typer.Option(metavar="INTERVAL", help="Interval, such as 1h, 6h or 1d.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="DIR|S3-URL", help="The place of the backups, as with `create`."),
    ] = None,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    full_every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL", help="Interval of full backups (default: after 14 increments)."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="N", help="Keep the newest N backups and their bases (default: all)."),
    ] = None,
    archive: Annotated[
        bool, typer.Option("--archive", metavar="", help="Also archive binary logs (MySQL).")
    ] = False,
    test_every: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL",
            help="Interval of restore tests of the newest backup, as with `test` (default: never).",
        ),
    ] = None,
    object_lock: ObjectLockOption = None,
    off: Annotated[bool, typer.Option("--off", metavar="", help="Remove the schedule.")] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set or show the backup schedule of a database.

    `grampus serve` takes the backups, or `grampus db backup due` from a timer.
    """
    if every is None and (
        to or full_every or test_every or object_lock or keep is not None or archive
    ):
        raise UsageError("A schedule needs --every.", "Add --every 6h.")
    if every is not None and (off or to is None):
        raise UsageError(
            "--off and --every contradict each other." if off else "A schedule needs --to.",
            "Remove one of them." if off else "Name a directory, or s3://BUCKET.",
        )
    schedule = None
    if every is not None and to is not None:
        schedule = BackupSchedule(
            place=place_of(to, endpoint, credentials),
            every_s=parse_interval_s(every),
            full_every_s=None if full_every is None else parse_interval_s(full_every),
            keep=keep,
            archives=archive,
            test_every_s=None if test_every is None else parse_interval_s(test_every),
            object_lock_days=object_lock,
        )
    is_change = schedule is not None or off
    with work_on_databases(lab, dry_run=dry_run and is_change) as (session, _):
        schedules = backup_schedules(session)
        if is_change:
            schedules.put(name, schedule)
        schedule = schedules.get(name)
    make_output(output_format).text(
        {"database": name, "schedule": schedule.model_dump(mode="json") if schedule else None},
        f"The database '{name}' has no backup schedule."
        if schedule is None
        else f"Backups of '{name}': {describe_schedule(schedule)}.",
    )


@command(backup_app, "due", "grampus db backup due")
def backup_due(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take the backups that are due, archive binary logs, and delete old backups; for cron.

    Restore tests that are due run afterwards. Grampus works on two databases of a place at a time.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        session.runner.propose(lambda: _plan(session))
        carried = take_due_backups(session, with_logs=True)
        keep_binlogs(session, list(backup_schedules(session).archiving()))
        tests = carry_out_due_tests(session)
    tested = {one.database: one for one in tests}
    make_output(output_format).table(
        {
            "databases": [
                {**carried_document(one), "tested": tested_document(tested.get(one.database))}
                for one in carried
            ]
        },
        ["database", "taken", "logs copied", "deleted", "restore test", "problem"],
        [
            [
                one.database,
                one.taken or "-",
                format_bytes(one.archived_bytes) if one.archived_until else "-",
                ", ".join(one.deleted) or "-",
                describe_tested(tested.get(one.database)),
                " ".join(str(problem) for problem in _problems(one, tested)) or "-",
            ]
            for one in carried
            if not one.is_quiet or describe_tested(tested.get(one.database)) != "-"
        ],
        "Nothing is due." if carried else "No database has a backup schedule.",
    )
    is_bad = any(one.tested and one.tested.test.problem for one in tests)
    if is_bad or any(_problems(one, tested) for one in carried):
        raise typer.Exit(EXIT_FAILED)


def _plan(session: Session) -> list[str]:
    backups = backup_schedules(session).plan_all()
    plan = [f"Take the backup {one.taken}: {one.why}" for one in backups if one.taken]
    return [*plan, *(line for one in scheduled_tests(session).plan_all() for line in one.plan)]


def _problems(one: CarriedBackup, tested: Mapping[str, CarriedTest]) -> list[GrampusError]:
    test = tested.get(one.database)
    problem = None if test is None else test.problem
    return [*one.problems, *([] if problem is None else [problem])]


def describe_tested(one: CarriedTest | None) -> str:
    """What a test found now, in a word or a sentence."""
    if one is None or one.tested is None:
        return "-"
    return one.tested.test.problem or "good"


def tested_document(one: CarriedTest | None) -> dict[str, Any] | None:
    """The JSON form of a test that was carried out now."""
    if one is None or one.tested is None:
        return None
    return {"backup": one.tested.manifest.id, **one.tested.test.model_dump(mode="json")}


def carried_document(one: CarriedBackup) -> dict[str, Any]:
    """The JSON form of what became of a schedule."""
    return {
        "database": one.database,
        "taken": one.taken,
        "deleted": one.deleted,
        "archived_bytes": one.archived_bytes,
        "archived_until": one.archived_until.isoformat() if one.archived_until else None,
        "problems": [
            {"code": problem.code, "problem": problem.problem, "remedy": problem.remedy}
            for problem in one.problems
        ],
    }
