"""`grampus db clone` and `db flatten`."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import EXIT_FAILED, command
from grampus.cli.composition.clones import database_clones, due_flattening
from grampus.cli.db import connection_document, database_document, db_app
from grampus.cli.lineage import details_of_lineage, lineage_document
from grampus.cli.login_documents import ShowPasswordOption, details_of_login
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    ExternalLogOption,
    FormatOption,
    JournalMemoryOption,
    JournalPoolOption,
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
        typer.Option(metavar="SNAPSHOT", help="Clone this snapshot (default: the current data)."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of the volume, at least the source's."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit of the instance (default: the source's)."),
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(metavar="NUMBER", help="CPU limit of the instance (default: the source's)."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The host to run on (default: the least busy one)."),
    ] = None,
    write_path: WritePathOption = None,
    max_lag: MaxLagOption = None,
    journal_memory: JournalMemoryOption = None,
    journal_pool: JournalPoolOption = None,
    external_log: ExternalLogOption = False,
    show_password: ShowPasswordOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a writable copy of a database in seconds, at any size.

    The copy shares data with the source until one of them changes the data. With --external-log, it
    shares nothing, and copying the files takes time. The copy has its own name, address,
    certificates and passwords of Grampus's accounts. It has the same users as the source.
    """
    path, bounds = parse_write_options(write_path, max_lag, journal_memory, journal_pool)
    request = CloneRequest(
        source=source,
        name=name,
        snapshot=snapshot,
        size_bytes=None if size is None else parse_bytes(size),
        memory_bytes=None if memory is None else parse_bytes(memory, what="memory size"),
        cpus=cpus,
        host=host,
        write_path=path,
        external_log=external_log,
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
            help="Flatten the running databases that were created with `db create "
            "--flatten`; for cron.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Make the volume of a clone independent of its source, while the database runs.

    The volume can grow meanwhile. Grampus refuses to stop or move the database until the copy has
    ended.
    """
    if (name is None) != due:
        raise UsageError(
            "The command needs either NAME or --due.",
            "Give a name, such as `grampus db flatten shop`, or --due for all databases that "
            "are due.",
        )
    if name is None:
        _flatten_due(lab, output_format, dry_run=dry_run)
        return
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        changed = database_clones(session).flatten(name)
    make_output(output_format).text(
        {"flattened": name, "changed": changed},
        f"The volume of '{name}' is independent{' now' if changed else ' already'}.",
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
        "No volume is due for flattening.",
    )
    if any(one.problem for one in carried):
        raise typer.Exit(EXIT_FAILED)
