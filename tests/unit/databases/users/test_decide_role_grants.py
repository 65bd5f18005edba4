from __future__ import annotations

import re
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_role_grants import (
    RoleGrant,
    decide_missing,
    parse_given,
    parse_grant,
    parse_names,
    quote,
    render_grants,
    render_names_sql,
    require_owned,
    require_there,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT ON shop.*", "SELECT ON shop.*"),
        ("insert,  select on shop", "SELECT, INSERT ON shop.*"),
        ("Lock  Tables ON `my shop`.*", "LOCK TABLES ON my shop.*"),
        ("SELECT ON shop.orders", "SELECT ON shop.orders"),
        ("SELECT ON `a.b`.`c``d`", "SELECT ON a.b.c`d"),
        ("PROCESS, SELECT ON *.*", "SELECT, PROCESS ON *.*"),
        ("read ON shop", "SELECT, SHOW VIEW ON shop.*"),
        ("read, DELETE ON shop", "SELECT, DELETE, SHOW VIEW ON shop.*"),
        ("write ON shop.orders", "SELECT, INSERT, UPDATE, DELETE, SHOW VIEW ON shop.orders"),
        ("read ON performance_schema", "SELECT ON performance_schema.*"),
        ("SELECT ON ON.ON", "SELECT ON ON.ON"),
    ],
)
def test_privileges_are_read_as_they_are_written(text: str, shown: str) -> None:
    assert parse_grant(text).shown == shown


def test_all_is_what_there_is_on_it_and_never_the_server() -> None:
    schema, table = parse_grant("all ON shop"), parse_grant("ALL PRIVILEGES ON shop.orders")
    assert set(table.privileges) < set(schema.privileges)
    assert {"EVENT", "EXECUTE"} <= set(schema.privileges)
    assert parse_grant("all ON *.*").privileges == schema.privileges


@pytest.mark.parametrize(
    ("text", "error", "code"),
    [
        ("", UsageError, "wrong-use"),
        ("SELECT", UsageError, "wrong-use"),
        ("SELECT ON", UsageError, "wrong-use"),
        ("ON shop", UsageError, "wrong-use"),
        ("SELECT ON *", UsageError, "wrong-use"),
        ("SELECT ON shop.*.x", UsageError, "wrong-use"),
        ("SELECT ON shop TO root", UsageError, "wrong-use"),
        ("SELECT ON shop; DROP USER x", UsageError, "wrong-use"),
        ("SELECT ON `shop", UsageError, "wrong-use"),
        ("SELECT ON shop.*\n", UsageError, "wrong-use"),
        ("SELECT ON " + "a" * 65, UsageError, "invalid-name"),
        ("SELCT ON shop", UsageError, "unknown-privilege"),
        ("SELECT (id) ON shop.orders", UsageError, "unknown-privilege"),
        ("PROCESS ON shop", UsageError, "wrong-level"),
        ("EVENT ON shop.orders", UsageError, "wrong-level"),
        ("SUPER ON *.*", RefusedError, "too-much"),
        ("file ON *.*", RefusedError, "too-much"),
        ("GRANT OPTION ON shop", RefusedError, "too-much"),
        ("CREATE USER ON *.*", RefusedError, "too-much"),
        ("SELECT ON mysql.user", RefusedError, "system-schema"),
        ("SELECT ON `mysql`", RefusedError, "system-schema"),
        ("SELECT ON INFORMATION_SCHEMA", RefusedError, "system-schema"),
        ("INSERT ON sys.sys_config", RefusedError, "system-schema"),
        ("UPDATE ON performance_schema", RefusedError, "system-schema"),
    ],
)
def test_what_cannot_be_given_is_refused(text: str, error: type[GrampusError], code: str) -> None:
    with pytest.raises(error) as caught:
        parse_grant(text)
    assert caught.value.code == code
    assert caught.value.remedy


def lacked_by_the_owner() -> list[str]:
    """What the second table of SECURITY.md names, for either server."""
    text = (Path(__file__).parents[4] / "SECURITY.md").read_text()
    table = text.partition("The owner does not have:")[2].partition("\n- ")[0]
    return sorted(set(re.findall(r"`([A-Z_ ]+)`", table)) - {"RELOAD"})


