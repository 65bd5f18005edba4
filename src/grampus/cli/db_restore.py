"""`grampus db restore`: a new database from a backup."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.backup_documents import (
    CredentialsOption,
    EndpointOption,
    FromOption,
    backup_document,
    place_of,
)
from grampus.cli.composition.backups import database_restores
from grampus.cli.db import db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_moment
from grampus.core.errors import UsageError
from grampus.core.units import parse_bytes
from grampus.databases.backup.restores import RestoreRequest
from grampus.databases.view import render_client_command


@command(
    db_app,
    "restore",
    "grampus db restore shop-again --from /srv/backups --latest --of shop",
    is_long=True,
)
def db_restore(
    name: Annotated[str, typer.Argument(help="The name of the new database.")],
    from_: FromOption,
    endpoint: EndpointOption = None,
    credentials: CredentialsOption = None,
    backup: Annotated[
        str | None, typer.Option(metavar="BACKUP", help="The backup to restore.")
    ] = None,
    latest: Annotated[
        bool, typer.Option("--latest", metavar="", help="Restore the newest backup.")
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Restore the data at this time with archived binary logs (UTC, such as "
            "2026-11-22T01:30:00).",
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --latest or --time: the database, if there are backups of several.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size of the volume (default: the size in the backup, or the database's "
            "current size if that is larger).",
        ),
    ] = None,
    from_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="With --latest or --time: the first characters of the database's id, if "
            "several databases had the same name.",
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory limit (default: as in the backup).")
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="CPU limit (default: as in the backup)."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The host to run on (default: the least busy one)."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a new database from a backup. The restore never overwrites anything."""
    if [backup is not None, latest, time is not None].count(True) != 1:
        raise UsageError(
            "The command needs exactly one of --backup, --latest and --time.",
            "Give --backup BACKUP, --latest or --time TIME. `grampus db backup list` shows "
            "the backups.",
        )
    if (of is not None or from_id is not None) and backup is not None:
        raise UsageError(
            "--of and --from-id need --latest or --time.",
            "Remove them: --backup is enough.",
        )
    moment = None if time is None else parse_moment(time)
    request = RestoreRequest(
        name=name,
        place=place_of(from_, endpoint, credentials),
        backup_id=backup,
        source=of,
        source_id=from_id,
        moment=moment,
        size_bytes=None if size is None else parse_bytes(size),
        memory_bytes=None if memory is None else parse_bytes(memory, what="memory size"),
        cpus=cpus,
        host=host,
    )
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        restored = database_restores(session).restore(request)
        reached = databases.endpoint(name)
        option_file = databases.option_file(name)
    record, manifest = restored.record, restored.manifest
    make_output(output_format).details(
        {
            "name": name,
            "backup": backup_document(manifest),
            "address": reached.address,
            "port": reached.port,
            "user": reached.user,
            "option_file": str(option_file),
        },
        {
            "database": name,
            "server": f"{record.spec.flavour} {record.server_version}",
            "address": f"{reached.address}:{reached.port}",
            "restored": f"{manifest.id}, as of {format_moment(moment or manifest.taken_at)}",
            "user": f"{reached.user} (unchanged, with a new password)",
            "client": render_client_command(record.spec.flavour, str(option_file)),
            "or": in_lab(f"grampus db connect {name}", lab),
        },
    )


def parse_moment(text: str) -> datetime:
    """A moment in UTC, unless it names another zone. Raises UsageError."""
    try:
        found = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time.",
            "Write the time as 2026-11-22T01:30:00, in UTC.",
            code="no-moment",
        ) from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
