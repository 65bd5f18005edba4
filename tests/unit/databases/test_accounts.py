from __future__ import annotations

import re

import pytest

from grampus.databases.accounts import ADMIN_USER, decide_user_name, render_accounts_sql
from grampus.databases.model import FlavourName


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
    assert len(grants) == 1
    assert right not in grants[0]


def test_a_mysql_user_cannot_write_where_users_are_kept() -> None:
    assert re.search(r"REVOKE INSERT, UPDATE, DELETE, .* ON mysql\.\* FROM 'demo'", _sql("mysql"))
    assert "REVOKE" not in _sql("mariadb")


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_one_statement_a_line_as_init_file_wants_it(flavour: FlavourName) -> None:
    lines = _sql(flavour).splitlines()
    assert all(line.endswith(";") and line.count(";") == 1 for line in lines)
