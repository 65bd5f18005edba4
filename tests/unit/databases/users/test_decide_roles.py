from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_role_grants import parse_grant
from grampus.databases.users.decide_roles import (
    DatabaseRole,
    find_role,
    parse_rights,
    parse_roles,
    render_drop_sql,
    render_give_sql,
    render_login_sql,
    render_make_sql,
    render_rights_sql,
    render_roles_sql,
    render_take_sql,
    require_given,
    require_role_name,
)


def _hex(*parts: str) -> tuple[str, ...]:
    return tuple(part.encode().hex() for part in parts)


@pytest.mark.parametrize("name", ["desk", "sales_desk_2", "a" * 32])
def test_names_that_need_no_quoting_are_taken(name: str) -> None:
    assert require_role_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "Desk", "2desk", "sales-desk", "grampus.role.x", "a'b", "a`b", "ä", "desk\n"),
        *("a" * 33, "read", "write", "admin", "all", "none", "default", "root", "public", "mysql"),
    ],
)
def test_other_names_are_wrong_use(name: str) -> None:
    with pytest.raises(UsageError) as error:
        require_role_name(name)
    assert error.value.code == "invalid-name"


@pytest.mark.parametrize(
    ("flavour", "expected"),
    [
        (
            "mysql",
            "CREATE ROLE IF NOT EXISTS `desk`@`%`;\nGRANT SELECT ON `shop`.* TO `desk`@`%`;\n",
        ),
        ("mariadb", "CREATE ROLE IF NOT EXISTS `desk`;\nGRANT SELECT ON `shop`.* TO `desk`;\n"),
    ],
)
def test_a_role_is_made_and_may_be_made_again(flavour: FlavourName, expected: str) -> None:
    assert render_make_sql(flavour, "desk", [parse_grant("SELECT ON shop")]) == expected


def test_a_role_is_given_and_taken_in_the_words_of_its_server() -> None:
    mysql, mariadb = ("desk", "%"), ("desk", "")
    assert render_give_sql(mysql, "app") == "GRANT `desk`@`%` TO `app`@`%`;\n"
    assert render_give_sql(mariadb, "app") == "GRANT `desk` TO `app`@`%`;\n"
    assert render_take_sql(mariadb, "app") == "REVOKE `desk` FROM `app`@`%`;\n"
    assert render_drop_sql(("a`b", "%")) == "DROP ROLE IF EXISTS `a``b`@`%`;\n"


@pytest.mark.parametrize(
    ("flavour", "roles", "expected"),
    [
        ("mysql", [("a", "%"), ("b", "x")], "SET DEFAULT ROLE `a`@`%`, `b`@`x` TO `app`@`%`;\n"),
        ("mysql", [], "SET DEFAULT ROLE NONE TO `app`@`%`;\n"),
        ("mariadb", [("a", "")], "SET DEFAULT ROLE `a` FOR `app`@`%`;\n"),
        ("mariadb", [], "SET DEFAULT ROLE NONE FOR `app`@`%`;\n"),
    ],
)
def test_what_is_active_at_login(
    flavour: FlavourName, roles: list[tuple[str, str]], expected: str
) -> None:
    assert render_login_sql(flavour, ("app", "%"), roles) == expected


def test_roles_are_read_with_who_has_them() -> None:
    found = parse_roles(
        [
            ("role", *_hex("desk", "%"), "Y"),
            ("role", *_hex("desk", "10.%"), "Y"),
            ("role", *_hex("grampus.role.read", "%"), "Y"),
            ("role", *_hex("grampus.admin", "%"), "Y"),
            ("role", *_hex("tab\there", ""), "N"),
            ("held", *_hex("desk", "%", "app", "%"), "Y"),
            ("held", *_hex("desk", "%", "app", "10.%"), "N"),
            ("held", *_hex("someone", "%", "app", "%"), "Y"),  # an account that is no role
        ]
    )
    assert [role.name for role in found] == ["desk", "desk@10.%", "read", "tab\there"]
    assert [(h.name, h.host, h.at_login) for h in found[0].holders] == [
        ("app", "%", True),
        ("app", "10.%", False),
    ]
    assert found[1].holders == ()
    require_given(found[0])
    with pytest.raises(RefusedError) as error:
        require_given(found[3])
    assert error.value.code == "not-given"


def test_grampuss_own_role_comes_before_one_of_the_same_name() -> None:
    mine = DatabaseRole(name="read", server_name="grampus.role.read", host="%")
    other = DatabaseRole(name="read", server_name="read", host="%")
    assert find_role("read", [other, mine]) == mine
    assert find_role("raed", [other, mine]) is None


@pytest.mark.parametrize("row", [("role",), ("role", "zz", "", "Y"), ("held", "61"), ("", "")])
def test_another_answer_is_an_error(row: tuple[str, ...]) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_roles([row])


def test_rights_are_shown_in_the_servers_words() -> None:
    roles = [
        DatabaseRole(name=name, server_name=name, host=host)
        for name, host in [("desk", "%"), ("till", ""), ("none", "%")]
    ]
    sql = render_rights_sql(roles)
    assert sql.splitlines()[:4] == [
        "SELECT 'rights of', 0;",
        "SHOW GRANTS FOR `desk`@`%`;",
        "SELECT 'rights of', 1;",
        "SHOW GRANTS FOR `till`;",
    ]
    desk, till, none = parse_rights(
        roles,
        [
            ("rights of", "0"),
            ("GRANT SELECT ON *.* TO `desk`@`%`",),
            ("REVOKE SELECT ON `mysql`.* FROM `desk`@`%`",),
            ("GRANT `grampus.role.read`@`%` TO `desk`@`%`",),
            ("rights of", "1"),
            ("GRANT USAGE ON *.* TO `till`",),
            ("GRANT SELECT, INSERT ON `my\\\\_shop`.* TO `till`",),
            ("GRANT SELECT (`id`, `v`) ON `shop`.`t` TO `till` WITH GRANT OPTION",),
            ("rights of", "2"),
            ("GRANT USAGE ON *.* TO `none`@`%`",),
        ],
    )
    assert desk.rights == ("SELECT ON *.*", "not SELECT ON mysql.*", "the role grampus.role.read")
    assert till.rights == ("SELECT, INSERT ON my_shop.*", "SELECT (id, v) ON shop.t")
    assert none.rights == ()


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_no_account_of_grampus_is_among_those_who_have_a_role(flavour: FlavourName) -> None:
    sql = render_roles_sql(flavour)
    assert sql.count(";") == 2
    if flavour == "mariadb":  # there it has each role that it makes
        assert "WHERE m.User NOT LIKE 'grampus.%'" in sql
