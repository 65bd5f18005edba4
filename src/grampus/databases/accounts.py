"""The accounts of a new instance, as the SQL that makes them before it can be reached."""

from __future__ import annotations

from grampus.databases.model import FlavourName

# Names cannot hold a dot (core.names), so no database's own user can ever be called this.
ADMIN_USER = "grampus.admin"
# It is two accounts: one for the server's socket, and one for its administrative port, whose
# sessions come from this address (`admin_client`).
SOCKET_HOST, PORT_HOST = "localhost", "127.0.0.1"
# Names that a flavour keeps for itself, in any case.
TAKEN_USER_NAMES = frozenset({"public", "current_role", "current_user", "event_scheduler"})

# What managed services give: everything inside schemas, and the users and replicas of the
# instance; not SUPER, SHUTDOWN, FILE or what configures the server.
OWNER_RIGHTS = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, RELOAD, PROCESS, REFERENCES, INDEX, ALTER, "
    "SHOW DATABASES, CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, REPLICATION SLAVE, "
    "REPLICATION CLIENT, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, CREATE USER, "
    "EVENT, TRIGGER"
)
# Taken back on the schema `mysql`: who writes there can give itself any right.
SYSTEM_SCHEMA_RIGHTS = (
    "INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, "
    "LOCK TABLES, EXECUTE, CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER"
)

_ADMINS = f"'{ADMIN_USER}'@'{SOCKET_HOST}', '{ADMIN_USER}'@'{PORT_HOST}'"
ADMIN_GRANT = f"GRANT ALL PRIVILEGES ON *.* TO {_ADMINS} WITH GRANT OPTION;"
# What users set for all accounts (`default_password_lifetime`, `max_user_connections`) holds for
# one that has no such values of its own. The highest number that both flavours take. A copy of a
# database of an earlier release has one of the accounts alone.
ADMIN_GUARD = (
    f"ALTER USER IF EXISTS {_ADMINS} WITH MAX_USER_CONNECTIONS 2147483647 PASSWORD EXPIRE NEVER;"
)


# Answers with 1 if the accounts are those that this release makes.
ACCOUNTS_SQL = (
    f"SELECT COUNT(*) FROM mysql.user WHERE User = '{ADMIN_USER}' AND Host = '{PORT_HOST}' "  # noqa: S608
    "AND Super_priv = 'Y'"
)


def decide_user_name(database: str) -> str:
    """The user made for whoever asked for `database`: its name, with `_` for each hyphen."""
    name = database.replace("-", "_")
    return f"{name}_user" if name in TAKEN_USER_NAMES else name


def owner_grants(flavour: FlavourName, user: str) -> list[str]:
    """The statements that give the database's own user its rights; they may be repeated."""
    if flavour == "mysql":
        return [
            f"GRANT {OWNER_RIGHTS}, CREATE ROLE, DROP ROLE ON *.* TO '{user}'@'%' "
            "WITH GRANT OPTION;",
            f"REVOKE {SYSTEM_SCHEMA_RIGHTS} ON mysql.* FROM '{user}'@'%';",
        ]
    return [
        f"GRANT {OWNER_RIGHTS}, SLAVE MONITOR, BINLOG MONITOR ON *.* TO '{user}'@'%' "
        "WITH GRANT OPTION;",
    ]


def render_account_upgrade_sql(flavour: FlavourName, *, admin_password: str) -> str:
    """What makes the accounts of an earlier release those of this one; it may be repeated.

    Somebody else may have made an account of that name, which must not get these rights. One
    statement a line, in no binary log; the password must need no quoting.
    """
    del flavour
    at_port = f"'{ADMIN_USER}'@'{PORT_HOST}'"
    statements = [
        "SET SESSION sql_log_bin = 0;",
        f"DROP USER IF EXISTS {at_port};",
        f"CREATE USER {at_port} IDENTIFIED BY '{admin_password}';",
        ADMIN_GUARD,
        ADMIN_GRANT,
    ]
    return "\n".join([*statements, ""])


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
