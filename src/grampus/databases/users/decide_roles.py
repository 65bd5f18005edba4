"""Roles of a database: their names, who has them, and the SQL that makes and gives them. All pure.

Both servers keep roles as accounts that nobody logs in with. MySQL's have a host, `%` unless
somebody made them otherwise, and a user can have several at login; MariaDB's have none, and one
role of a user is active at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pydantic import ConfigDict

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError, suggest
from grampus.core.models import Model
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_role_grants import (
    RoleGrant,
    quote,
    render_grants,
    render_revokes,
)
from grampus.databases.users.decide_users import (
    MAX_USER_NAME_LENGTH,
    RESERVED_USER_NAMES,
    ROLE_PREFIX,
    USER_ROLES,
    UserRole,
    render_preset,
)

_ROLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
# What `SET ROLE` takes for something else, and the roles that Grampus itself makes for users.
_RESERVED = RESERVED_USER_NAMES | {"all", "default", *USER_ROLES}

Account = tuple[str, str]  # name and host; MariaDB's roles have the host ''


class RoleHolder(Model):
    """A user, or another role, that has a role."""

    model_config = ConfigDict(frozen=True)

    name: str
    host: str
    at_login: bool  # active from login on; else once a client says SET ROLE


class DatabaseRole(Model):
    """A role that there is."""

    model_config = ConfigDict(frozen=True)

    name: str  # as one says it: `read` is `grampus.role.read` on the server
    server_name: str
    host: str
    rights: tuple[str, ...] = ()  # in the server's words, such as `SELECT ON sales.*`
    holders: tuple[RoleHolder, ...] = ()
    # MariaDB: whether its administrator may give it away. Who made a role in SQL may, and who
    # that one lets.
    may_be_given: bool = True

    @property
    def account(self) -> Account:
        return self.server_name, self.host

    def holder(self, user: str) -> RoleHolder | None:
        """That user, from anywhere, if it has the role."""
        found = [each for each in self.holders if (each.name, each.host) == (user, "%")]
        return found[0] if found else None


def require_role_name(name: str) -> str:
    """`name` if a new role may have it. Raises UsageError."""
    if _ROLE_NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a valid name of a role.",
            f"Use 1 to {MAX_USER_NAME_LENGTH} lower-case letters, digits and underscores, "
            "starting with a letter.",
            code="invalid-name",
        )
    if name in _RESERVED:
        raise UsageError(
            f"'{name}' is a reserved word and cannot name a role.",
            "Choose another name.",
            code="invalid-name",
        )
    return name


def find_role(name: str, roles: Sequence[DatabaseRole]) -> DatabaseRole | None:
    """The role that is called so; one of Grampus's own before one that was made in SQL."""
    found = [role for role in roles if role.name == name]
    return min(found, key=lambda role: not is_preset(role), default=None)


def is_preset(role: DatabaseRole) -> bool:
    """Whether Grampus makes it for users: `read`, `write` or `admin`."""
    return role.server_name.startswith(ROLE_PREFIX)


def as_preset(name: str) -> UserRole | None:
    """The role of Grampus's own that is called so."""
    return next((preset for preset in USER_ROLES if preset == name), None)


def preset_account(flavour: FlavourName, preset: UserRole) -> Account:
    return f"{ROLE_PREFIX}{preset}", "%" if flavour == "mysql" else ""


def find_account(flavour: FlavourName, name: str, roles: Sequence[DatabaseRole]) -> Account | None:
    """What the server calls that role; one of Grampus's own may not be there yet."""
    found = find_role(name, roles)
    if found is not None:
        return found.account
    preset = as_preset(name)
    return None if preset is None else preset_account(flavour, preset)


def require_plain(name: str) -> None:
    """Raise RefusedError for a role whose name needs quoting, or a host: it was made in SQL."""
    if _ROLE_NAME.fullmatch(name) is None:
        raise RefusedError(
            f"The role '{name}' was made in SQL, and its name is not available for new users.",
            "Create the user with another role, then grant this one: `grampus db role grant "
            "NAME ROLE --to USER`.",
            code="role-name",
        )


def require_role(name: str, roles: Sequence[DatabaseRole], *, database: str) -> DatabaseRole | None:
    """The role that is called so; None: one of Grampus's own that is made when it is needed.

    Raises NotFoundError, with code `unknown-role` and the closest one there is.
    """
    if as_preset(name) is not None and find_role(name, roles) is None:
        return None
    return require_made(name, roles, database=database)


def require_made(name: str, roles: Sequence[DatabaseRole], *, database: str) -> DatabaseRole:
    """The role that is called so. Raises NotFoundError, as `require_role` does."""
    found = find_role(name, roles)
    if found is not None:
        return found
    raise NotFoundError(
        f"The database {database} has no role named '{name}'.",
        suggest(
            name,
            [*USER_ROLES, *(role.name for role in roles)],
            f"`grampus db role list {database}` shows the roles.",
        ),
        code="unknown-role",
    )


