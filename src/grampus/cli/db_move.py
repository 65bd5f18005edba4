"""`grampus db move` and `grampus db switchover`: a database on another host."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.composition.failover import host_maintenances
from grampus.cli.composition.live import database_moves
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_duration
from grampus.databases.live.moving import Moved
from grampus.databases.view import DatabaseView


@command(db_app, "move", "grampus db move shop --host h2", is_long=True)
def db_move(
    name: NameArgument,
    host: Annotated[str, typer.Option(metavar="HOST", help="The new host.")],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Move a database to another host: same data, same floating address, a pause of seconds."""
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        moved = database_moves(session).move(name, host)
        view = databases.show(name)
    _report(output_format, view, moved)


@command(db_app, "switchover", "grampus db switchover shop", is_long=True)
def db_switchover(
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="The new host (default: another one with the fewest databases)."
        ),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Run a database on another host, as planned work; `db failover` is for lost hosts.

    The same as `db move`, except that Grampus can choose the host.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        moved = host_maintenances(session).switch_over(name, to)
        view = databases.show(name)
    _report(output_format, view, moved)


def _report(output_format: OutputFormat, view: DatabaseView, moved: Moved | None) -> None:
    name, host = view.record.spec.name, view.record.spec.host
    pause_ms = moved.pause_ms if moved is not None else None
    if moved is None:
        sentence = f"The database '{name}' is on {host} already."
    else:
        sentence = f"The database '{name}' is on {host}; it was on {moved.former_host}."
    if pause_ms is not None:
        sentence += f"\nWrites were paused for {format_duration(pause_ms / 1000)}."
    document = {**database_document(view), "moved": moved is not None, "pause_ms": pause_ms}
    make_output(output_format).text(document, sentence)
