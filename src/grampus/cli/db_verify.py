"""`grampus db verify`: whether what a database holds is right."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import EXIT_FAILED, command
from grampus.cli.backup_documents import CredentialsOption, EndpointOption, place_of
from grampus.cli.composition.backups import newest_backups
from grampus.cli.composition.verify import database_verification
from grampus.cli.db import NameArgument, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    RepairOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.scrub_documents import (
    DAMAGE_COLUMNS,
    advise_on_scrub,
    rows_of_scrub,
    scrub_document,
)
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.databases.verify.decide_verified import Verification


@command(db_app, "verify", "grampus db verify shop --repair")
def db_verify(
    name: NameArgument,
    deep_scrub: Annotated[
        bool,
        typer.Option(
            "--deep-scrub",
            metavar="",
            help="Only read and compare all copies on the OSDs.",
        ),
    ] = False,
    tables: Annotated[
        bool,
        typer.Option("--tables", metavar="", help="Only check every table (CHECK TABLE EXTENDED)."),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place",
            metavar="",
            help="Check the tables on the database's own server, not on a thin clone.",
        ),
    ] = False,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore",
            metavar="",
            help="Only restore the newest backup temporarily, and compare its tables.",
        ),
    ] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR|S3-URL",
            help="The place of that backup (default: the place of the last backup).",
        ),
    ] = None,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    repair: RepairOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Verify all data of a running database: the copies on the OSDs and the tables.

    Without --deep-scrub, --tables and --restore, the command does the first two. You can combine
    the options. Grampus checks tables on a thin clone without client writes, and deletes the clone
    afterwards. The exit code is 1 if something is damaged and was not repaired, or if a backup was
    not restored.
    """
    is_default = not (deep_scrub or tables or restore)
    scrub, check = deep_scrub or is_default, tables or is_default
    if repair and not scrub:
        raise UsageError(
            "--repair repairs copies on OSDs, which only a scrub reads.",
            "Add --deep-scrub.",
        )
    if in_place and not check:
        raise UsageError(
            "--in-place needs a check of tables.",
            "Add --tables, or remove --in-place.",
        )
    if (from_ is not None and not restore) or (endpoint is not None and from_ is None):
        raise UsageError(
            "--from and --endpoint need --restore.",
            "Give them together, or remove them.",
        )
    place = None if from_ is None else place_of(from_, endpoint, credentials)
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        backups = newest_backups(session)
        verified = database_verification(session).verify(
            name,
            scrub=scrub,
            tables=check,
            repair=repair,
            in_place=in_place,
            restore=backups.prepare(name, place) if restore else None,
        )
        is_left_out = is_default and backups.is_known(name)
    output, document = make_output(output_format), verification_document(verified)
    if output_format is OutputFormat.JSON:
        output.text(document, "")
    else:
        rows = rows_of_damage(verified)
        if rows:
            output.table(document, DAMAGE_COLUMNS, rows, "")
        output.text(document, conclusion(verified, is_restore_left_out=is_left_out))
    if not verified.is_sound:
        raise typer.Exit(EXIT_FAILED)


def conclusion(verified: Verification, *, is_restore_left_out: bool = False) -> str:
    """What it came to, and what to do about it."""
    said = verified.summary.said
    lines = [f"The database '{verified.database}': {said}."]
    if verified.scrub is not None:
        lines += advise_on_scrub(
            verified.scrub,
            repair=f"grampus db verify {verified.database} --deep-scrub --repair",
            restore="restore the database from a backup, or a table from a dump",
        )
    if verified.broken_tables:
        lines.append(
            "The server wrote the broken tables, and all copies are equal: restore the "
            "database from a backup or a snapshot (`grampus db backup`, `grampus db "
            "snapshot`)."
        )
    if verified.restored is not None and verified.restored.outcome == "broken":
        lines.append(
            "The backup is unusable. Take a new one (`grampus db backup create "
            f"{verified.database} --to {verified.restored.place} --full`), and restore that "
            "one."
        )
    if is_restore_left_out:
        lines.append("The newest backup was not restored and compared. --restore does that.")
    return "\n".join(lines)


def rows_of_damage(verified: Verification) -> list[list[str]]:
    """What is not right, one row each."""
    rows = [] if verified.scrub is None else rows_of_scrub(verified.scrub)
    for check in verified.tables or ():
        if check.outcome != "sound":
            rows.append(["table", check.table, check.said, check.outcome])
    restored = verified.restored
    if restored is not None and restored.outcome != "good":
        where = restored.backup or restored.place
        rows.append(["backup", where, restored.said, restored.outcome])
    return rows


def verification_document(verified: Verification) -> dict[str, Any]:
    """The JSON document of a verification."""
    summary = verified.summary
    return {
        "database": verified.database,
        "at": verified.at.isoformat(),
        "sound": summary.is_sound,
        "summary": summary.said,
        "deep_scrub": None if verified.scrub is None else scrub_document(verified.scrub),
        "tables": None
        if verified.tables is None
        else [check.model_dump(mode="json") for check in verified.tables],
        "restore": None if verified.restored is None else verified.restored.model_dump(mode="json"),
    }
