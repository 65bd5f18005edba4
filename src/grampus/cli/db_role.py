"""`grampus db role`: roles of a database, which its users have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.names import database_roles
from grampus.cli.db import NameArgument, db_app
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
from grampus.databases.users.decide_role_grants import merge_grants, parse_grant
from grampus.databases.users.decide_roles import DatabaseRole, RoleHolder, is_preset
from grampus.databases.users.decide_users import describe_role

role_app = make_noun("role", "Roles of a database, for its users.", under=db_app)
RoleArgument = Annotated[str, typer.Argument(help="The role's name.")]
GrantOption = Annotated[
    list[str],
    typer.Option(
        metavar="'PRIVILEGES ON WHAT'",
        help="A privilege of the role. Repeatable. PRIVILEGES: SELECT, INSERT and so on, or "
        "read, write, all. WHAT: a schema, SCHEMA.TABLE, or *.*.",
    ),
]


@command(role_app, "add", "grampus db role add shop sales_desk --grant 'read ON sales'")
def role_add(
    name: NameArgument,
    role: RoleArgument,
    grant: GrantOption,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a role with privileges. No user has the role yet."""
    grants = [parse_grant(text) for text in grant]
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        database_roles(session).add(name, role, grants)
    may = [given.shown for given in grants]
    make_output(output_format).details(
        {"database": name, "role": role, "rights": may}, {"role": role, "may": "; ".join(may)}
    )


@command(
    role_app,
    "change",
    "grampus db role change shop sales_desk --grant 'read ON sales' --grant 'all ON sales.orders'",
)
def role_change(
    name: NameArgument,
    role: RoleArgument,
    grant: GrantOption,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Set the privileges of a role, for all users with the role.

    Grampus first grants the missing privileges, then revokes the others. Users never lose a
    privilege that stays.
    """
    grants = [parse_grant(text) for text in grant]
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        order = database_roles(session).change(name, role, grants)
    may = [given.shown for given in merge_grants(grants)]
    added = [given.shown for given in order.grants] if order else []
    taken = [given.shown for given in order.taken] if order else []
    make_output(output_format).details(
        {"database": name, "role": role, "rights": may, "added": added, "taken": taken},
        {
            "role": role,
            "may": "; ".join(may),
            "added": "; ".join(added) or "nothing",
            "taken": "; ".join(taken) or "nothing",
        },
    )


@command(role_app, "list", "grampus db role list shop")
def role_list(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """List the roles of a database and the users with each role, also roles made in SQL."""
    with work_on_databases(lab) as (session, _):
        roles = database_roles(session).all(name)
    make_output(output_format).table(
        {"database": name, "roles": [_document(role) for role in roles]},
        ["role", "may", "users"],
        [_row(role) for role in roles],
        f"The database {name} has no role yet.",
    )


@command(role_app, "remove", "grampus db role remove shop sales_desk --yes")
def role_remove(
    name: NameArgument,
    role: RoleArgument,
    lab: LabOption = LAB_DEFAULT,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Remove a role, also from every user with the role."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        roles = database_roles(session)
        _, found = roles.plan_remove(name, role)
        holders = ", ".join(_shown(holder) for holder in found.holders)
        lost = f"These users lose the role: {holders}. " if holders else ""
        session.confirm(f"{lost}Remove the role '{role}' of the database '{name}'?", yes=yes)
        roles.remove(name, role)
    make_output(output_format).text(
        {"database": name, "removed": role}, f"The role '{role}' of '{name}' is removed."
    )


@command(role_app, "grant", "grampus db role grant shop sales_desk --to reports")
def role_grant(
    name: NameArgument,
    role: RoleArgument,
    to: Annotated[str, typer.Option(metavar="USER", help="The user who receives the role.")],
    on_request: Annotated[
        bool,
        typer.Option(
            "--on-request",
            metavar="",
            help="Do not activate the role at login: clients use SET ROLE.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Grant a role to a user, active from the next login.

    If the user already has the role, the command only changes whether the role is active at login.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        is_new = database_roles(session).grant(name, role, to, at_login=not on_request)
    since = "after SET ROLE" if on_request else "from the next login"
    _show_change(
        output_format,
        {"database": name, "role": role, "user": to, "at_login": not on_request},
        f"'{to}' has the role '{role}' {since}."
        if is_new
        else f"'{to}' already has the role '{role}' in this way.",
        is_changed=is_new,
    )


@command(role_app, "revoke", "grampus db role revoke shop sales_desk --from reports")
def role_revoke(
    name: NameArgument,
    role: RoleArgument,
    from_: Annotated[
        str, typer.Option("--from", metavar="USER", help="The user who loses the role.")
    ],
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Revoke a role from a user, from the next login at the latest."""
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        is_gone = database_roles(session).revoke(name, role, from_)
    _show_change(
        output_format,
        {"database": name, "role": role, "user": from_},
        f"'{from_}' no longer has the role '{role}'."
        if is_gone
        else f"'{from_}' does not have the role '{role}'.",
        is_changed=is_gone,
    )


def _show_change(
    output_format: OutputFormat, document: dict[str, Any], said: str, *, is_changed: bool
) -> None:
    make_output(output_format).text({**document, "changed": is_changed}, said)


def _document(role: DatabaseRole) -> dict[str, Any]:
    return {
        **role.model_dump(mode="json", exclude={"may_be_given"}),
        "preset": is_preset(role),
    }


def _row(role: DatabaseRole) -> list[str]:
    may = describe_role(role.name) if is_preset(role) else "; ".join(role.rights)
    return [role.name, may or "nothing", ", ".join(_shown(h) for h in role.holders) or "-"]


def _shown(holder: RoleHolder) -> str:
    name = holder.name if holder.host in ("", "%") else f"{holder.name}@{holder.host}"
    return name if holder.at_login else f"{name} (on request)"
