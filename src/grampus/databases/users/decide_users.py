"""Users of a database for its clients: names, roles and the SQL that makes them. All pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

from pydantic import ConfigDict

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.core.models import Model
from grampus.databases.accounts import (
    TAKEN_USER_NAMES,
    render_kill_grant_if_there,
    render_owner_rights,
)
from grampus.databases.model import FlavourName

UserRole = Literal["read", "write", "admin"]
USER_ROLES: tuple[UserRole, ...] = get_args(UserRole)
# A name with a dot: no user of a database can be called so (`require_user_name`).
ROLE_PREFIX = "grampus.role."
MAX_USER_NAME_LENGTH = 32  # MySQL's own limit; MariaDB allows 128
_USER_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
RESERVED_USER_NAMES = TAKEN_USER_NAMES | {
    *("root", "mysql", "mariadb", "sys", "admin", "grampus", "none")
}

_READ = "SELECT, SHOW VIEW"
_WRITE = f"{_READ}, INSERT, UPDATE, DELETE, EXECUTE, CREATE TEMPORARY TABLES, LOCK TABLES"
_RIGHTS: dict[UserRole, str] = {"read": _READ, "write": _WRITE}
_WHAT: dict[UserRole, str] = {
    "read": "reads every schema",
    "write": "reads and changes rows of every schema",
    "admin": "has the privileges of the owner of the database",
}


class DatabaseUser(Model):
    """An account that a client can log in with."""

    model_config = ConfigDict(frozen=True)

    name: str
    host: str  # from where it may log in; % is anywhere
    # `owner`: made with the database. `other`: with a role of one's own, or with rights that
    # somebody gave it in SQL.
    role: Literal["owner", "read", "write", "admin", "other"]
    roles: tuple[str, ...] = ()  # all that it has, by the names that `db role list` shows
    locked: bool
    tls_required: bool  # by the account; the server requires it of everybody
    password_changed_at: datetime | None
    former_password_works: bool


def require_user_name(name: str, *, owner: str) -> str:
    """`name` if a user of a database may have it. Raises UsageError, RefusedError.

    Narrower than what the servers allow: it needs no quoting in SQL, an option file or a URL.
    """
    if _USER_NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a valid user name.",
            f"Use 1 to {MAX_USER_NAME_LENGTH} lower-case letters, digits and underscores, "
            "starting with a letter.",
            code="invalid-name",
        )
    if name in RESERVED_USER_NAMES:
        raise UsageError(
            f"'{name}' is a reserved word and cannot name a user.",
            "Choose another name.",
            code="invalid-name",
        )
    if name == owner:
        raise RefusedError(
            f"'{name}' is the database's own user.",
            "`grampus db rotate NAME` sets a new password for this user. For a new user, "
            "choose another name.",
            code="owner",
        )
    return name


def describe_role(role: str) -> str:
    """What a user with that role does, as the end of a sentence."""
    return next((what for known, what in _WHAT.items() if known == role), f"has the role {role}")


def render_preset(flavour: FlavourName, role: UserRole) -> list[str]:
    """Statements that make one of the roles of Grampus's own; they may be repeated."""
    name = _preset_name(flavour, role)
    made = f"CREATE ROLE IF NOT EXISTS {name}"
    if role == "admin":
        rights = [*render_owner_rights(flavour, name), *render_kill_grant_if_there(name)]
        return [made, *(statement.removesuffix(";") for statement in rights)]
    granted = f"GRANT {_RIGHTS[role]} ON *.* TO {name}"
    # Partial revokes: the hashes of all passwords are in that schema.
    kept_out = [f"REVOKE {_RIGHTS[role]} ON mysql.* FROM {name}"] if flavour == "mysql" else []
    return [made, granted, *kept_out]


def render_add_sql(flavour: FlavourName, user: str, role: str, password: str) -> str:
    """SQL that makes the user with its role; the password must need no quoting.

    A role of Grampus's own is made too; another one is there, by a name that needs no quoting.
    May be repeated. It goes into the binary log, unlike the accounts that Grampus itself works
    with: whoever recovers to a point in time gets the users of that time.
    """
    account = _account(user)
    preset = next((each for each in USER_ROLES if each == role), None)
    made = [] if preset is None else render_preset(flavour, preset)
    if flavour == "mysql":
        name = f"'{role}'@'%'" if preset is None else _preset_name(flavour, preset)
        return _script(
            *made,
            # One statement, so the account is never there without its role or its TLS.
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}' "
            f"DEFAULT ROLE {name} REQUIRE SSL",
            # One that an attempt before this one made has that attempt's password.
            f"ALTER USER {account} IDENTIFIED BY '{password}'",
        )
    name = f"`{role}`" if preset is None else _preset_name(flavour, preset)
    return _script(
        *made,
        f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}' REQUIRE SSL",
        f"ALTER USER {account} IDENTIFIED BY '{password}' REQUIRE SSL",
        f"GRANT {name} TO {account}",
        f"SET DEFAULT ROLE {name} FOR {account}",
    )


def render_drop_sql(user: str) -> str:
    """SQL that removes a user, whether it is there or not; its open sessions go on."""
    return _script(f"DROP USER IF EXISTS {_account(user)}")


def render_sessions_sql(user: str) -> str:
    """SQL that answers with the id of each session of `user`."""
    # `require_user_name` lets nothing through that ends the quotes.
    select = f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{user}'"  # noqa: S608
    return _script(select)


def render_kill_sql(sessions: Sequence[str]) -> str:
    """SQL that ends the sessions with these ids."""
    return _script(*(f"KILL {int(session)}" for session in sessions))


