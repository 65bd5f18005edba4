"""Roles of a database for its users: privileges under a name, made once and given to many.

As with users, the server alone knows which there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import RefusedError
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.users.decide_role_grants import (
    RoleGrant,
    decide_missing,
    parse_names,
    render_names_sql,
    require_closed,
    require_owned,
    require_there,
)
from grampus.databases.users.decide_roles import (
    DatabaseRole,
    require_given,
    require_made,
    require_one_default,
    require_own,
    require_role,
    require_role_name,
)
from grampus.databases.users.decide_users import require_user_name
from grampus.databases.users.observed_roles import (
    observe_given,
    observe_rights,
    observe_roles,
)
from grampus.databases.users.role_steps import (
    ADD_ROLE,
    CHANGE_ROLE,
    GRANT_ROLE,
    REMOVE_ROLE,
    REVOKE_ROLE,
    RoleOrder,
)
from grampus.databases.users.secret_statements import SecretStatements, secret_statements
from grampus.databases.users.users import DatabaseUsers


class DatabaseRoles:
    """The roles of the databases of one lab or cluster. A database must run to be asked.

    Every method raises what every method of `DatabaseUsers` raises.
    """

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations
        self._users = DatabaseUsers(operations)

    def all(self, database: str) -> list[DatabaseRole]:
        """The roles that there are now, with what they may do, also those made in SQL."""
        statements = self._statements(self._users.running(database))
        return observe_rights(statements, observe_roles(statements))

    def _plan_add(self, database: str, role: str, grants: Sequence[RoleGrant]) -> RoleOrder:
        record = self._users.running(database)
        require_role_name(role)
        statements = self._statements(record)
        taken = {known.server_name: "role" for known in observe_roles(statements)}
        taken |= {user.name: "user" for user in self._users.all(database)}
        if role in taken:
            raise RefusedError(
                f"The database {database} already has a {taken[role]} named '{role}'.",
                f"Choose another name, or see `grampus db {taken[role]} list {database}`.",
                code="name-taken",
            )
        require_owned(record.spec.flavour, grants)
        _require_there(statements, grants)
        return RoleOrder(database=database, role=role, grants=tuple(grants))

    def add(self, database: str, role: str, grants: Sequence[RoleGrant]) -> None:
        """Make a role; undone when it fails.

        Raises UsageError for the name, RefusedError with code `name-taken`, NotFoundError when
        there is no such schema or table, and what `require_owned` raises.
        """
        with self._operations.locked(database):
            self._operations.settle(database)
            self._operations.run(ADD_ROLE, self._plan_add(database, role, grants))

    def _plan_change(
        self, database: str, role: str, grants: Sequence[RoleGrant]
    ) -> RoleOrder | None:
        """None: it has just these privileges."""
        record = self._users.running(database)
        require_own(role)
        statements = self._statements(record)
        found = require_made(role, observe_roles(statements), database=database)
        require_owned(record.spec.flavour, grants)
        _require_there(statements, grants)
        given = observe_given(statements, found)
        more, less = decide_missing(grants, given), decide_missing(given, grants)
        require_closed(record.spec.flavour, more)
        if not more and not less:
            return None
        return RoleOrder(database=database, role=role, grants=tuple(more), taken=tuple(less))

    def change(self, database: str, role: str, grants: Sequence[RoleGrant]) -> RoleOrder | None:
        """Let a role have just these privileges, and say what it got and lost.

        None: it had just these. Whoever has it is never without what it had and keeps. Raises
        NotFoundError, also for a schema or table, and RefusedError with code `own-role`,
        `given-in-sql` or `not-closed`, and what `require_owned` raises.
        """
        with self._operations.locked(database):
            self._operations.settle(database)
            order = self._plan_change(database, role, grants)
            if order is not None:
                self._operations.run(CHANGE_ROLE, order)
        return order

    def plan_remove(self, database: str, role: str) -> tuple[RoleOrder, DatabaseRole]:
        """The end of a role, and who has it. Raises NotFoundError.

        RefusedError with code `own-role` for one of Grampus's own.
        """
        record = self._users.running(database)
        require_own(role)
        roles = observe_roles(self._statements(record))
        found = require_made(role, roles, database=database)
        return RoleOrder(database=database, role=role), found

    def remove(self, database: str, role: str) -> None:
        """Remove a role; nobody has it any more. Raises what `plan_remove` raises."""
        with self._operations.locked(database):
            self._operations.settle(database)
            self._operations.run(REMOVE_ROLE, self.plan_remove(database, role)[0])

    def _plan_grant(
        self, database: str, role: str, user: str, *, at_login: bool
    ) -> RoleOrder | None:
        """None: it is so already."""
        record = self._users.running(database)
        require_user_name(user, owner=record.user)
        self._users.require_known(database, user)
        roles = observe_roles(self._statements(record))
        found = require_role(role, roles, database=database)
        held = None if found is None else found.holder(user)
        if held is not None and held.at_login == at_login:
            return None
        if found is not None and held is None:
            require_given(found)
        if at_login:
            require_one_default(record.spec.flavour, roles, role, user, database=database)
        return RoleOrder(
            database=database, role=role, user=user, at_login=at_login, had_it=held is not None
        )

    def grant(self, database: str, role: str, user: str, *, at_login: bool) -> bool:
        """Give a role to a user, active `at_login` or on request; False: it was so already.

        Raises NotFoundError, RefusedError with code `owner`, `one-default` or `not-given`.
        """
        with self._operations.locked(database):
            self._operations.settle(database)
            order = self._plan_grant(database, role, user, at_login=at_login)
            if order is not None:
                self._operations.run(GRANT_ROLE, order)
        return order is not None

    def _plan_revoke(self, database: str, role: str, user: str) -> RoleOrder | None:
        """None: the user has it not."""
        record = self._users.running(database)
        require_user_name(user, owner=record.user)
        self._users.require_known(database, user)
        roles = observe_roles(self._statements(record))
        found = require_role(role, roles, database=database)
        held = None if found is None else found.holder(user)
        if found is None or held is None:
            return None
        require_given(found)
        return RoleOrder(
            database=database, role=role, user=user, at_login=held.at_login, had_it=True
        )

    def revoke(self, database: str, role: str, user: str) -> bool:
        """Take a role from a user; False: it had it not.

        Raises NotFoundError, RefusedError with code `owner` or `not-given`.
        """
        with self._operations.locked(database):
            self._operations.settle(database)
            order = self._plan_revoke(database, role, user)
            if order is not None:
                self._operations.run(REVOKE_ROLE, order)
        return order is not None

    def _statements(self, record: DatabaseRecord) -> SecretStatements:
        return secret_statements(self._operations.ports, record.spec)


def _require_there(statements: SecretStatements, grants: Sequence[RoleGrant]) -> None:
    schemas, tables = parse_names(statements.run(render_names_sql(grants)))
    require_there(grants, schemas, tables)
