from __future__ import annotations

from datetime import timedelta

import pytest

from grampus.core.errors import NotFoundError, RefusedError, UsageError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.decide_trash import decide_expired, decide_expiry, decide_meant
from grampus.databases.users.users import DatabaseUsers
from grampus.state.locks import hold_lock
from tests.unit.databases.world import ADDRESSES, LAB, World
from tests.unit.operation_runner import planned


def trash(world: World) -> DatabaseTrash:
    return DatabaseTrash(world.service().operations)


def test_a_deleted_database_frees_its_name_and_address(world: World) -> None:
    world.create()
    kept = trash(world).trash("demo", keep_days=3)
    assert kept is not None
    assert kept.expires_at - kept.deleted_at == timedelta(days=3)
    assert world.service().list() == []
    created = world.create()
    assert created.record.spec.address == ADDRESSES[0]


def test_it_comes_back_running_with_data_users_and_passwords(world: World) -> None:
    password = world.create().endpoint.password
    users = DatabaseUsers(world.service().operations)
    login = users.add("demo", "reports", "read")
    trash(world).trash("demo")
    record = trash(world).restore("demo")
    assert record.desired == "running"
    assert world.service().show("demo").status == "running"
    assert world.service().endpoint("demo").password == password
    assert [user.name for user in users.all("demo")] == ["demo", "reports"]
    assert users.login("demo", "reports").endpoint.password == login.endpoint.password
    assert trash(world).all() == []


def test_one_that_cannot_come_back_at_the_very_end_is_in_the_trash_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create()
    trash(world).trash("demo")
    before = trash(world).all()
    monkeypatch.setenv(VARIABLE, "db.undelete/forget/after=error")
    with pytest.raises(FailpointError):
        trash(world).restore("demo")
    monkeypatch.delenv(VARIABLE)
    assert trash(world).all() == before
    assert trash(world).restore("demo").desired == "running"


def test_one_that_was_stopped_comes_back_stopped(world: World) -> None:
    world.create()
    world.service().stop("demo")
    trash(world).trash("demo")
    assert trash(world).restore("demo").desired == "stopped"


def test_plans_are_told_and_change_nothing(world: World) -> None:
    world.create()
    before = world.inventory()
    assert planned(world.runner, lambda: trash(world).trash("demo"))
    assert world.inventory() == before
    trash(world).trash("demo")
    before = world.inventory()
    back = planned(world.runner, lambda: trash(world).restore("demo", name="again", host="h2"))
    assert (back[0], back[-1]) == ("Record again", "Record its version"), "it is started, too"
    orders = trash(world).plan_purge("demo")
    assert planned(world.runner, lambda: trash(world).purge_all(orders * 2))
    assert planned(world.runner, lambda: trash(world).purge_all([])) == []
    assert world.inventory() == before


def test_another_name_and_address_when_its_own_are_taken(world: World) -> None:
    world.create()
    DatabaseUsers(world.service().operations).add("demo", "reports", "read")
    trash(world).trash("demo")
    world.create()
    with pytest.raises(RefusedError) as error:
        trash(world).restore("demo")
    assert error.value.code == "name-taken"
    record = trash(world).restore("demo", name="again", host="h2")
    assert (record.spec.host, record.spec.address) == ("h2", ADDRESSES[1])
    assert record.user == "demo"  # the account is what it was
    assert world.volumes.images["again"].facts["owner"] == "demo"
    login = DatabaseUsers(world.service().operations).login("again", "reports")
    assert f"host={ADDRESSES[1]}" in login.option_file.read_text()


def test_a_database_under_clones_keeps_its_name(world: World) -> None:
    world.create()
    kept = trash(world).trash("demo")
    assert kept is not None
    world.volumes.trash.with_clones.add(kept.volume.image_id)
    with pytest.raises(RefusedError) as error:
        trash(world).restore("demo", name="again")
    assert error.value.code == "has-clones"
    (problem,) = trash(world).purge_all(trash(world).plan_purge("demo"))
    assert "stays in the trash" in problem
    trash(world).restore("demo")


def test_a_protected_one_is_not_deleted(world: World) -> None:
    world.create(protect=True)
    with pytest.raises(RefusedError) as error:
        trash(world).trash("demo")
    assert error.value.code == "protected"


def test_one_without_a_volume_has_nothing_to_keep(world: World) -> None:
    world.create()
    world.volumes.ensure_absent("demo")
    with pytest.raises(RefusedError, match="--now"):
        trash(world).trash("demo")


def test_the_trash_is_emptied_of_what_has_had_its_time(world: World) -> None:
    world.create("old")
    trash(world).trash("old", keep_days=1)
    world.create("young")
    trash(world).trash("young", keep_days=2)
    assert trash(world).plan_purge(None) == []
    world.clock.sleep(24 * 3600.0)
    orders = trash(world).plan_purge(None)
    assert [order.trashed.record.spec.name for order in orders] == ["old"]
    assert trash(world).purge_all(orders) == []
    assert trash(world).purge_all(orders) == []  # another command was faster
    assert [entry.record.spec.name for entry in trash(world).all()] == ["young"]
    assert len(world.volumes.trash.images) == 1
    assert trash(world).purge_all(trash(world).plan_purge(None, everything=True)) == []
    assert trash(world).all() == []


def test_what_has_had_its_time_goes_and_one_that_cannot_holds_up_no_other(world: World) -> None:
    kept = []
    for name in ("first", "second", "third"):
        world.create(name)
        kept.append(trash(world).trash(name, keep_days=1))
    assert trash(world).purge_expired() == []
    world.clock.sleep(24 * 3600.0)
    assert kept[0] is not None
    world.volumes.trash.with_clones.add(kept[0].volume.image_id)
    with hold_lock(world.home, f"db.{LAB}.second", world.clock):
        purged = trash(world).purge_expired()
    found = {one.database: one.problem.code if one.problem else "gone" for one in purged}
    assert found == {"first": "has-clones", "second": "busy", "third": "gone"}
    world.volumes.trash.with_clones.clear()
    assert [one.problem for one in trash(world).purge_expired()] == [None, None]
    assert trash(world).all() == []


def test_the_one_deleted_last_is_meant_unless_a_key_says_otherwise(world: World) -> None:
    for _ in range(2):
        world.create()
        trash(world).trash("demo")
        world.clock.sleep(60.0)
    first, last = trash(world).all()
    assert decide_meant("demo", [last, first]) == last
    assert decide_meant(first.key, [first, last]) == first
    assert decide_expired([last, first], last.expires_at) == [first, last]
    with pytest.raises(NotFoundError) as error:
        decide_meant("dmeo", [first, last])
    assert "'demo'" in error.value.remedy


@pytest.mark.parametrize(("days", "is_right"), [(0, False), (1, True), (365, True), (366, False)])
def test_days_in_the_trash(world: World, days: int, is_right: bool) -> None:
    now = world.clock.now()
    if is_right:
        assert decide_expiry(now, days) == now + timedelta(days=days)
    else:
        with pytest.raises(UsageError):
            decide_expiry(now, days)
