"""The accounts of a new instance, as the SQL that makes them before it can be reached."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grampus.databases.model import FlavourName

# Names cannot hold a dot (core.names), so no database's own user can ever be called this.
ADMIN_USER = "grampus.admin"
# It is two accounts: one for the server's socket, and one for its administrative port, whose
# sessions come from this address (`admin_client`).
SOCKET_HOST, PORT_HOST = "localhost", "127.0.0.1"
# Names that a flavour keeps for itself, in any case.
TAKEN_USER_NAMES = frozenset({"public", "current_role", "current_user", "event_scheduler"})

_COMMON_RIGHTS = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, PROCESS, REFERENCES, INDEX, ALTER, "
    "SHOW DATABASES, CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, REPLICATION SLAVE, "
    "REPLICATION CLIENT, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, CREATE USER, "
    "EVENT, TRIGGER"
)
# What managed services give: everything inside schemas, and the users and replicas of the
# instance; not SUPER, SHUTDOWN, FILE or what configures the server. In MySQL the narrow FLUSH_...
# instead of RELOAD, with which binary logs can be reset; MariaDB has no others. Not
# CONNECTION_ADMIN: it lets in past `offline_mode` and `max_connections`, writes past `read_only`,
# and passes over `init_connect` (see KILL_ROUTINES). SECURITY.md lists them all.
OWNER_RIGHTS: Mapping[FlavourName, str] = {
    "mysql": f"{_COMMON_RIGHTS}, CREATE ROLE, DROP ROLE, ROLE_ADMIN, SHOW_ROUTINE, "
    "SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER, XA_RECOVER_ADMIN, FLUSH_TABLES, FLUSH_STATUS, "
    "FLUSH_USER_RESOURCES, FLUSH_OPTIMIZER_COSTS",
    "mariadb": f"{_COMMON_RIGHTS}, RELOAD, SLAVE MONITOR, BINLOG MONITOR, SET USER",
}
# Newer than MySQL 8.4, where a statement with it fails.
_NEWER_RIGHTS = "FLUSH_PRIVILEGES"
# Taken back on the schema `mysql`: who writes there can give itself any right, and who reads there
# sees the password hashes of all accounts, and the password that a replica follows with.
SYSTEM_SCHEMA_RIGHTS = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, "
    "CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE, "
    "EVENT, TRIGGER"
)
# Tables there that tools read, and that hold nothing of accounts.
READABLE_SYSTEM_TABLES = (
    "general_log",
    "slow_log",
    "time_zone_name",
    "innodb_index_stats",
    "innodb_table_stats",
)

_ADMINS = f"'{ADMIN_USER}'@'{SOCKET_HOST}', '{ADMIN_USER}'@'{PORT_HOST}'"
ADMIN_GRANT = f"GRANT ALL PRIVILEGES ON *.* TO {_ADMINS} WITH GRANT OPTION;"
# What users set for all accounts (`default_password_lifetime`, `max_user_connections`) holds for
# one that has no such values of its own. The highest number that both flavours take. A copy of a
# database of an earlier release has one of the accounts alone.
ADMIN_GUARD = (
    f"ALTER USER IF EXISTS {_ADMINS} WITH MAX_USER_CONNECTIONS 2147483647 PASSWORD EXPIRE NEVER;"
)


# KILL of another account's session needs CONNECTION_ADMIN, which the owner must not have. So these
# end a session for it, but none of Grampus's or of the server's own. Each is one statement without
# a semicolon inside, because an init file cannot hold any other; MySQL's KILL takes no subquery.
_KILL, _KILL_CHECKED = "grampus_kill", "grampus_kill_checked"
_DEFINED = f"CREATE DEFINER = '{ADMIN_USER}'@'{SOCKET_HOST}' PROCEDURE IF NOT EXISTS mysql."
_OTHERS = "'root', 'mysql.session', 'system user', 'event_scheduler', 'unauthenticated user'"
_KILL_ROUTINE = (
    f"{_DEFINED}{_KILL}(IN session_id BIGINT UNSIGNED) SQL SECURITY DEFINER "  # noqa: S608
    "COMMENT 'Ends a session of an application.' "
    f"CALL mysql.{_KILL_CHECKED}((SELECT ID FROM information_schema.PROCESSLIST "
    f"WHERE ID = session_id AND USER NOT LIKE 'grampus.%' AND USER NOT IN ({_OTHERS})));"
)
# Made last: its comment says that the accounts are those that this release makes.
_ACCOUNTS_VERSION = "Accounts of Grampus, version 2."
_KILL_CHECKED_ROUTINE = (
    f"{_DEFINED}{_KILL_CHECKED}(IN session_id BIGINT UNSIGNED) SQL SECURITY DEFINER "
    f"COMMENT '{_ACCOUNTS_VERSION}' KILL session_id;"
)
KILL_ROUTINES = (_KILL_ROUTINE, _KILL_CHECKED_ROUTINE)
# Answers with 1 if the accounts are those that this release makes.
ACCOUNTS_SQL = (
    "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'mysql' "  # noqa: S608
    f"AND ROUTINE_NAME = '{_KILL_CHECKED}' AND ROUTINE_COMMENT = '{_ACCOUNTS_VERSION}'"
)
# A role of Grampus's own that has the owner's rights (`users.decide_users`).
ADMIN_ROLE = "grampus.role.admin"
REPLICA_PREFIX = "grampus.replica."
_REPLICA_ACCOUNT = re.compile(rf"{re.escape(REPLICA_PREFIX)}\d+")


def decide_user_name(database: str) -> str:
    """The user made for whoever asked for `database`: its name, with `_` for each hyphen."""
    name = database.replace("-", "_")
    return f"{name}_user" if name in TAKEN_USER_NAMES else name


def owner_grants(flavour: FlavourName, user: str) -> list[str]:
    """The statements that give the database's own user its rights; they may be repeated."""
    account = f"'{user}'@'%'"
    return [*render_owner_rights(flavour, account), _render_kill_grant(account)]


