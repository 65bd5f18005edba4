"""`grampus db events`, `db label`, `db rename`, `db rotate`."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.composition.names import database_events, database_names, database_rotation
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.db_user import require_one_way
from grampus.cli.event_documents import describe_outcome, event_document
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_duration, format_moment
from grampus.core.errors import UsageError
from grampus.databases.names.events import DatabaseEvent
from grampus.databases.records import render_labels


@command(db_app, "events", "grampus db events shop --last 20")
def db_events(
    name: NameArgument,
    last: Annotated[
        int | None, typer.Option(metavar="N", help="Only the last N (default: all).")
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Show the history of a database, also of a deleted one."""
    if last is not None and last < 1:
        raise UsageError(f"{last} is not a number of events.", "Write 1 or more.")
    with work_on_databases(lab) as (session, _):
        events = database_events(session).of(name, last=last)
    make_output(output_format).table(
        {"database": name, "events": [event_document(event) for event in events]},
        ["at", "what", "by", "outcome", "took"],
        [_row(event, name) for event in events],
        f"The database {name} has no events yet.",
    )


@command(db_app, "label", "grampus db label shop team=web env=prod old-")
def db_label(
    name: NameArgument,
    labels: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Labels to set. KEY- removes a label."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set the labels of a database for `db list --label`. Without labels, show them."""
    with work_on_databases(lab, dry_run=dry_run and bool(labels)) as (session, databases):
        record = database_names(session).label(name, labels) if labels else databases.get(name)
    shown = render_labels(record.spec.labels)
    make_output(output_format).text(
        {"name": name, "labels": record.spec.labels},
        f"The labels of '{name}': {shown or 'none'}.",
    )


@command(db_app, "rename", "grampus db rename shop store")
def db_rename(
    name: NameArgument,
    new_name: Annotated[str, typer.Argument(help="The new name.")],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Give a database another name. Grampus stops and starts a running database.

    The address, the users and the passwords stay the same.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        database_names(session).rename(name, new_name)
        view = databases.show(new_name)
    make_output(output_format).text(
        database_document(view), f"The database '{name}' is now '{new_name}'; it is {view.status}."
    )


@command(db_app, "rotate", "grampus db rotate shop --keep-old")
def db_rotate(
    name: NameArgument,
    keep_old: Annotated[
        bool,
        typer.Option(
            "--keep-old", metavar="", help="Accept the former password, too, until --discard-old."
        ),
    ] = False,
    discard_old: Annotated[
        bool,
        typer.Option(
            "--discard-old",
            metavar="",
            help="Only reject the former password that --keep-old accepts. Set no new password.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set new passwords for a database's own user and for Grampus's accounts, without a stop."""
    require_one_way(keep_old, discard_old)
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        rotation = database_rotation(session)
        if discard_old:
            rotation.discard_former(name)
        else:
            rotation.rotate(name, keeps_former=keep_old)
        option_file = str(databases.option_file(name))
    if discard_old:
        said = f"The former password of '{name}' no longer works."
    else:
        former = "works until --discard-old" if keep_old else "no longer works"
        said = f"The new password of '{name}' is in {option_file}. The former password {former}."
    make_output(output_format).text(
        {"name": name, "option_file": option_file, "former_password_works": keep_old}, said
    )


def _row(event: DatabaseEvent, name: str) -> list[str]:
    formerly = f" (as {event.database})" if event.database != name else ""
    return [
        format_moment(event.at),
        f"{event.what}{formerly}",
        event.actor or "-",
        describe_outcome(event),
        format_duration(event.duration_s),
    ]
