from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_role_grants import parse_grant
from grampus.databases.users.role_steps import GRANT_ROLE, RoleOrder
from grampus.databases.users.roles import DatabaseRoles
from grampus.databases.users.users import DatabaseUsers
from tests.fakes.mysql_roles import FakeRoles, roles_of
from tests.unit.databases.world import World, database_events
from tests.unit.operation_runner import planned

GRANTS = [parse_grant("read ON shop")]
FLAVOURS = pytest.mark.parametrize("flavour", ["mysql", "mariadb"])


def roles(world: World) -> DatabaseRoles:
    return DatabaseRoles(world.service().operations)


def users(world: World) -> DatabaseUsers:
    return DatabaseUsers(world.service().operations)


def known(world: World) -> FakeRoles:
    (content,) = [f.content for p, f in world.hosts["h1"].files.items() if p.name == "accounts"]
    return roles_of(content)


def run_sql(world: World, sql: str) -> None:
    """What a DBA does without Grampus."""
    (file,) = [f for p, f in world.hosts["h1"].files.items() if p.name == "accounts"]
    file.content += f"\n{sql}"


def with_user(world: World, flavour: FlavourName = "mysql") -> None:
    world.create(flavour=flavour)
    users(world).add("demo", "reports", "read")


def at_login(world: World, user: str = "reports") -> list[str]:
    active = known(world).at_login.get((user, "%"), [])
    return sorted(name.rpartition(".")[2] for name, _ in active)


@FLAVOURS
def test_a_role_is_made_and_listed_with_its_rights_and_who_has_it(
    world: World, flavour: FlavourName
) -> None:
    with_user(world, flavour)
    roles(world).add("demo", "desk", [*GRANTS, parse_grant("INSERT ON shop.orders")])
    roles(world).grant("demo", "desk", "reports", at_login=False)
    desk, read = sorted(roles(world).all("demo"), key=lambda role: role.name)
    assert (desk.name, read.name, read.server_name) == ("desk", "read", "grampus.role.read")
    assert desk.rights == ("SELECT, SHOW VIEW ON shop.*", "INSERT ON shop.orders")
    assert [(held.name, held.at_login) for held in desk.holders] == [("reports", False)]
    assert [(held.name, held.at_login) for held in read.holders] == [("reports", True)]


def test_a_user_has_several_roles_at_login_with_mysql(world: World) -> None:
    with_user(world)
    roles(world).add("demo", "desk", GRANTS)
    assert roles(world).grant("demo", "desk", "reports", at_login=True)
    assert at_login(world) == ["desk", "read"]
    assert not roles(world).grant("demo", "desk", "reports", at_login=True)
    assert roles(world).grant("demo", "desk", "reports", at_login=False)
    assert at_login(world) == ["read"]
    assert roles(world).grant("demo", "desk", "reports", at_login=True)
    assert roles(world).revoke("demo", "desk", "reports")
    assert at_login(world) == ["read"]
    assert not roles(world).revoke("demo", "desk", "reports")


def test_mariadb_has_one_at_login_and_is_not_changed_unasked(world: World) -> None:
    world.create(flavour="mariadb")
    roles(world).add("demo", "desk", GRANTS)
    roles(world).add("demo", "till", GRANTS)
    users(world).add("demo", "reports", "desk")
    with pytest.raises(RefusedError) as error:
        roles(world).grant("demo", "till", "reports", at_login=True)
    assert error.value.code == "one-default"
    assert "desk --from reports" in error.value.remedy
    roles(world).grant("demo", "till", "reports", at_login=False)
    roles(world).revoke("demo", "desk", "reports")
    roles(world).grant("demo", "till", "reports", at_login=True)
    assert at_login(world) == ["till"]


@FLAVOURS
@pytest.mark.parametrize("preset", ["read", "write", "admin"])
def test_one_of_grampuss_own_is_made_when_it_is_given(
    world: World, flavour: FlavourName, preset: str
) -> None:
    world.create(flavour=flavour)
    roles(world).add("demo", "desk", GRANTS)
    users(world).add("demo", "app", "desk")
    roles(world).revoke("demo", "desk", "app")
    roles(world).grant("demo", preset, "app", at_login=True)
    assert at_login(world, "app") == [preset]


def test_a_user_is_made_with_a_role_of_ones_own(world: World) -> None:
    world.create()
    roles(world).add("demo", "desk", GRANTS)
    users(world).add("demo", "app", "desk")
    assert at_login(world, "app") == ["desk"]
    with pytest.raises(NotFoundError, match="dsek") as error:
        users(world).add("demo", "other", "dsek")
    assert "'desk'" in error.value.remedy