def require_own(name: str) -> None:
    """Raise RefusedError for a role of Grampus's own, which stays."""
    if as_preset(name) is not None:
        raise RefusedError(
            f"The role '{name}' belongs to Grampus, and cannot be changed or removed.",
            f"`grampus db role revoke DATABASE {name} --from USER` revokes it from a user.",
            code="own-role",
        )


def require_one_default(
    flavour: FlavourName, roles: Sequence[DatabaseRole], name: str, user: str, *, database: str
) -> None:
    """Raise RefusedError when a MariaDB user has another role at login already."""
    others = [role.name for role in held_at_login(roles, user) if role.name != name]
    if flavour != "mariadb" or not others:
        return
    raise RefusedError(
        f"MariaDB activates only one role at login, and {user} has '{others[0]}'.",
        "Add --on-request, so that clients use SET ROLE. Or revoke the other role first: "
        f"`grampus db role revoke {database} {others[0]} --from {user}`.",
        code="one-default",
    )


def require_given(role: DatabaseRole) -> None:
    """Raise RefusedError for a role that MariaDB's administrator may not give away."""
    if not role.may_be_given:
        raise RefusedError(
            f"The role '{role.name}' was made in SQL, and MariaDB allows only its creator to "
            "grant it.",
            f"Grant it in SQL: `GRANT {role.name} TO USER; SET DEFAULT ROLE {role.name} FOR USER`.",
            code="not-given",
        )


def held_at_login(roles: Sequence[DatabaseRole], user: str) -> list[DatabaseRole]:
    """The roles that are active from that user's login on."""
    return [role for role in roles if (held := role.holder(user)) is not None and held.at_login]


def render_make_sql(flavour: FlavourName, name: str, grants: Iterable[RoleGrant]) -> str:
    """SQL that makes a role with its privileges; it may be repeated.

    It goes into the binary log, as users do: whoever recovers to a point in time gets both.
    """
    role = _quoted((name, "%" if flavour == "mysql" else ""))
    return _script(f"CREATE ROLE IF NOT EXISTS {role}", *render_grants(flavour, role, grants))


def render_more_sql(flavour: FlavourName, account: Account, grants: Iterable[RoleGrant]) -> str:
    """SQL that gives a role further privileges; it may be repeated."""
    return _script(*render_grants(flavour, _quoted(account), grants))


def render_less_sql(flavour: FlavourName, account: Account, grants: Iterable[RoleGrant]) -> str:
    """SQL that takes privileges from a role, which has them."""
    return _script(*render_revokes(flavour, _quoted(account), grants))


def render_given_sql(role: DatabaseRole) -> str:
    """SQL that answers with what a role was given, in backquotes whatever the server's mode."""
    return _script("SET SESSION sql_mode = ''", f"SHOW GRANTS FOR {_quoted(role.account)}")


def render_drop_sql(account: Account) -> str:
    """SQL that removes a role, whether it is there or not; nobody has it any more."""
    return _script(f"DROP ROLE IF EXISTS {_quoted(account)}")


def render_preset_sql(flavour: FlavourName, preset: UserRole) -> str:
    """SQL that makes a role of Grampus's own; it may be repeated."""
    return _script(*render_preset(flavour, preset))


def render_give_sql(account: Account, user: str) -> str:
    """SQL after which a user has a role; it may be repeated."""
    return _script(f"GRANT {_quoted(account)} TO {_quoted((user, '%'))}")


def render_take_sql(account: Account, user: str) -> str:
    """SQL after which a user has a role no more. It fails when the user has it not."""
    return _script(f"REVOKE {_quoted(account)} FROM {_quoted((user, '%'))}")


def render_login_sql(flavour: FlavourName, user: Account, roles: Sequence[Account]) -> str:
    """SQL after which these roles, which the user has, are active from its next login on."""
    shown = ", ".join(_quoted(role) for role in roles) or "NONE"
    preposition = "TO" if flavour == "mysql" else "FOR"
    return _script(f"SET DEFAULT ROLE {shown} {preposition} {_quoted(user)}")


