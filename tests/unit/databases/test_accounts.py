from __future__ import annotations

import re
from pathlib import Path

import pytest

from grampus.databases.accounts import ADMIN_USER, decide_user_name, render_accounts_sql
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_users import render_preset


@pytest.mark.parametrize(
    ("database", "user"),
    [("demo", "demo"), ("my-shop-1", "my_shop_1"), ("public", "public_user")],
)
def test_the_user_is_called_as_the_database(database: str, user: str) -> None:
    assert decide_user_name(database) == user


def _sql(flavour: FlavourName) -> str:
    return render_accounts_sql(
        flavour, user="demo", password="pw-u", admin_password="pw-a", root_password="pw-r"
    )


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_no_account_is_left_without_a_password(flavour: FlavourName) -> None:
    sql = _sql(flavour)
    for made in re.findall(r"CREATE USER .*", sql):
        assert re.search(r"IDENTIFIED BY 'pw-[ua]';$", made)
    assert "ALTER USER 'root'@'localhost' IDENTIFIED BY 'pw-r' ACCOUNT LOCK;" in sql
    assert f"CREATE USER '{ADMIN_USER}'@'localhost'" in sql
    assert f"'{ADMIN_USER}'@'%'" not in sql


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("right", ["SUPER", "FILE", "SHUTDOWN", "ALL PRIVILEGES", "SYSTEM_"])
def test_the_user_does_not_own_the_server(flavour: FlavourName, right: str) -> None:
    grants = [line for line in _sql(flavour).splitlines() if "TO 'demo'@'%'" in line]
    assert grants
    assert not [line for line in grants if right in line]


def test_a_mysql_user_cannot_write_where_users_are_kept() -> None:
    assert re.search(r"REVOKE SELECT, INSERT, UPDATE, .* ON mysql\.\* FROM 'demo'", _sql("mysql"))
    assert "REVOKE" not in _sql("mariadb")


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_one_statement_a_line_as_init_file_wants_it(flavour: FlavourName) -> None:
    lines = _sql(flavour).splitlines()
    assert all(line.endswith(";") and line.count(";") == 1 for line in lines)


# What managed services give their master user, and what would give the server away. SECURITY.md has
# the same lists.
GIVEN: dict[FlavourName, tuple[str, ...]] = {
    "mysql": (
        *("CREATE USER", "CREATE ROLE", "DROP ROLE", "ROLE_ADMIN", "PROCESS", "SHOW_ROUTINE"),
        *("REPLICATION SLAVE", "REPLICATION CLIENT", "XA_RECOVER_ADMIN", "SET_ANY_DEFINER"),
        *("ALLOW_NONEXISTENT_DEFINER", "FLUSH_TABLES", "FLUSH_STATUS", "FLUSH_USER_RESOURCES"),
        *("FLUSH_OPTIMIZER_COSTS", "FLUSH_PRIVILEGES"),
    ),
    "mariadb": (
        *("CREATE USER", "PROCESS", "REPLICATION SLAVE", "REPLICATION CLIENT", "RELOAD"),
        *("SLAVE MONITOR", "BINLOG MONITOR", "SET USER"),
    ),
}
KEPT: dict[FlavourName, tuple[str, ...]] = {
    "mysql": (
        *("RELOAD", "SUPER", "FILE", "SHUTDOWN", "CREATE TABLESPACE", "CONNECTION_ADMIN"),
        *("SYSTEM_USER", "SYSTEM_VARIABLES_ADMIN", "SESSION_VARIABLES_ADMIN", "BINLOG_ADMIN"),
        *("REPLICATION_APPLIER", "REPLICATION_SLAVE_ADMIN", "SERVICE_CONNECTION_ADMIN"),
        *("CLONE_ADMIN", "BACKUP_ADMIN", "PERSIST_RO_VARIABLES_ADMIN", "ENCRYPTION_KEY_ADMIN"),
        *("INNODB_REDO_LOG_ENABLE", "SENSITIVE_VARIABLES_OBSERVER"),
    ),
    "mariadb": (
        *("SUPER", "FILE", "SHUTDOWN", "CONNECTION ADMIN", "BINLOG ADMIN", "READ_ONLY ADMIN"),
        *("REPLICATION SLAVE ADMIN", "REPLICATION MASTER ADMIN", "BINLOG REPLAY"),
        *("FEDERATED ADMIN", "CREATE TABLESPACE"),
    ),
}


def _rights(flavour: FlavourName, account: str) -> set[str]:
    """The global rights that the account gets, each with the right to give it away."""
    granted = re.findall(
        rf"GRANT ([^;\n]*) ON \*\.\* TO {re.escape(account)} WITH GRANT OPTION",
        "\n".join([_sql(flavour), *render_preset(flavour, "admin")]),
    )
    return {right for rights in granted for right in rights.split(", ")}


@pytest.mark.parametrize(
    ("flavour", "right", "is_given"),
    [
        *((flavour, right, True) for flavour, rights in GIVEN.items() for right in rights),
        *((flavour, right, False) for flavour, rights in KEPT.items() for right in rights),
    ],
)
def test_the_owner_has_what_a_master_user_has(
    flavour: FlavourName, right: str, is_given: bool
) -> None:
    role = "'grampus.role.admin'@'%'" if flavour == "mysql" else "`grampus.role.admin`"
    assert (right in _rights(flavour, "'demo'@'%'")) == is_given
    assert (right in _rights(flavour, role)) == is_given, "its users have the same"
    said = (Path(__file__).parents[3] / "SECURITY.md").read_text()
    assert f"`{right}`" in said


def test_nobody_reads_accounts_in_mysql_but_their_administrator() -> None:
    sql = _sql("mysql").splitlines()
    revoked = next(n for n, line in enumerate(sql) if line.startswith("REVOKE SELECT"))
    readable = [line.split()[3] for line in sql if line.startswith("GRANT SELECT ON mysql.")]
    assert len(readable) == 5
    secret = ("user", "db", "global_grants", "password_history", "slave_master_info", "*")
    assert not {f"mysql.{table}" for table in secret} & set(readable)
    assert all(sql.index(line) > revoked for line in sql if line.startswith("GRANT SELECT ON m"))


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_sessions_are_ended_by_a_routine_that_spares_those_of_grampus(flavour: FlavourName) -> None:
    made = [line for line in _sql(flavour).splitlines() if line.startswith("CREATE DEFINER")]
    kill, checked = made
    assert "PROCEDURE IF NOT EXISTS mysql.grampus_kill(" in kill
    assert "USER NOT LIKE 'grampus.%'" in kill
    assert all("SQL SECURITY DEFINER" in line for line in made)
    assert checked.endswith("KILL session_id;")
    granted = [line for line in _sql(flavour).splitlines() if line.startswith("GRANT EXECUTE ON")]
    assert granted == [
        "GRANT EXECUTE ON PROCEDURE mysql.grampus_kill TO 'demo'@'%' WITH GRANT OPTION;"
    ]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_role_is_made_also_on_a_server_without_that_routine(flavour: FlavourName) -> None:
    """A server that an earlier release started last has none before its next start."""
    role = render_preset(flavour, "admin")
    assert not [line for line in role if line.startswith("GRANT EXECUTE ON PROCEDURE")]
    asked = next(line for line in role if "FROM information_schema.ROUTINES" in line)
    assert "IF(COUNT(*) > 0, 'GRANT EXECUTE ON PROCEDURE mysql.grampus_kill TO " in asked
    assert all(line.count(";") == 0 for line in role)