def render_owner_rights(flavour: FlavourName, account: str) -> list[str]:
    """The owner's rights for an account or role, but for the one to end sessions."""
    granted = f"GRANT {OWNER_RIGHTS[flavour]} ON *.* TO {account} WITH GRANT OPTION;"
    if flavour == "mariadb":
        return [granted]
    return [
        granted,
        f"GRANT {_NEWER_RIGHTS} ON *.* TO {account} WITH GRANT OPTION;",
        f"REVOKE {SYSTEM_SCHEMA_RIGHTS} ON mysql.* FROM {account};",
        *(
            f"GRANT SELECT ON mysql.{table} TO {account} WITH GRANT OPTION;"
            for table in READABLE_SYSTEM_TABLES
        ),
    ]


def render_kill_grant_if_there(account: str) -> list[str]:
    """The right to end sessions, on a server that an earlier release may have started last."""
    grant = _render_kill_grant(account).rstrip(";").replace("'", "''")
    there = f"ROUTINE_SCHEMA = 'mysql' AND ROUTINE_NAME = '{_KILL}'"
    return [
        f"SET @grampus_grant = (SELECT IF(COUNT(*) > 0, '{grant}', 'DO 0') "  # noqa: S608
        f"FROM information_schema.ROUTINES WHERE {there});",
        "PREPARE grampus_grant FROM @grampus_grant;",
        "EXECUTE grampus_grant;",
        "DEALLOCATE PREPARE grampus_grant;",
    ]


def _render_kill_grant(account: str) -> str:
    return f"GRANT EXECUTE ON PROCEDURE mysql.{_KILL} TO {account} WITH GRANT OPTION;"


def render_upgraded_accounts_sql(user: str) -> str:
    """Answers with name and host of each account that `render_account_upgrade_sql` changes."""
    return (
        "SELECT User, Host FROM mysql.user "  # noqa: S608
        f"WHERE (User = '{user}' AND Host = '%') OR User = '{ADMIN_ROLE}' "
        f"OR User LIKE '{REPLICA_PREFIX}%'"
    )