def render_roles_sql(flavour: FlavourName) -> str:
    """SQL whose answer `parse_roles` reads: rows of roles, then rows of who has them.

    Names are hexadecimal: those of others may hold a tab or a line end.
    """
    if flavour == "mysql":
        return _script(
            "SELECT 'role', HEX(u.User), HEX(u.Host), 'Y' FROM mysql.user u "
            "WHERE u.User NOT LIKE 'mysql.%' "
            # A role is an account that nobody can log in with.
            "AND u.account_locked = 'Y' AND u.password_expired = 'Y' "
            "AND IFNULL(u.authentication_string, '') = '' ORDER BY u.User, u.Host",
            "SELECT 'held', HEX(e.FROM_USER), HEX(e.FROM_HOST), HEX(e.TO_USER), HEX(e.TO_HOST), "
            "IF(EXISTS (SELECT 1 FROM mysql.default_roles d WHERE d.USER = e.TO_USER "
            "AND d.HOST = e.TO_HOST AND d.DEFAULT_ROLE_USER = e.FROM_USER "
            "AND d.DEFAULT_ROLE_HOST = e.FROM_HOST), 'Y', 'N') FROM mysql.role_edges e "
            "ORDER BY e.TO_USER, e.TO_HOST, e.FROM_USER, e.FROM_HOST",
        )
    # Who makes a role has it there, and may give it: Grampus's own administrator has all that it
    # made.
    return _script(
        "SELECT 'role', HEX(u.User), '', IF(EXISTS (SELECT 1 FROM mysql.roles_mapping m "
        "WHERE m.Role = u.User AND m.User = 'grampus.admin' "
        "AND m.Host = 'localhost' AND m.Admin_option = 'Y'), 'Y', 'N') FROM mysql.user u "
        "WHERE u.is_role = 'Y' AND u.User <> 'PUBLIC' ORDER BY u.User",
        "SELECT 'held', HEX(m.Role), '', HEX(m.User), HEX(m.Host), "
        "IF(HEX(IFNULL(u.default_role, '')) = HEX(m.Role), 'Y', 'N') "
        "FROM mysql.roles_mapping m LEFT JOIN mysql.user u ON u.User = m.User "
        "AND u.Host = m.Host WHERE m.User NOT LIKE 'grampus.%' "
        "ORDER BY m.User, m.Host, m.Role",
    )


def parse_roles(rows: Sequence[tuple[str, ...]]) -> list[DatabaseRole]:
    """The roles in what `render_roles_sql` answered. Raises GrampusError on any other answer."""
    roles: dict[Account, DatabaseRole] = {}
    holders: dict[Account, list[RoleHolder]] = {}
    try:
        for row in rows:
            if row[0] == "role":
                name, host = _unhex(row[1]), _unhex(row[2])
                if name.startswith("grampus.") and not name.startswith(ROLE_PREFIX):
                    continue
                roles[name, host] = DatabaseRole(
                    name=_shown_name(name, host),
                    server_name=name,
                    host=host,
                    may_be_given=row[3] == "Y",
                )
            else:
                role, role_host, user, user_host = map(_unhex, row[1:5])
                holders.setdefault((role, role_host), []).append(
                    RoleHolder(name=user, host=user_host, at_login=row[5] == "Y")
                )
    except (IndexError, ValueError) as error:
        raise GrampusError(
            "The server's answer about its roles is not valid.",
            "Check the roles in SQL: `grampus db connect NAME`.",
        ) from error
    return [
        role.model_copy(update={"holders": tuple(holders.get(account, ()))})
        for account, role in roles.items()
    ]


def render_rights_sql(roles: Sequence[DatabaseRole]) -> str:
    """SQL whose answer `parse_rights` reads; asked only where there are roles."""
    return _script(
        *(
            statement
            for number, role in enumerate(roles)
            for statement in (
                f"SELECT 'rights of', {number}",
                f"SHOW GRANTS FOR {_quoted(role.account)}",
            )
        )
    )


def parse_rights(
    roles: Sequence[DatabaseRole], rows: Sequence[tuple[str, ...]]
) -> list[DatabaseRole]:
    """The roles with what they may do, of what `render_rights_sql` answered."""
    rights: dict[int, list[str]] = {}
    number = -1
    for row in rows:
        if len(row) == 2:
            number = int(row[1])
        elif shown := _show_right(row[0]):
            rights.setdefault(number, []).append(shown)
    return [
        role.model_copy(update={"rights": tuple(rights.get(number, ()))})
        for number, role in enumerate(roles)
    ]


_GRANTED = re.compile(r"GRANT (?P<what>.+?) TO (?P<rest>.+)")
_KEPT_OUT = re.compile(r"REVOKE (?P<what>.+) FROM .+")


def _show_right(statement: str) -> str:
    """A line of SHOW GRANTS in fewer words; empty: it gives nothing."""
    plain = statement.replace("\\", "").replace("`", "")
    granted, kept_out = _GRANTED.fullmatch(plain), _KEPT_OUT.fullmatch(plain)
    if granted is None:
        return f"not {kept_out['what']}" if kept_out else ""
    what = granted["what"]
    if " ON " not in what:
        return f"the role {what.partition('@')[0]}"
    return "" if what.startswith("USAGE ON ") else what


def _shown_name(name: str, host: str) -> str:
    if name.startswith(ROLE_PREFIX):
        return name.removeprefix(ROLE_PREFIX)
    return name if host in ("", "%") else f"{name}@{host}"


def _quoted(account: Account) -> str:
    name, host = account
    return f"{quote(name)}@{quote(host)}" if host else quote(name)


def _unhex(text: str) -> str:
    return bytes.fromhex(text).decode()


def _script(*statements: str) -> str:
    return "".join(f"{statement};\n" for statement in statements)