def test_a_user_and_a_role_share_no_name(world: World) -> None:
    with_user(world)
    roles(world).add("demo", "desk", GRANTS)
    for taken in ("reports", "desk", "demo"):
        with pytest.raises(RefusedError) as error:
            roles(world).add("demo", taken, GRANTS)
        assert error.value.code == "name-taken"
    with pytest.raises(RefusedError) as error:
        users(world).add("demo", "desk", "read")
    assert error.value.code == "name-taken"


@FLAVOURS
def test_a_removed_role_is_nobodys(world: World, flavour: FlavourName) -> None:
    world.create(flavour=flavour)
    roles(world).add("demo", "desk", GRANTS)
    users(world).add("demo", "app", "desk")
    roles(world).remove("demo", "desk")
    assert known(world).shown() == []
    assert at_login(world, "app") == []
    assert roles(world).all("demo") == []


def test_grampuss_own_roles_stay(world: World) -> None:
    with_user(world)
    with pytest.raises(RefusedError) as error:
        roles(world).remove("demo", "read")
    assert error.value.code == "own-role"


@pytest.mark.parametrize(
    ("role", "user", "error", "said"),
    [
        ("dsek", "reports", NotFoundError, "'desk'"),
        ("nothing_like_it", "reports", NotFoundError, "db role list demo"),
        ("desk", "reprots", NotFoundError, "'reports'"),
        ("desk", "demo", RefusedError, "another name"),
        ("desk", "root", UsageError, "another name"),
        ("desk", "grampus.admin", UsageError, "lower-case"),
        ("desk", "a'@'%", UsageError, "lower-case"),
    ],
)
def test_wrong_names_are_refused_before_anything(
    world: World, role: str, user: str, error: type[GrampusError], said: str
) -> None:
    with_user(world)
    roles(world).add("demo", "desk", GRANTS)
    before = known(world).shown()
    with pytest.raises(error) as caught:
        roles(world).grant("demo", role, user, at_login=True)
    assert said in caught.value.remedy
    with pytest.raises(error):
        roles(world).revoke("demo", role, user)
    assert known(world).shown() == before


@pytest.mark.parametrize(
    ("grant", "said"),
    [("read ON shpo", "'shop'"), ("SELECT ON shop.order", "'orders'"), ("read ON q", "Create it")],
)
def test_a_misspelt_schema_or_table_gets_a_suggestion(world: World, grant: str, said: str) -> None:
    world.create()
    with pytest.raises(NotFoundError) as error:
        roles(world).add("demo", "desk", [parse_grant(grant)])
    assert said in error.value.remedy
    assert known(world).shown() == []


def test_roles_made_in_sql_can_be_given_and_removed(world: World) -> None:
    with_user(world)
    run_sql(world, "CREATE ROLE `Tea Room`@`%`;\nCREATE ROLE `x`@`localhost`;")
    names = {role.name for role in roles(world).all("demo")}
    assert names == {"Tea Room", "x@localhost", "read"}
    roles(world).grant("demo", "Tea Room", "reports", at_login=True)
    roles(world).grant("demo", "x@localhost", "reports", at_login=True)
    assert at_login(world) == ["Tea Room", "read", "x"]
    roles(world).remove("demo", "x@localhost")
    assert at_login(world) == ["Tea Room", "read"]
    with pytest.raises(RefusedError) as error:
        users(world).add("demo", "app", "Tea Room")
    assert error.value.code == "role-name"


def test_a_user_that_has_gone_in_sql_meanwhile_leaves_nothing_undone(world: World) -> None:
    with_user(world)
    roles(world).add("demo", "desk", GRANTS)
    operations = world.service().operations
    order = RoleOrder(database="demo", role="desk", user="reports", at_login=True)
    run_sql(world, "DROP USER IF EXISTS 'reports'@'%';")
    with pytest.raises(GrampusError, match="refused a statement"):
        operations.run(GRANT_ROLE, order)
    assert operations.unfinished("demo") == []


def test_a_plan_says_what_would_be_done_and_does_nothing(world: World) -> None:
    with_user(world)
    service, before = roles(world), world.inventory()
    said = planned(world.runner, lambda: service.add("demo", "desk", GRANTS))
    assert said == ["Create the role desk with SELECT, SHOW VIEW ON shop.*"]
    assert planned(world.runner, lambda: service.revoke("demo", "write", "reports")) == []
    assert "desk" not in str(known(world).shown())
    assert world.inventory() == before