def render_password_sql(
    flavour: FlavourName, user: str, password: str, *, keeps_former: bool, former: str | None
) -> str:
    """SQL that gives a user a new password; when it `keeps_former`, that one works as well.

    MySQL keeps whatever password the account has. MariaDB has no such thing: it takes either of
    two passwords that it is told, so there `former` must be known (`require_former_known`).
    """
    account = _account(user)
    if not keeps_former:
        return _script(f"ALTER USER {account} IDENTIFIED BY '{password}'")
    if flavour == "mysql":
        return _script(f"ALTER USER {account} IDENTIFIED BY '{password}' RETAIN CURRENT PASSWORD")
    return _script(f"ALTER USER {account} {render_either_password(password, former or password)}")


def require_former_known(flavour: FlavourName, user: str, former: object | None) -> None:
    """Raise RefusedError when a MariaDB user's password is needed, and is not on file."""
    if flavour == "mariadb" and former is None:
        raise RefusedError(
            f"Grampus did not set the password of {user}, and MariaDB cannot keep the former one.",
            f"Set a new password without --keep-old: `grampus db user passwd DATABASE {user}`.",
            code="former-unknown",
        )


def render_discard_sql(flavour: FlavourName, user: str, password: str | None) -> str:
    """SQL after which only the newest password works; MariaDB must be told it, `password`."""
    if flavour == "mysql":
        return _script(f"ALTER USER {_account(user)} DISCARD OLD PASSWORD")
    return _script(f"ALTER USER {_account(user)} IDENTIFIED BY '{password}'")


def render_either_password(password: str, former: str) -> str:
    """MariaDB's clause for an account that takes either of two passwords."""
    method = "mysql_native_password USING PASSWORD"
    return f"IDENTIFIED VIA {method}('{password}') OR {method}('{former}')"


def render_users_sql(flavour: FlavourName) -> str:
    """SQL that answers with one row an account, for `parse_users`; roles are left out."""
    if flavour == "mysql":
        return _script(
            "SET SESSION time_zone = '+00:00'",
            "SELECT u.User, u.Host, u.account_locked, u.ssl_type, IFNULL((SELECT "
            "GROUP_CONCAT(e.FROM_USER ORDER BY e.FROM_USER) FROM mysql.role_edges e "
            "WHERE e.TO_USER = u.User AND e.TO_HOST = u.Host), ''), "
            "IFNULL(u.password_last_changed, ''), "
            "IF(u.User_attributes->'$.additional_password' IS NULL, 'N', 'Y') "
            "FROM mysql.user u WHERE u.User NOT LIKE 'grampus.%' AND u.User NOT LIKE 'mysql.%' "
            "AND u.User <> 'root' "
            # A role is an account that nobody can log in with.
            "AND NOT (u.account_locked = 'Y' AND u.password_expired = 'Y' AND "
            "u.authentication_string = '') ORDER BY u.User, u.Host",
        )
    return _script(
        "SET SESSION time_zone = '+00:00'",
        "SELECT u.User, u.Host, IF(JSON_VALUE(p.Priv, '$.account_locked') IN ('1', 'true'), "
        "'Y', 'N'), u.ssl_type, IFNULL((SELECT GROUP_CONCAT(m.Role ORDER BY m.Role) "
        "FROM mysql.roles_mapping m "
        "WHERE m.User = u.User AND m.Host = u.Host), ''), "
        "IFNULL(FROM_UNIXTIME(NULLIF(JSON_VALUE(p.Priv, '$.password_last_changed'), 0)), ''), "
        "IF(JSON_EXISTS(p.Priv, '$.auth_or[1]'), 'Y', 'N') "
        "FROM mysql.user u JOIN mysql.global_priv p ON p.User = u.User AND p.Host = u.Host "
        "WHERE u.User NOT LIKE 'grampus.%' AND u.User NOT IN ('root', 'mariadb.sys') "
        "AND u.is_role = 'N' ORDER BY u.User, u.Host",
    )


def parse_users(rows: Sequence[tuple[str, ...]], *, owner: str) -> list[DatabaseUser]:
    """The users in what `render_users_sql` answered. Raises GrampusError on any other answer."""
    users: list[DatabaseUser] = []
    for row in rows:
        if len(row) != 7:
            raise GrampusError(
                "The server's answer about its users is not valid.",
                "Check the users in SQL: `grampus db connect NAME`.",
            )
        name, host, locked, tls, roles, changed_at, former = row
        users.append(
            DatabaseUser(
                name=name,
                host=host,
                role=_classify_role(name, host, roles.split(","), owner),
                roles=tuple(r.removeprefix(ROLE_PREFIX) for r in roles.split(",") if r),
                locked=locked == "Y",
                tls_required=tls != "",
                password_changed_at=_parse_time(changed_at),
                former_password_works=former == "Y",
            )
        )
    return users


def _classify_role(
    name: str, host: str, roles: Sequence[str], owner: str
) -> Literal["owner", "read", "write", "admin", "other"]:
    if (name, host) == (owner, "%"):
        return "owner"
    for role in reversed(USER_ROLES):  # the one that may do most
        if f"{ROLE_PREFIX}{role}" in roles:
            return role
    return "other"


def _parse_time(text: str) -> datetime | None:
    # Both servers: 2026-11-22 00:57:47, MariaDB's with a fraction.
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def _preset_name(flavour: FlavourName, role: UserRole) -> str:
    return f"'{ROLE_PREFIX}{role}'@'%'" if flavour == "mysql" else f"`{ROLE_PREFIX}{role}`"


def _account(user: str) -> str:
    return f"'{user}'@'%'"


def _script(*statements: str) -> str:
    return "".join(f"{statement};\n" for statement in statements)
