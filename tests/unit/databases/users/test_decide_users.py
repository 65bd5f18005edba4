from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_users import (
    USER_ROLES,
    UserRole,
    parse_users,
    render_add_sql,
    render_discard_sql,
    render_kill_sql,
    render_password_sql,
    require_former_known,
    require_user_name,
)


@pytest.mark.parametrize("name", ["a", "app", "app_2", "a" * 32])
def test_names_that_need_no_quoting_are_taken(name: str) -> None:
    assert require_user_name(name, owner="shop") == name


@pytest.mark.parametrize(
    "name",
    ["", "App", "2app", "app-2", "app.x", "a'b", "a b", "a" * 33, "grampus.admin", "ä", "app\n"],
)
def test_other_names_are_wrong_use(name: str) -> None:
    with pytest.raises(UsageError) as error:
        require_user_name(name, owner="shop")
    assert error.value.code == "invalid-name"


@pytest.mark.parametrize("name", ["root", "mysql", "public", "current_user", "admin", "grampus"])
def test_names_that_mean_something_to_a_server_are_wrong_use(name: str) -> None:
    with pytest.raises(UsageError, match="reserved"):
        require_user_name(name, owner="shop")


def test_the_databases_own_user_is_refused() -> None:
    with pytest.raises(RefusedError) as error:
        require_user_name("shop", owner="shop")
    assert error.value.code == "owner"


@pytest.mark.parametrize("role", USER_ROLES)
@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_user_is_made_with_role_and_tls_and_may_be_made_again(
    flavour: FlavourName, role: UserRole
) -> None:
    sql = render_add_sql(flavour, "app", role, "pw")
    assert "CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED BY 'pw'" in sql
    assert "REQUIRE SSL" in sql
    assert "CREATE ROLE IF NOT EXISTS" in sql
    assert f"grampus.role.{role}" in sql
    assert "sql_log_bin" not in sql  # a recovery to a point in time brings the user back


@pytest.mark.parametrize(
    ("flavour", "expected"),
    [
        ("mysql", "DEFAULT ROLE 'desk'@'%' REQUIRE SSL;"),
        ("mariadb", "GRANT `desk` TO 'app'@'%';\nSET DEFAULT ROLE `desk` FOR 'app'@'%';"),
    ],
)
def test_a_user_with_a_role_that_is_there_makes_none(flavour: FlavourName, expected: str) -> None:
    sql = render_add_sql(flavour, "app", "desk", "pw")
    assert expected in sql
    assert "CREATE ROLE" not in sql


@pytest.mark.parametrize(
    ("role", "right", "has_it"),
    [
        ("read", "SELECT", True),
        ("read", "INSERT", False),
        ("read", "CREATE USER", False),
        ("write", "DELETE", True),
        ("write", "ALTER,", False),
        ("admin", "CREATE USER", True),
        ("admin", "SUPER", False),
    ],
)
def test_what_roles_may_do(role: UserRole, right: str, has_it: bool) -> None:
    sql = render_add_sql("mysql", "app", role, "pw")
    grant = next(line for line in sql.splitlines() if line.startswith("GRANT"))
    assert (right in grant) is has_it


@pytest.mark.parametrize("role", USER_ROLES)
def test_no_role_writes_where_mysql_keeps_users(role: UserRole) -> None:
    sql = render_add_sql("mysql", "app", role, "pw")
    revoke = next(line for line in sql.splitlines() if line.startswith("REVOKE"))
    assert "ON mysql.*" in revoke
    if role != "read":
        assert "INSERT, UPDATE, DELETE" in revoke


@pytest.mark.parametrize(
    ("flavour", "keeps", "former", "expected"),
    [
        ("mysql", False, None, "IDENTIFIED BY 'new';"),
        ("mysql", True, None, "IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD;"),
        ("mariadb", False, "old", "IDENTIFIED BY 'new';"),
        (
            "mariadb",
            True,
            "old",
            "IDENTIFIED VIA mysql_native_password USING PASSWORD('new') OR "
            "mysql_native_password USING PASSWORD('old');",
        ),
    ],
)
def test_a_new_password_beside_the_former(
    flavour: FlavourName, keeps: bool, former: str | None, expected: str
) -> None:
    sql = render_password_sql(flavour, "app", "new", keeps_former=keeps, former=former)
    assert sql == f"ALTER USER 'app'@'%' {expected}\n"


def test_mariadb_must_know_the_former_password() -> None:
    require_former_known("mysql", "app", None)
    require_former_known("mariadb", "app", "old")
    with pytest.raises(RefusedError) as error:
        require_former_known("mariadb", "app", None)
    assert error.value.code == "former-unknown"


def test_a_former_password_ends() -> None:
    mysql = render_discard_sql("mysql", "app", None)
    assert mysql == "ALTER USER 'app'@'%' DISCARD OLD PASSWORD;\n"
    mariadb = render_discard_sql("mariadb", "app", "pw")
    assert mariadb == "ALTER USER 'app'@'%' IDENTIFIED BY 'pw';\n"


def test_sessions_are_ended_by_number_alone() -> None:
    assert render_kill_sql(["7", "12"]) == "KILL 7;\nKILL 12;\n"
    with pytest.raises(ValueError, match="invalid literal"):
        render_kill_sql(["7; DROP USER x"])


def test_users_are_read_with_their_roles() -> None:
    rows = [
        ("app", "%", "N", "ANY", "grampus.role.write", "2026-11-22 00:57:47", "Y"),
        ("both", "%", "N", "ANY", "grampus.role.read,grampus.role.admin", "", "N"),
        ("own", "10.%", "Y", "", "", "2026-11-22 00:57:47", "N"),
        ("shop", "%", "N", "", "", "2026-11-22 00:57:47", "N"),
        ("shop", "10.%", "N", "", "", "2026-11-22 00:57:47", "N"),
    ]
    app, both, own, shop, other = parse_users(rows, owner="shop")
    assert (app.role, app.tls_required, app.former_password_works) == ("write", True, True)
    assert app.password_changed_at == datetime(2026, 11, 22, 0, 57, 47, tzinfo=UTC)
    assert (both.role, both.password_changed_at) == ("admin", None)
    assert (own.role, own.host, own.locked, own.tls_required) == ("other", "10.%", True, False)
    assert [shop.role, other.role] == ["owner", "other"]
    assert (both.roles, own.roles) == (("read", "admin"), ())


def test_another_answer_is_an_error() -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_users([("app", "%")], owner="shop")
