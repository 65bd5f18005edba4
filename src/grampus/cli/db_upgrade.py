"""`grampus db upgrade`: a database with a newer server."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.composition.live import database_parameters, database_upgrades
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    YesOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases


@command(db_app, "upgrade", "grampus db upgrade shop --to 11.8", is_long=True)
def db_upgrade(
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="The version of the server, such as 11.8 (default: the newest available one).",
        ),
    ] = None,
    yes: YesOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Upgrade a database to a newer server.

    Grampus takes a snapshot first. The database is unreachable while its tables are upgraded. If
    the upgrade fails, the database runs again as before. After an upgrade, the older server cannot
    open the data any more.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        upgrades = database_upgrades(session)
        order = upgrades.plan(name, to)
        if order is not None:
            change = f"{order.former_version} to {order.version}"
            session.confirm(
                (f"Upgrade '{name}' from {change}? The database is stopped meanwhile."), yes=yes
            )
        upgraded = upgrades.upgrade(name, to)
        view = databases.show(name)
        ignored = []
        if upgraded is not None and view.record.spec.parameters:
            shown = database_parameters(session).list(name)
            ignored = [one.name for one in shown if one.state == "ignored"]
    version = view.record.server_version
    document = {
        **database_document(view),
        "upgraded": upgraded is not None,
        "former_version": upgraded.former_version if upgraded else version,
        "snapshot": upgraded.snapshot if upgraded else None,
        "ignored_parameters": ignored,
    }
    if upgraded is None:
        sentence = f"The database '{name}' runs {version} already."
    else:
        sentence = (
            f"The database '{name}' is upgraded from {upgraded.former_version} to {version}.\n"
            f"The snapshot '{upgraded.snapshot}' has the data from before the upgrade."
        )
        for parameter in ignored:
            sentence += (
                f"\nThe server does not use {parameter} any more: `grampus db parameter reset "
                f"{name} {parameter}` removes the parameter."
            )
    make_output(output_format).text(document, sentence)