def render_account_upgrade_sql(
    flavour: FlavourName, *, admin_password: str, found: Sequence[tuple[str, ...]]
) -> str:
    """What makes the accounts of an earlier release those of this one; it may be repeated.

    `found` is what `render_upgraded_accounts_sql` answered. Somebody else may have made an account
    of the administrator's name, which must not get its rights. One statement a line, in no binary
    log; the password must need no quoting.
    """
    at_port = f"'{ADMIN_USER}'@'{PORT_HOST}'"
    replicas = [f"'{user}'@'%'" for user, host in found if is_replica_account(user, host)]
    owners = [
        f"'{user}'@'%'" if host else f"`{user}`"
        for user, host in found
        if not user.startswith(REPLICA_PREFIX) and host in ("%", "")
    ]
    is_mysql = flavour == "mysql"
    statements = [
        "SET SESSION sql_log_bin = 0;",
        f"DROP PROCEDURE IF EXISTS mysql.{_KILL_CHECKED};",
        f"DROP PROCEDURE IF EXISTS mysql.{_KILL};",
        f"DROP USER IF EXISTS {at_port};",
        f"CREATE USER {at_port} IDENTIFIED BY '{admin_password}';",
        ADMIN_GUARD,
        ADMIN_GRANT,
        _KILL_ROUTINE,
        *(statement for account in owners for statement in _renewed(flavour, account)),
        *([f"{render_protection(', '.join(replicas))};"] if is_mysql and replicas else []),
        _KILL_CHECKED_ROUTINE,
    ]
    return "\n".join([*statements, ""])


def _renewed(flavour: FlavourName, account: str) -> list[str]:
    former = [f"REVOKE RELOAD ON *.* FROM {account};"] if flavour == "mysql" else []
    return [*former, *render_owner_rights(flavour, account), _render_kill_grant(account)]


def is_replica_account(user: str, host: str = "%") -> bool:
    """Whether Grampus made it for a replica: users can make accounts whose names begin so."""
    return host == "%" and _REPLICA_ACCOUNT.fullmatch(user) is not None


def render_protection(accounts: str) -> str:
    """MySQL: nobody without that privilege changes these accounts, takes them as roles, or defines
    anything in their name."""
    return f"GRANT SYSTEM_USER ON *.* TO {accounts}"


def render_golden_accounts_sql(flavour: FlavourName, *, root_password: str) -> str:
    """As `render_accounts_sql`, for a data directory that is copied and never served itself.

    It has no account but a locked root, whose password nobody keeps, and the server's own.
    """
    statements = [
        "SET SESSION sql_log_bin = 0;",
        *(["FLUSH PRIVILEGES;"] if flavour == "mariadb" else []),
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{root_password}' ACCOUNT LOCK;",
        *(["DROP USER IF EXISTS 'mysql'@'localhost';"] if flavour == "mariadb" else []),
    ]
    return "\n".join([*statements, ""])


def render_accounts_sql(
    flavour: FlavourName,
    *,
    user: str,
    password: str,
    admin_password: str,
    root_password: str,
) -> str:
    """One statement a line; the passwords must need no quoting (see `credentials`).

    The admin can log in on the server's host alone, for health checks and maintenance. root is
    locked: nothing of Grampus uses it. A MySQL user is kept out of the schema `mysql` by partial
    revokes; MariaDB has none, so there the user can make itself an administrator of its instance,
    as on managed MariaDB services.
    """
    common = [
        f"CREATE USER '{ADMIN_USER}'@'{SOCKET_HOST}' IDENTIFIED BY '{admin_password}';",
        f"CREATE USER '{ADMIN_USER}'@'{PORT_HOST}' IDENTIFIED BY '{admin_password}';",
        ADMIN_GUARD,
        ADMIN_GRANT,
        *KILL_ROUTINES,
        f"CREATE USER '{user}'@'%' IDENTIFIED BY '{password}';",
    ]
    if flavour == "mysql":
        statements = [
            # Else these would be transactions of the instance's own GTID set.
            "SET SESSION sql_log_bin = 0;",
            f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{root_password}' ACCOUNT LOCK;",
            *common,
            *owner_grants(flavour, user),
        ]
    else:
        statements = [
            "SET SESSION sql_log_bin = 0;",
            "FLUSH PRIVILEGES;",  # a bootstrapping server knows no accounts before
            f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{root_password}' ACCOUNT LOCK;",
            "DROP USER IF EXISTS 'mysql'@'localhost';",
            *common,
            *owner_grants(flavour, user),
        ]
    return "\n".join([*statements, ""])
