"""`grampus db clone` and `db flatten`."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import EXIT_FAILED, command
from grampus.cli.composition.copies import database_clones, due_flattening
from grampus.cli.db import connection_document, database_document, db_app
from grampus.cli.lineage import details_of_lineage, lineage_document
from grampus.cli.login_documents import ShowPasswordOption, details_of_login
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    JournalMemoryOption,
    LabOption,
    MaxLagOption,
    WritePathOption,
    in_lab,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.work import work_on_databases
from grampus.core.errors import UsageError
from grampus.core.units import parse_bytes
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.volumes.write_paths import parse_write_options


@command(db_app, "clone", "grampus db clone shop shop-test --snapshot before", is_long=True)
def db_clone(
    source: Annotated[str, typer.Argument(help="The database to clone.")],
    name: Annotated[str, typer.Argument(help="The clone's name.")],
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="SNAPSHOT", help="Clone it as of this snapshot (default: as it is)."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of its volume, at least the source's."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit of its instance (default: the source's)."),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="CPU limit of its instance (default: the source's)."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The host to run on (default: the least busy)."),
    ] = None,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    show_password: ShowPasswordOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Make a writable copy of a database in seconds, whatever its size.

    It shares the source's data until either changes them. Name, address, certificates and the
    passwords of Grampus's accounts are its own; users that were made in the source are as there.
    """
    path, bounds = parse_write_options(write_path, max_lag, journal_memory)
    request = CloneRequest(
        source=source,
        name=name,
        snapshot=snapshot,
        size_bytes=None if size is None else parse_bytes(size),
        memory_bytes=None if memory is None else parse_bytes(memory, what="memory size"),
        cpus=cpus,
        host=host,
        write_path=path,
        **bounds,
    )
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        lineage = database_clones(session).clone(request)
        created, view = databases.made(name), databases.show(name)
    make_output(output_format).details(
        {
            **database_document(view),
            **connection_document(created, show_password=show_password),
            **lineage_document(view, lineage),
        },
        {
            "database": name,
            **details_of_lineage(view, lineage),
            "server": f"{view.record.spec.flavour} {created.record.server_version}",
            "address": f"{created.endpoint.address}:{created.endpoint.port}",
            **details_of_login(
                created.endpoint, created.client_command, show_password=show_password
            ),
            "or": in_lab(f"grampus db connect {name}", lab),
        },
    )


@command(db_app, "flatten", "grampus db flatten shop-test", is_long=True)
def db_flatten(
    name: Annotated[str | None, typer.Argument(help="The database's name.")] = None,
    due: Annotated[
        bool,
        typer.Option(
            "--due",
            metavar="",
            help="Those that were made with `db create --flatten` and run; for cron.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Let a clone's volume stand alone, while the database runs.

    It can grow meanwhile; what closes its image (a stop, a move) is refused until it has ended.
    """
    if (name is None) != due:
        raise UsageError(
            "Which database is to be flattened? NAME and --due exclude each other.",
            "Give its name, such as `grampus db flatten shop`, or --due for all that are due.",
        )
    if name is None:
        _flatten_due(lab, output_format, dry_run=dry_run)
        return
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        changed = database_clones(session).flatten(name)
    make_output(output_format).text(
        {"flattened": name, "changed": changed},
        f"The volume of '{name}' stands alone{' now' if changed else ' already'}.",
    )


def _flatten_due(lab: str, output_format: OutputFormat, *, dry_run: bool) -> None:
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        carried = due_flattening(session).carry_out()
    make_output(output_format).table(
        {
            "databases": [
                {
                    "database": one.database,
                    "flattened": one.is_flat,
                    "waits": one.waits,
                    "problem": None if one.problem is None else str(one.problem),
                }
                for one in carried
            ]
        },
        ["database", "flattened", "waits", "problem"],
        [
            [
                one.database,
                "yes" if one.is_flat else "no",
                one.waits or "-",
                "-" if one.problem is None else str(one.problem),
            ]
            for one in carried
        ],
        "No volume is to be flattened.",
    )
    if any(one.problem for one in carried):
        raise typer.Exit(EXIT_FAILED)