@pytest.mark.parametrize("privilege", lacked_by_the_owner())
def test_what_the_owner_has_not_is_given_to_no_role(privilege: str) -> None:
    for text in (
        f"{privilege} ON *.*",
        f"select, {privilege.lower()} ON *.*",
        f"{privilege} ON shop",
        f"ALL, {privilege} ON shop.orders",
    ):
        with pytest.raises(RefusedError) as caught:
            parse_grant(text)
        assert caught.value.code == "too-much"


def test_the_table_of_what_the_owner_has_not_is_read() -> None:
    assert {"SUPER", "BINLOG ADMIN", "CONNECTION_ADMIN", "SYSTEM_USER"} <= {*lacked_by_the_owner()}


def test_reload_is_given_where_the_owner_has_it() -> None:
    grants = [parse_grant("SELECT, RELOAD ON *.*")]
    require_owned("mariadb", grants)
    with pytest.raises(RefusedError, match="reset the binary logs") as caught:
        require_owned("mysql", grants)
    assert caught.value.code == "too-much"
    require_owned("mysql", [parse_grant("FLUSH_TABLES ON *.*")])  # what the remedy names


def test_narrow_rights_are_mysqls() -> None:
    grants = [parse_grant("PROCESS, FLUSH_TABLES, SHOW_ROUTINE ON *.*")]
    require_owned("mysql", grants)
    assert render_grants("mysql", "`r`", grants) == [
        "GRANT PROCESS, FLUSH_TABLES, SHOW_ROUTINE ON *.* TO `r`"
    ]
    with pytest.raises(UsageError, match="MariaDB has no privilege named 'FLUSH_TABLES'"):
        require_owned("mariadb", grants)
    with pytest.raises(UsageError) as caught:
        parse_grant("FLUSH_TABLES ON shop")
    assert caught.value.code == "wrong-level"


def test_a_misspelt_privilege_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant("SELCT ON shop")
    assert "'SELECT'" in caught.value.remedy


@pytest.mark.parametrize(
    ("flavour", "text", "sql"),
    [
        ("mysql", "SELECT ON my_shop", ["GRANT SELECT ON `my_shop`.* TO `r`"]),
        # A schema is a pattern to MariaDB; the schema of a table is none.
        ("mariadb", "SELECT ON my_shop", [r"GRANT SELECT ON `my\_shop`.* TO `r`"]),
        ("mariadb", r"SELECT ON a%\b", [r"GRANT SELECT ON `a\%\\b`.* TO `r`"]),
        ("mariadb", "SELECT ON my_shop.t_1", ["GRANT SELECT ON `my_shop`.`t_1` TO `r`"]),
        ("mysql", "SELECT ON `a``b`", ["GRANT SELECT ON `a``b`.* TO `r`"]),
        ("mariadb", "SELECT ON *.*", ["GRANT SELECT ON *.* TO `r`"]),
        (
            "mysql",
            "SELECT, PROCESS ON *.*",
            ["GRANT SELECT, PROCESS ON *.* TO `r`", "REVOKE SELECT ON mysql.* FROM `r`"],
        ),
        ("mysql", "PROCESS ON *.*", ["GRANT PROCESS ON *.* TO `r`"]),
    ],
)
def test_names_are_quoted_and_the_passwords_kept_out_of(
    flavour: FlavourName, text: str, sql: list[str]
) -> None:
    assert render_grants(flavour, "`r`", [parse_grant(text)]) == sql


@pytest.mark.parametrize("name", ["`", "``", "a`; DROP USER x; -- ", "\\`", "a'b\"c"])
def test_no_name_ends_its_quotes(name: str) -> None:
    inner = quote(name)[1:-1]
    assert inner.replace("``", "").count("`") == 0
    assert inner.replace("``", "`") == name


