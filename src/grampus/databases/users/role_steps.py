"""Changes of a database's roles, as lists of steps.

Each step looks at what the server has before it changes it, so that work which was cut off can be
resumed, and what somebody has changed in SQL meanwhile is no failure where it is no harm.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.answering import ensure_answering
from grampus.databases.users.decide_role_grants import RoleGrant, decide_missing
from grampus.databases.users.decide_roles import (
    Account,
    DatabaseRole,
    as_preset,
    find_account,
    find_role,
    held_at_login,
    render_drop_sql,
    render_give_sql,
    render_less_sql,
    render_login_sql,
    render_make_sql,
    render_more_sql,
    render_preset_sql,
    render_take_sql,
)
from grampus.databases.users.observed_roles import observe_given, observe_roles
from grampus.databases.users.secret_statements import SecretStatements, secret_statements
from grampus.operations.operation_type import WhenCutOff
from grampus.state.operations import Step


class RoleOrder(Model):
    """A change of one role, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    role: str  # as `db role list` shows it
    grants: tuple[RoleGrant, ...] = ()  # of a new one; of another, what it gets besides
    taken: tuple[RoleGrant, ...] = ()  # what it loses
    user: str = ""  # who is to have it, or no longer
    at_login: bool = True  # whether it is to be active from that user's login on
    had_it: bool = False  # the user had it before