def test_events_say_which_role_and_whose(world: World) -> None:
    with_user(world)
    roles(world).add("demo", "desk", GRANTS)
    roles(world).grant("demo", "desk", "reports", at_login=True)
    roles(world).revoke("demo", "desk", "reports")
    roles(world).remove("demo", "desk")
    events = database_events(world).of("demo", last=4)
    assert [event.what for event in events] == [
        "creation of a role: desk",
        "granting of a role: desk to reports",
        "revocation of a role: desk from reports",
        "removal of a role: desk",
    ]


@FLAVOURS
def test_a_role_has_just_what_it_is_changed_to(world: World, flavour: FlavourName) -> None:
    with_user(world, flavour)
    roles(world).add("demo", "desk", [parse_grant("read ON my_shop"), parse_grant("read ON shop")])
    roles(world).grant("demo", "desk", "reports", at_login=False)
    wanted = [parse_grant("SELECT, INSERT ON my_shop"), parse_grant("UPDATE ON shop.orders")]
    order = roles(world).change("demo", "desk", wanted)
    assert order is not None
    assert [one.shown for one in order.grants] == ["INSERT ON my_shop.*", "UPDATE ON shop.orders"]
    assert [one.shown for one in order.taken] == [
        "SHOW VIEW ON my_shop.*",
        "SELECT, SHOW VIEW ON shop.*",
    ]
    (desk,) = [role for role in roles(world).all("demo") if role.name == "desk"]
    assert sorted(desk.rights) == ["SELECT, INSERT ON my_shop.*", "UPDATE ON shop.orders"]
    assert [held.name for held in desk.holders] == ["reports"]
    assert roles(world).change("demo", "desk", wanted) is None, "it has just these"


def test_what_stays_is_never_taken_and_what_goes_is_taken_last(world: World) -> None:
    world.create()
    roles(world).add("demo", "desk", [parse_grant("read ON shop")])
    (file,) = [f for p, f in world.hosts["h1"].files.items() if p.name == "accounts"]
    before = len(file.content)
    roles(world).change("demo", "desk", [parse_grant("SELECT, INSERT ON shop")])
    done = [line for line in file.content[before:].splitlines() if "desk" in line]
    assert done == [
        "GRANT INSERT ON `shop`.* TO `desk`@`%`;",
        "REVOKE SHOW VIEW ON `shop`.* FROM `desk`@`%`;",
    ]


@pytest.mark.parametrize(
    ("role", "wanted", "code"),
    [
        ("desk", "SELECT ON *.*", "not-closed"),
        ("read", "SELECT ON shop", "own-role"),
        ("dsek", "SELECT ON shop", "unknown-role"),
        ("made", "SELECT ON shop", "given-in-sql"),
    ],
)
def test_a_change_that_cannot_be_is_refused_before_anything(
    world: World, role: str, wanted: str, code: str
) -> None:
    with_user(world)
    roles(world).add("demo", "desk", GRANTS)
    run_sql(world, "CREATE ROLE `made`@`%`;\nGRANT SELECT ON `shop`.* TO `made`@`%`")
    run_sql(world, "GRANT SELECT ON `shop`.* TO `made`@`%` WITH GRANT OPTION;")
    before = known(world).shown()
    with pytest.raises(GrampusError) as caught:
        roles(world).change("demo", role, [parse_grant(wanted)])
    assert caught.value.code == code
    assert known(world).shown() == before


def test_a_wide_role_can_be_changed_too(world: World) -> None:
    world.create()
    roles(world).add("demo", "wide", [parse_grant("read ON *.*")])
    order = roles(world).change("demo", "wide", [parse_grant("SELECT, PROCESS ON *.*")])
    assert order is not None
    assert [one.shown for one in order.grants] == ["PROCESS ON *.*"]
    assert [one.shown for one in order.taken] == ["SHOW VIEW ON *.*"]


def test_no_role_lets_its_users_reset_binary_logs(world: World) -> None:
    with_user(world)
    reload_grant = [parse_grant("RELOAD ON *.*")]
    with pytest.raises(RefusedError) as caught:
        roles(world).add("demo", "desk", reload_grant)
    assert caught.value.code == "too-much"
    roles(world).add("demo", "desk", GRANTS)
    with pytest.raises(RefusedError):
        roles(world).change("demo", "desk", [*GRANTS, *reload_grant])
    assert [role.name for role in roles(world).all("demo")].count("desk") == 1
