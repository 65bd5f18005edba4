from __future__ import annotations

import pytest
from pydantic import SecretStr

from grampus.databases.credentials import Credentials
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_rotation import (
    parse_admin_hosts,
    render_discard_sql,
    render_rotate_sql,
)
from tests.fakes.mysql_accounts import accounts_of


def credentials(generation: int) -> Credentials:
    return Credentials(
        user="shop",
        password=SecretStr(f"owner{generation}"),
        admin_password=SecretStr(f"admin{generation}"),
        root_password=SecretStr("root"),
    )


BOTH = ("localhost", "127.0.0.1")
MADE = (
    "CREATE USER 'grampus.admin'@'localhost' IDENTIFIED BY 'admin1';\n"
    "CREATE USER 'shop'@'%' IDENTIFIED BY 'owner1';\n"
)


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_both_passwords_work_until_the_former_is_discarded(flavour: FlavourName) -> None:
    rotated = MADE + render_rotate_sql(flavour, credentials(2), credentials(1), BOTH)
    both = accounts_of(rotated)
    for user, word in (("shop", "owner"), ("grampus.admin", "admin")):
        assert both[user].takes(f"{word}1")
        assert both[user].takes(f"{word}2")
    kept = accounts_of(rotated + render_discard_sql(flavour, credentials(2), of_owner=False))
    assert kept["shop"].takes("owner1")
    assert not kept["grampus.admin"].takes("admin1")
    ended = accounts_of(rotated + render_discard_sql(flavour, credentials(2), of_owner=True))
    assert not ended["shop"].takes("owner1")
    assert ended["shop"].takes("owner2")
    assert ended["grampus.admin"].takes("admin2")


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_the_binary_log_does_not_bring_former_passwords_back(flavour: FlavourName) -> None:
    for sql in (
        render_rotate_sql(flavour, credentials(2), credentials(1), BOTH),
        render_discard_sql(flavour, credentials(2), of_owner=True),
    ):
        assert sql.startswith("SET SESSION sql_log_bin = 0;\n")


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("rows", "has_port"), [([("localhost",), ("127.0.0.1",)], True), ([("localhost",)], False)]
)
def test_the_account_for_the_port_is_rotated_where_there_is_one(
    flavour: FlavourName, rows: list[tuple[str, ...]], has_port: bool
) -> None:
    hosts = parse_admin_hosts(rows)
    sql = render_rotate_sql(flavour, credentials(2), credentials(1), hosts)
    assert ("'grampus.admin'@'127.0.0.1'" in sql) == has_port
    assert "'grampus.admin'@'localhost'" in sql


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("of_owner", [False, True])
def test_the_account_for_the_port_ends_with_the_password_on_file(
    flavour: FlavourName, of_owner: bool
) -> None:
    sql = render_discard_sql(flavour, credentials(2), of_owner=of_owner)
    at_port = "ALTER USER IF EXISTS 'grampus.admin'@'127.0.0.1'"
    assert f"{at_port} IDENTIFIED BY 'admin2';\n" in sql
    assert (f"{at_port} DISCARD OLD PASSWORD;\n" in sql) == (flavour == "mysql")


def test_mysql_changes_all_accounts_in_one_statement() -> None:
    sql = render_rotate_sql("mysql", credentials(2), credentials(1), BOTH)
    assert sql.count("ALTER USER") == 1
    assert sql.count("RETAIN CURRENT PASSWORD") == 3


def test_mariadb_changes_the_administrator_last() -> None:
    sql = render_rotate_sql("mariadb", credentials(2), credentials(1), BOTH)
    assert sql.index("'shop'") < sql.index("'grampus.admin'")
