from __future__ import annotations

import stat

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.users.rotation import DatabaseRotation
from grampus.databases.users.users import DatabaseUsers
from tests.fakes.mysql_accounts import accounts_of
from tests.unit.databases.world import LAB, World
from tests.unit.operation_runner import planned


def users(world: World) -> DatabaseUsers:
    return DatabaseUsers(world.service().operations)


def accounts(world: World) -> str:
    (content,) = [f.content for p, f in world.hosts["h1"].files.items() if p.name == "accounts"]
    return content


def test_a_new_user_gets_a_password_that_only_its_owner_can_read(world: World) -> None:
    world.create()
    login = users(world).add("demo", "reports", "write")
    password = login.endpoint.password.get_secret_value()
    assert accounts_of(accounts(world))["reports"].takes(password)
    assert f"password={password}" in login.option_file.read_text()
    assert stat.S_IMODE(login.option_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(login.option_file.parent.stat().st_mode) == 0o700
    assert password not in repr(login)
    assert password.encode() not in world.home.store_file.read_bytes()


def test_users_are_listed_with_their_roles(world: World) -> None:
    world.create()
    users(world).add("demo", "reports", "write")
    assert [(u.name, u.role) for u in users(world).all("demo")] == [
        ("demo", "owner"),
        ("reports", "write"),
    ]


def test_a_name_that_is_there_is_refused(world: World) -> None:
    world.create()
    users(world).add("demo", "reports", "read")
    with pytest.raises(RefusedError) as error:
        users(world).add("demo", "reports", "read")
    assert error.value.code == "name-taken"


def test_a_user_that_is_not_there_gets_a_suggestion(world: World) -> None:
    world.create()
    users(world).add("demo", "reports", "read")
    with pytest.raises(NotFoundError) as error:
        users(world).remove("demo", "reprots")
    assert "'reports'" in error.value.remedy


def test_plans_are_told_and_change_nothing(world: World) -> None:
    world.create()
    users(world).add("demo", "reports", "read")
    operations, service, before = world.service().operations, users(world), world.inventory()
    plans = [
        planned(world.runner, change)
        for change in (
            lambda: service.add("demo", "desk", "read"),
            lambda: service.remove("demo", "reports"),
            lambda: service.change_password("demo", "reports", keeps_former=True),
            lambda: service.discard_former("demo", "reports"),
            lambda: DatabaseRotation(operations).rotate("demo", keeps_former=True),
            lambda: DatabaseRotation(operations).discard_former("demo"),
            lambda: DatabaseNames(operations).label("demo", ["team=web"]),
            lambda: DatabaseNames(operations).rename("demo", "store"),
        )
    ]
    assert all(plans)
    assert (world.inventory(), world.journal.unfinished(LAB)) == (before, [])


def test_a_removed_user_leaves_nothing(world: World) -> None:
    world.create()
    before = world.inventory()
    users(world).add("demo", "reports", "read")
    users(world).remove("demo", "reports")
    assert world.inventory() == before
    assert "reports" not in accounts_of(accounts(world))


def test_a_former_password_works_until_it_is_discarded(world: World) -> None:
    world.create()
    former = users(world).add("demo", "reports", "read").endpoint.password.get_secret_value()
    login = users(world).change_password("demo", "reports", keeps_former=True)
    new = login.endpoint.password.get_secret_value()
    both = accounts_of(accounts(world))["reports"]
    assert new != former
    assert both.takes(former)
    assert both.takes(new)
    users(world).discard_former("demo", "reports")
    one = accounts_of(accounts(world))["reports"]
    assert one.takes(new)
    assert not one.takes(former)


def test_a_stopped_database_cannot_be_asked(world: World) -> None:
    world.create()
    world.service().stop("demo")
    with pytest.raises(RefusedError) as error:
        users(world).all("demo")
    assert error.value.code == "not-running"
    with pytest.raises(RefusedError) as error:
        DatabaseRotation(world.service().operations).rotate("demo", keeps_former=False)
    assert error.value.code == "not-running"


def test_rotation_changes_both_passwords_and_stops_nothing(world: World) -> None:
    world.create()
    operations = world.service().operations
    former = operations.credentials.load("demo")
    started = world.hosts["h1"].daemons["mysqld-demo"]
    DatabaseRotation(operations).rotate("demo", keeps_former=False)
    new = operations.credentials.load("demo")
    known = accounts_of(accounts(world))
    assert world.hosts["h1"].daemons["mysqld-demo"] is started
    assert known["demo"].takes(new.password.get_secret_value())
    assert known["grampus.admin"].takes(new.admin_password.get_secret_value())
    assert not known["demo"].takes(former.password.get_secret_value())
    assert new.password.get_secret_value() in operations.credentials.option_file("demo").read_text()
    assert operations.credentials.find_next("demo") is None


def test_rotation_waits_for_a_benchmark(world: World) -> None:
    world.create()
    world.service().ensure_local_instance("demo")
    with pytest.raises(RefusedError) as error:
        DatabaseRotation(world.service().operations).rotate("demo", keeps_former=False)
    assert error.value.code == "benchmark"


def test_a_renamed_database_keeps_users_address_and_passwords(world: World) -> None:
    created = world.create()
    users(world).add("demo", "reports", "read")
    names = DatabaseNames(world.service().operations)
    names.label("demo", ["team=web"])
    names.rename("demo", "store")
    view = world.service().show("store")
    assert view.status == "running"
    assert view.record.spec.address == created.record.spec.address
    assert view.record.spec.labels == {"team": "web"}
    assert world.service().endpoint("store").password == created.endpoint.password
    assert [u.name for u in users(world).all("store")] == ["demo", "reports"]
    facts = world.volumes.images["store"].facts
    assert (facts["database"], facts["labels"], facts["owner"]) == ("store", "team=web", "demo")
    with pytest.raises(NotFoundError):
        world.service().show("demo")


def test_a_taken_name_is_refused_before_anything(world: World) -> None:
    world.create()
    world.create("store")
    before = world.inventory()
    with pytest.raises(RefusedError) as error:
        DatabaseNames(world.service().operations).rename("demo", "store")
    assert error.value.code == "name-taken"
    assert world.inventory() == before


@pytest.mark.parametrize("changes", [1, 6, 12, 18, 24])
def test_a_renaming_that_fails_leaves_it_running_under_its_own_name(
    world: World, changes: int
) -> None:
    world.create()
    before = world.inventory()
    world.fuse.left, world.fuse.error = changes, OSError("disk gone")
    with pytest.raises(OSError, match="disk gone"):
        DatabaseNames(world.service().operations).rename("demo", "store")
    assert world.inventory() == before