class _RoleWork:
    """What the steps of a change of a role do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: RoleOrder) -> None:
        self._ports = ports
        self._order = order

    def make(self) -> None:
        statements = self._statements()
        order = self._order
        statements.run(render_make_sql(statements.flavour, order.role, order.grants))

    def drop(self) -> None:
        """Nobody has it at login any more, then it goes: a default role is else left behind."""
        statements = self._statements()
        roles = observe_roles(statements)
        found = find_role(self._order.role, roles)
        if found is None:
            return
        for holder in found.holders:
            if holder.at_login:
                user = (holder.name, holder.host)
                left = [each.account for each in _at_login_of(roles, user) if each != found]
                statements.run(render_login_sql(statements.flavour, user, left))
        statements.run(render_drop_sql(found.account))

    def add_rights(self) -> None:
        self._add(self._order.grants)

    def drop_rights(self) -> None:
        self._take_rights(self._order.grants)

    def take_rights(self) -> None:
        self._take_rights(self._order.taken)

    def return_rights(self) -> None:
        """As it was before; a role that has gone meanwhile stays so."""
        if find_role(self._order.role, observe_roles(self._statements())) is not None:
            self._add(self._order.taken)

    def _add(self, grants: tuple[RoleGrant, ...]) -> None:
        statements = self._statements()
        account = self._account(statements)
        statements.run(render_more_sql(statements.flavour, account, grants))

    def _take_rights(self, grants: tuple[RoleGrant, ...]) -> None:
        """Of these what it has: a server refuses to take what is not there."""
        statements = self._statements()
        role = find_role(self._order.role, observe_roles(statements))
        if role is None:
            return
        absent = decide_missing(grants, observe_given(statements, role))
        there = decide_missing(grants, absent)
        if there:
            statements.run(render_less_sql(statements.flavour, role.account, there))

    def give(self) -> None:
        statements = self._statements()
        preset = as_preset(self._order.role)
        if preset is not None:
            statements.run(render_preset_sql(statements.flavour, preset))
        account = self._account(statements)
        statements.run(render_give_sql(account, self._order.user))

    def give_back(self) -> None:
        """As it was before; a role that has gone meanwhile stays so."""
        statements = self._statements()
        found = find_role(self._order.role, observe_roles(statements))
        if found is not None:
            statements.run(render_give_sql(found.account, self._order.user))

    def take(self) -> None:
        statements = self._statements()
        found = find_role(self._order.role, observe_roles(statements))
        if found is not None and found.holder(self._order.user) is not None:
            statements.run(render_take_sql(found.account, self._order.user))

    def activate(self) -> None:
        """The role is active from login on, beside those that are."""
        statements, user = self._statements(), self._order.user
        roles = observe_roles(statements)
        account = self._account(statements)
        kept = [role.account for role in held_at_login(roles, user)]
        if account not in kept:
            # MariaDB has one, and the order was refused if there was another.
            chosen = [*kept, account] if statements.flavour == "mysql" else [account]
            statements.run(render_login_sql(statements.flavour, (user, "%"), chosen))

    def activate_again(self) -> None:
        """As it was before, if the user has it still."""
        found = find_role(self._order.role, observe_roles(self._statements()))
        if found is not None and found.holder(self._order.user) is not None:
            self.activate()

    def deactivate(self) -> None:
        """The role is no longer active from login on; others are as before."""
        statements, user = self._statements(), self._order.user
        active = held_at_login(observe_roles(statements), user)
        left = [role.account for role in active if role.name != self._order.role]
        if len(left) < len(active):
            statements.run(render_login_sql(statements.flavour, (user, "%"), left))

    def _account(self, statements: SecretStatements) -> Account:
        """What the server calls the role. One that has gone meanwhile is refused by the server."""
        found = find_account(statements.flavour, self._order.role, observe_roles(statements))
        return found or (self._order.role, "%" if statements.flavour == "mysql" else "")

    def _statements(self) -> SecretStatements:
        spec: DatabaseSpec = self._ports.records.get(self._order.database).spec
        ensure_answering(self._ports, spec)
        return secret_statements(self._ports, spec)


def _at_login_of(roles: list[DatabaseRole], user: Account) -> list[DatabaseRole]:
    return [
        role
        for role in roles
        if any((held.name, held.host) == user and held.at_login for held in role.holders)
    ]


def _add_steps(ports: StepPorts, order: RoleOrder) -> list[Step]:
    work = _RoleWork(ports, order)
    rights = "; ".join(grant.shown for grant in order.grants)
    title = f"Create the role {order.role} with {rights}"
    return [Step("role", title, work.make, work.drop)]


def _change_steps(ports: StepPorts, order: RoleOrder) -> list[Step]:
    """First what it gets: who has the role is never without what it had and keeps."""
    work, steps = _RoleWork(ports, order), []
    if order.grants:
        rights = "; ".join(grant.shown for grant in order.grants)
        title = f"Grant {rights} to the role {order.role}"
        steps.append(Step("more", title, work.add_rights, work.drop_rights))
    if order.taken:
        rights = "; ".join(grant.shown for grant in order.taken)
        title = f"Revoke {rights} from the role {order.role}"
        steps.append(Step("less", title, work.take_rights, work.return_rights))
    return steps


def _remove_steps(ports: StepPorts, order: RoleOrder) -> list[Step]:
    work = _RoleWork(ports, order)
    return [Step("role", f"Revoke the role {order.role} from all users, and drop it", work.drop)]


def _grant_steps(ports: StepPorts, order: RoleOrder) -> list[Step]:
    work, role, user = _RoleWork(ports, order), order.role, order.user
    give = Step("grant", f"Grant the role {role} to {user}", work.give, work.take)
    login = Step("login", f"Activate it at {user}'s next login", work.activate, work.deactivate)
    request = Step(
        "request",
        f"Do not activate it at {user}'s login",
        work.deactivate,
        work.activate_again,
    )
    steps = [] if order.had_it else [give]
    if order.at_login:
        steps.append(login)
    elif order.had_it:
        steps.append(request)
    return steps


def _revoke_steps(ports: StepPorts, order: RoleOrder) -> list[Step]:
    work, role, user = _RoleWork(ports, order), order.role, order.user
    return [
        Step(
            "login",
            f"Do not activate the role {role} at {user}'s login",
            work.deactivate,
            work.activate_again if order.at_login else None,
        ),
        Step("revoke", f"Revoke it from {user}", work.take, work.give_back),
    ]


def _type(
    kind: str,
    what: str,
    build: Callable[[StepPorts, RoleOrder], list[Step]],
    when_cut_off: WhenCutOff,
) -> DatabaseOperation[RoleOrder]:
    return DatabaseOperation(
        kind=kind,
        what=f"{what} of the database",
        document=RoleOrder,
        build=build,
        subject=lambda order: order.database,
        when_cut_off=when_cut_off,
        goes_with_database=True,
    )


ADD_ROLE = _type("db.role-add", "creation of a role", _add_steps, "undo")
CHANGE_ROLE = _type("db.role-change", "change of a role", _change_steps, "finish-or-undo")
# What a server refuses for good (a role that `mandatory_roles` names) is in no later command's way.
REMOVE_ROLE = _type("db.role-remove", "removal of a role", _remove_steps, "finish-or-undo")
GRANT_ROLE = _type("db.role-grant", "granting of a role", _grant_steps, "finish-or-undo")
REVOKE_ROLE = _type("db.role-revoke", "revocation of a role", _revoke_steps, "finish-or-undo")
