"""`grampus db delete`, `db undelete` and `db trash`: databases that are kept for a while."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.names import database_trash
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
from grampus.cli.work import work_on_databases
from grampus.core.clock import format_moment
from grampus.core.errors import RefusedError, UsageError
from grampus.core.units import format_bytes
from grampus.databases.lifecycle import DELETE
from grampus.databases.model import TrashedDatabase
from grampus.databases.names.decide_trash import DEFAULT_KEEP_DAYS
from grampus.databases.names.trash_steps import TRASH
from grampus.databases.service import DatabaseService

trash_app = make_noun("trash", "Deleted databases that can be restored.", under=db_app)
TrashedArgument = Annotated[
    str, typer.Argument(help="The database's name, or its key in `db trash list`.")
]


@command(db_app, "delete", "grampus db delete shop --yes")
def db_delete(
    name: NameArgument,
    now: Annotated[
        bool,
        typer.Option("--now", metavar="", help="Delete the database at once, without the trash."),
    ] = False,
    keep_days: Annotated[
        int, typer.Option(metavar="DAYS", help="Days in the trash.")
    ] = DEFAULT_KEEP_DAYS,
    with_replicas: Annotated[
        bool,
        typer.Option(
            "--with-replicas",
            metavar="",
            help="Also remove all replicas of the database for good.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Move a database to the trash. `db undelete` restores the database for some days."""
    if now:
        _delete_now(name, lab, output_format, with_replicas=with_replicas, yes=yes, dry_run=dry_run)
        return
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        trash, replicas = database_trash(session), database_replicas(session)
        order = trash.plan_trash(name, keep_days=keep_days)
        if not with_replicas:
            replicas.require_none(TRASH, name)
        session.runner.propose(lambda: replicas.describe_remove_all(name, TRASH, order))
        session.confirm(
            f"Delete the database '{name}'? It can be restored for {keep_days} days.", yes=yes
        )
        if with_replicas:
            replicas.remove_all(name)
        replicas.follow_endpoint(name)  # it is served nowhere any more
        trashed = trash.trash(name, keep_days=keep_days)
    if trashed is None:
        make_output(output_format).text({"deleted": name}, f"The database '{name}' is deleted.")
        return
    make_output(output_format).text(
        {"deleted": name, "trash": _document(trashed)},
        f"The database '{name}' is in the trash until {_moment(trashed)}.\n`grampus db "
        f"undelete {name}` restores the database.",
    )


@command(db_app, "undelete", "grampus db undelete shop")
def db_undelete(
    name: TrashedArgument,
    new_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The new name, if the old one is taken."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The host to run on (default: the former host)."),
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Restore a deleted database, with its users and passwords."""
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        record = database_trash(session).restore(name, name=new_name, host=host)
        view = databases.show(record.spec.name)
    spec = view.record.spec
    make_output(output_format).text(
        database_document(view),
        f"The database '{spec.name}' is restored. It is {view.status}, at "
        f"{spec.address}:{spec.port} on {spec.host}.",
    )


@command(trash_app, "list", "grampus db trash list")
def trash_list(lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT) -> None:
    """List the deleted databases that can be restored."""
    with work_on_databases(lab) as (session, _):
        trashed = database_trash(session).all()
    make_output(output_format).table(
        {"trash": [_document(entry) for entry in trashed]},
        ["name", "deleted", "kept until", "size", "key"],
        [
            [
                entry.record.spec.name,
                format_moment(entry.deleted_at),
                _moment(entry),
                format_bytes(entry.record.spec.size_bytes),
                entry.key,
            ]
            for entry in trashed
        ],
        "The trash is empty.",
    )


@command(trash_app, "empty", "grampus db trash empty --yes")
def trash_empty(
    name: Annotated[
        str | None,
        typer.Argument(help="Remove only this database, expired or not."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", metavar="", help="Also remove databases that have not expired."),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove expired databases from the trash for good; or one database, or all."""
    if everything and name is not None:
        raise UsageError("NAME and --all exclude each other.", "Give one of them, or neither.")
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        trash = database_trash(session)
        orders = trash.plan_purge(name, everything=everything)
        keys = [order.trashed.key for order in orders]
        if keys:
            session.confirm(f"Remove for good: {', '.join(keys)}?", yes=yes)
        problems = trash.purge_all(orders)
    if problems:
        raise RefusedError(
            problems[0] if len(problems) == 1 else f"{len(problems)} databases stay in the trash.",
            "" if len(problems) == 1 else " ".join(problems),
            code="stays",
        )
    make_output(output_format).text(
        {"removed": keys},
        f"Removed for good: {', '.join(keys)}." if keys else "The trash has no expired databases.",
    )


def _delete_now(
    name: str,
    lab: str,
    output_format: OutputFormat,
    *,
    with_replicas: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    with work_on_databases(lab, dry_run=dry_run) as (session, databases):
        spec, replicas = databases.get(name).spec, database_replicas(session)
        if not with_replicas:
            replicas.require_none(DELETE, name)
        session.runner.propose(lambda: replicas.describe_remove_all(name, DELETE, spec))
        _require_unprotected(databases, name)
        session.confirm(f"Delete the database '{name}' and all its data for good?", yes=yes)
        if with_replicas:
            replicas.remove_all(name)
        replicas.follow_endpoint(name)  # it is served nowhere any more
        databases.delete(name)
    make_output(output_format).text({"deleted": name}, f"The database '{name}' is deleted.")


def _require_unprotected(databases: DatabaseService, name: str) -> None:
    """Before anybody is asked whether they are sure."""
    if databases.get(name).spec.protected:
        raise RefusedError(
            f"The database '{name}' is protected.",
            f"Remove the protection first: `grampus db unprotect {name}`.",
            code="protected",
        )


def _moment(trashed: TrashedDatabase) -> str:
    return format_moment(trashed.expires_at)


def _document(trashed: TrashedDatabase) -> dict[str, Any]:
    spec = trashed.record.spec
    return {
        "name": spec.name,
        "key": trashed.key,
        "flavour": spec.flavour,
        "size_bytes": spec.size_bytes,
        "pool": trashed.volume.record.spec.pool,
        "image_id": trashed.volume.image_id,
        "deleted_at": trashed.deleted_at.isoformat(),
        "expires_at": trashed.expires_at.isoformat(),
    }