@pytest.mark.parametrize(
    ("text", "suggested"),
    [("read ON shpo", "'shop'"), ("SELECT ON shop.order", "'orders'"), ("read ON q", "Create it")],
)
def test_what_is_not_there_gets_a_suggestion(text: str, suggested: str) -> None:
    schemas, tables = ["shop", "other"], [("shop", "orders"), ("other", "order")]
    require_there([parse_grant("SELECT ON shop.orders"), parse_grant("read ON *.*")], *there())
    with pytest.raises(NotFoundError) as caught:
        require_there([parse_grant(text)], schemas, tables)
    assert suggested in caught.value.remedy


def there() -> tuple[list[str], list[tuple[str, str]]]:
    return parse_names([("73686f70",), ("73686f70", "6f7264657273")])


def test_tables_are_asked_for_where_one_is_named() -> None:
    assert there() == (["shop"], [("shop", "orders")])
    assert "tables" not in render_names_sql([parse_grant("read ON shop")])
    assert "tables" in render_names_sql([parse_grant("SELECT ON shop.orders")])


def test_a_grant_is_journaled_as_it_is() -> None:
    grant = parse_grant("SELECT ON `a``b`.t")
    assert RoleGrant.model_validate(grant.model_dump(mode="json")) == grant


@pytest.mark.parametrize(
    ("flavour", "line", "shown"),
    [
        (
            "mysql",
            "GRANT SELECT, SHOW VIEW ON `sales`.* TO `desk`@`%`",
            "SELECT, SHOW VIEW ON sales.*",
        ),
        (
            "mysql",
            "GRANT INSERT ON `sales`.`or TO ders` TO `desk`@`%`",
            "INSERT ON sales.or TO ders",
        ),
        ("mysql", "GRANT SELECT, PROCESS ON *.* TO `desk`@`%`", "SELECT, PROCESS ON *.*"),
        ("mariadb", "GRANT SELECT ON `my\\\\_desk`.* TO `desk`", "SELECT ON my_desk.*"),
        ("mariadb", "GRANT SELECT ON `my_desk`.`t` TO `desk`", "SELECT ON my_desk.t"),
        ("mysql", "GRANT USAGE ON *.* TO `desk`@`%`", ""),
        ("mysql", "REVOKE SELECT, INSERT ON `mysql`.* FROM `desk`@`%`", ""),
        ("mariadb", "GRANT SELECT ON `my_desk`.* TO `desk`", None),  # a pattern
        ("mysql", "GRANT SELECT ON `sales`.* TO `desk`@`%` WITH GRANT OPTION", None),
        ("mysql", "GRANT USAGE ON *.* TO `desk`@`%` WITH GRANT OPTION", None),
        ("mysql", "GRANT SELECT (`id`) ON `sales`.`orders` TO `desk`@`%`", None),
        ("mysql", "GRANT EXECUTE ON PROCEDURE `sales`.`p` TO `desk`@`%`", None),
        ("mysql", "GRANT `other`@`%` TO `desk`@`%`", None),
        ("mysql", "GRANT BACKUP_ADMIN ON *.* TO `desk`@`%`", None),
        ("mysql", "REVOKE SELECT ON `sales`.* FROM `desk`@`%`", None),
        ("mariadb", "GRANT ALL PRIVILEGES ON `sales`.* TO `desk`", None),
    ],
)
def test_what_a_server_says_was_given(flavour: FlavourName, line: str, shown: str | None) -> None:
    if shown is None:
        with pytest.raises(RefusedError) as error:
            parse_given(flavour, [line], role="desk")
        assert error.value.code == "given-in-sql"
    else:
        said = [grant.shown for grant in parse_given(flavour, [line], role="desk")]
        assert said == ([shown] if shown else [])


@pytest.mark.parametrize("wanted", ["all ON sales", "all ON sales.orders", "write ON sales"])
def test_what_is_given_is_read_as_it_was_asked_for(wanted: str) -> None:
    grant = parse_grant(wanted)
    whole = wanted.startswith("all")
    what = "ALL PRIVILEGES" if whole else ", ".join(grant.privileges)
    where = "`sales`.`orders`" if grant.table else "`sales`.*"
    given = parse_given("mysql", [f"GRANT {what} ON {where} TO `desk`@`%`"], role="desk")
    assert given == [grant]
    assert decide_missing([grant], given) == decide_missing(given, [grant]) == []
