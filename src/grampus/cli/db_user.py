"""`grampus db user`: users of a database for its clients."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.names import database_users
from grampus.cli.db import NameArgument, db_app
from grampus.cli.login_documents import ShowPasswordOption, details_of_login, login_document
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
from grampus.core.errors import UsageError
from grampus.databases.users.decide_roles import as_preset
from grampus.databases.users.decide_users import DatabaseUser, describe_role
from grampus.databases.users.users import UserLogin

user_app = make_noun("user", "Users of a database, for its clients.", under=db_app)
UserArgument = Annotated[str, typer.Argument(help="The user's name.")]


@command(user_app, "add", "grampus db user add shop reports --role read")
def user_add(
    name: NameArgument,
    user: UserArgument,
    role: Annotated[
        str,
        typer.Option(
            metavar="read|write|admin|ROLE",
            help="read: read every schema. write: also change rows. admin: as the database's "
            "own user. ROLE: a role from `db role add`.",
        ),
    ] = "read",
    show_password: ShowPasswordOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a user with a role and its own password. The user must use TLS."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        login = database_users(session).add(name, user, role)
    said = role if as_preset(role) is None else f"{role}: {describe_role(role)}"
    _show_login(
        output_format, name, login, {"role": role}, {"role": said}, show_password=show_password
    )


@command(user_app, "list", "grampus db user list shop")
def user_list(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List the users of a database, also users made in SQL."""
    with work_on_databases(lab) as (session, _):
        users = database_users(session).all(name)
    make_output(output_format).table(
        {"database": name, "users": [user.model_dump(mode="json") for user in users]},
        ["user", "from", "role", "state", "password since"],
        [_row(user) for user in users],
        f"The database {name} has no user.",
    )


@command(user_app, "remove", "grampus db user remove shop reports --yes")
def user_remove(
    name: NameArgument,
    user: UserArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove a user and end the user's sessions."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        users = database_users(session)
        users.plan_remove(name, user)
        session.confirm(f"Remove the user '{user}' of the database '{name}'?", yes=yes)
        users.remove(name, user)
    make_output(output_format).text(
        {"database": name, "removed": user}, f"The user '{user}' of '{name}' is removed."
    )


@command(user_app, "passwd", "grampus db user passwd shop reports --keep-old")
def user_passwd(
    name: NameArgument,
    user: UserArgument,
    keep_old: Annotated[
        bool,
        typer.Option("--keep-old", metavar="", help="Accept the former password, too."),
    ] = False,
    discard_old: Annotated[
        bool,
        typer.Option(
            "--discard-old",
            metavar="",
            help="Only reject the former password that --keep-old accepts. Set no new password.",
        ),
    ] = False,
    show_password: ShowPasswordOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set a new password for a user. Open sessions continue."""
    require_one_way(keep_old, discard_old)
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        users = database_users(session)
        if discard_old:
            users.discard_former(name, user)
        else:
            login = users.change_password(name, user, keeps_former=keep_old)
    if discard_old:
        make_output(output_format).text(
            {"database": name, "user": user, "former_password_works": False},
            f"The former password of '{user}' no longer works.",
        )
        return
    kept = {"former password": "works until --discard-old"} if keep_old else {}
    _show_login(
        output_format,
        name,
        login,
        {"former_password_works": keep_old},
        kept,
        show_password=show_password,
    )


def require_one_way(keep_old: bool, discard_old: bool) -> None:
    """Raise UsageError when a former password is to be kept and discarded at once."""
    if keep_old and discard_old:
        raise UsageError(
            "--keep-old and --discard-old exclude each other.",
            "Use --keep-old first. Use --discard-old once every client has the new password.",
        )


def _show_login(
    output_format: OutputFormat,
    database: str,
    login: UserLogin,
    facts: dict[str, Any],
    pairs: dict[str, str],
    *,
    show_password: bool,
) -> None:
    document = {
        "database": database,
        "user": login.user,
        **facts,
        **login_document(
            login.endpoint, login.client_command, login.option_file, show_password=show_password
        ),
        "read_only_command": login.read_only_command,
    }
    shown = {
        "user": login.user,
        **pairs,
        **details_of_login(login.endpoint, login.client_command, show_password=show_password),
        **({"read-only": login.read_only_command} if login.read_only_command else {}),
    }
    make_output(output_format).details(document, shown)


def _row(user: DatabaseUser) -> list[str]:
    changed_at = user.password_changed_at
    changed = format_moment(changed_at) if changed_at else "-"
    return [
        user.name,
        "anywhere" if user.host == "%" else user.host,
        ", ".join(user.roles) if user.role != "owner" and user.roles else user.role,
        "locked" if user.locked else "open",
        f"{changed}{' (the former one works too)' if user.former_password_works else ''}",
    ]
