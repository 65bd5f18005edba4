"""The roles of a server, as it says now which there are."""

from __future__ import annotations

from grampus.databases.users.decide_role_grants import RoleGrant, parse_given
from grampus.databases.users.decide_roles import (
    DatabaseRole,
    parse_rights,
    parse_roles,
    render_given_sql,
    render_rights_sql,
    render_roles_sql,
)
from grampus.databases.users.secret_statements import SecretStatements


def observe_roles(statements: SecretStatements) -> list[DatabaseRole]:
    """All roles with who has them, also those made in SQL; not what they may do."""
    return parse_roles(statements.run(render_roles_sql(statements.flavour)))


def observe_rights(statements: SecretStatements, roles: list[DatabaseRole]) -> list[DatabaseRole]:
    """The same roles, with what they may do."""
    return parse_rights(roles, statements.run(render_rights_sql(roles))) if roles else []


def observe_given(statements: SecretStatements, role: DatabaseRole) -> list[RoleGrant]:
    """What one role may do. Raises RefusedError with code `given-in-sql`."""
    rows = statements.run(render_given_sql(role))
    return parse_given(statements.flavour, [row[0] for row in rows], role=role.name)
