"""INV-2, INV-25: a fence cuts off exactly the volume's client, then the volume goes elsewhere."""

from __future__ import annotations

import pytest

from grampus.ceph.cluster import BLOCKLIST_EXPIRE_S
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.hosts.mounts import BUSY_TIMEOUT_S
from grampus.hosts.port import HostUnreachableError
from tests.fakes.interruption import Killed
from tests.unit.operation_runner import planned

from .world import IMAGE, LAB, MOUNT, World


@pytest.fixture
def attached(world: World) -> World:
    """A volume attached to h1 through volumed, and a neighbour there."""
    world.build_volumed()
    world.create()
    world.attach()
    world.create("other")
    world.attach("other")
    return world


def _fence(world: World) -> None:
    world.service().fence("demo")


def test_exactly_its_client_is_cut_off_and_its_neighbour_is_not(attached: World) -> None:
    client = attached.service().get("demo").attachment.client_address  # type: ignore[union-attr]
    _fence(attached)
    assert attached.cluster.blocklist == [client]
    assert attached.service().is_attached("other")
    assert not attached.service().is_attached("demo")
    assert attached.cluster.watchers(IMAGE) == []
    assert attached.image.lock is None


def test_it_outlives_every_ticket_and_the_key_is_gone(attached: World) -> None:
    _fence(attached)
    (added,) = [argv for argv in attached.cluster.commands if "blocklist" in argv and "add" in argv]
    assert int(added[-1]) == BLOCKLIST_EXPIRE_S >= 8 * 3 * 3600
    assert sorted(attached.cluster.users) == ["client.grampus.t.other"]


def test_a_client_that_comes_in_before_the_key_is_gone_is_cut_off_too(attached: World) -> None:
    attached.cluster.late_client = (IMAGE, f"grampus.{LAB}.demo", attached.h1.address)
    _fence(attached)
    assert attached.cluster.late_client is None
    assert len(attached.cluster.blocklist) == 2
    assert attached.cluster.watchers(IMAGE) == []
    assert attached.image.lock is None
    assert attached.service().is_attached("other")


def test_what_is_left_is_recorded_until_it_is_cleared_away(attached: World) -> None:
    client = attached.service().get("demo").attachment.client_address  # type: ignore[union-attr]
    _fence(attached)
    record = attached.service().get("demo")
    assert (record.host, record.attachment) == (None, None)
    (left,) = record.fenced
    assert (left.host, left.driver, left.client_addresses) == ("h1", "volumed", (client,))
    assert (left.expires_at - left.fenced_at).total_seconds() == BLOCKLIST_EXPIRE_S
    assert MOUNT in attached.h1.mounts
    attached.attach()
    assert attached.service().get("demo").fenced == ()
    assert attached.image.data == "precious"


def test_repeated_it_changes_nothing(attached: World) -> None:
    _fence(attached)
    before, commands = attached.inventory(), len(attached.cluster.commands)
    assert attached.service().plan_fence("demo") is None
    assert planned(attached.runner, lambda: _fence(attached)) == []
    _fence(attached)
    assert attached.inventory() == before
    assert not [argv for argv in attached.cluster.commands[commands:] if "add" in argv]


def test_a_lost_hosts_volume_is_attached_elsewhere_and_cleared_when_it_is_back(
    attached: World,
) -> None:
    attached.cut_off(attached.h1)
    with pytest.raises(RefusedError, match="attached to h1") as caught:
        attached.service().ensure_attached("demo", "h2")
    assert "grampus volume fence demo" in caught.value.remedy
    _fence(attached)
    attachment = attached.attach(host="h2")  # RbdCluster fails the test on a second writer
    assert attached.cluster.watchers(IMAGE) == [attachment.client_address]
    assert attached.image.data == "precious"
    assert [left.host for left in attached.service().get("demo").fenced] == ["h1"]
    attached.h1.up = True
    attached.service().ensure_detached("demo")
    assert MOUNT not in attached.h1.mounts
    assert sorted(attached.h1.daemons) == ["volumed-other"]
    assert attached.service().get("demo").fenced == ()


def test_what_is_left_elsewhere_is_cleared_while_it_is_attached(attached: World) -> None:
    attached.cut_off(attached.h1)
    _fence(attached)
    attached.attach(host="h2")
    attached.h1.up = True
    attached.service().takeovers.ensure_cleared("demo")
    assert MOUNT not in attached.h1.mounts
    assert attached.service().get("demo").fenced == ()
    assert attached.service().is_attached("demo")


def test_nobody_waits_for_what_is_left_on_a_host_that_answers(attached: World) -> None:
    """A server there that notices nothing keeps its files open."""
    _fence(attached)
    asked = len(attached.h1.commands)
    attached.attach(host="h2")
    assert attached.h1.commands[asked:] == []
    assert "volumed-demo" in attached.h1.daemons
    attached.service().takeovers.ensure_cleared("demo")
    assert sorted(attached.h1.daemons) == ["volumed-other"]
    assert attached.service().get("demo").fenced == ()


def test_what_cannot_be_cleared_elsewhere_waits_and_hinders_nothing(attached: World) -> None:
    _fence(attached)

    def refuse(target: object) -> tuple[int, str]:
        return 32, f"umount: {target}: target is busy."

    attached.h1._umount = refuse  # type: ignore[method-assign]
    started_s = attached.clock.monotonic_s()
    attached.attach(host="h2")
    attached.service().takeovers.ensure_cleared("demo")
    assert attached.clock.monotonic_s() - started_s < BUSY_TIMEOUT_S, "users wait for nothing"
    assert [left.host for left in attached.service().get("demo").fenced] == ["h1"]
    attached.service().ensure_detached("demo")
    with pytest.raises(GrampusError, match=r"in use by mysqld \(PID 4711\)"):
        attached.service().ensure_attached("demo", "h1")


def test_deleting_waits_for_the_host_that_still_has_something(attached: World) -> None:
    attached.cut_off(attached.h1)
    _fence(attached)
    with pytest.raises(HostUnreachableError, match="still has remains of the volume"):
        attached.service().delete("demo")
    assert IMAGE in attached.cluster.images
    attached.h1.up = True
    attached.service().converge()
    assert IMAGE not in attached.cluster.images


def test_a_volume_that_is_not_attached_is_refused(world: World) -> None:
    world.create()
    with pytest.raises(RefusedError, match="no client to fence") as caught:
        _fence(world)
    assert caught.value.code == "not-attached"
    assert world.cluster.blocklist == []


def test_unknown_volume_is_not_found(world: World) -> None:
    with pytest.raises(NotFoundError):
        _fence(world)


def test_our_own_commands_are_never_cut_off(attached: World) -> None:
    """An administrator's client has taken the lock, on the host of the volume."""
    attached.h1.kill_daemon("volumed-demo")
    attached.cluster.users["client.admin"] = {}
    admin = attached.cluster.open_image(IMAGE, "admin", attached.h1.address)
    with pytest.raises(
        RefusedError, match=f"client.admin at {admin.address} has the lock"
    ) as caught:
        _fence(attached)
    assert caught.value.code == "in-use"
    attached.cluster.close_image(IMAGE, admin)
    _fence(attached)
    assert admin.address not in attached.cluster.blocklist


def test_an_attachment_that_was_cut_off_before_it_was_recorded(world: World) -> None:
    """Its client is known by its user alone."""
    world.build_volumed()
    world.create()
    for point in range(200):
        world.fuse.left, world.fuse.error = point, Killed()
        with pytest.raises(Killed):
            world.service().ensure_attached("demo", "h1")
        if world.cluster.watchers(IMAGE):
            break
    assert world.service().get("demo").attachment is None
    world.cut_off(world.h1)
    (client,) = world.cluster.watchers(IMAGE)
    _fence(world)
    assert world.cluster.blocklist[-1] == client
    assert world.service().get("demo").fenced[0].driver is None
    world.attach(host="h2")


def test_an_attaching_that_left_no_client_waits_for_its_host(world: World) -> None:
    world.create()
    record = world.service().get("demo").model_copy(update={"host": "h1"})
    world.store.put("volume", LAB, "demo", record)
    with pytest.raises(RefusedError, match="before its client was known") as caught:
        _fence(world)
    assert caught.value.code == "client-unknown"


def test_a_fence_that_the_cluster_does_not_confirm_is_no_fence(attached: World) -> None:
    attached.cluster.forgets_blocklist = True
    with pytest.raises(GrampusError, match=r"does not list .* as fenced") as caught:
        _fence(attached)
    assert caught.value.code == "not-fenced"
    assert attached.service().get("demo").attachment is not None
    attached.cluster.forgets_blocklist = False
    assert attached.service().converge() == [
        "The fence of the volume demo was interrupted. It is now finished."
    ]
    assert attached.service().get("demo").attachment is None


def test_plan_names_the_exact_address(attached: World) -> None:
    service = attached.service()
    order = service.plan_fence("demo")
    assert order is not None
    before = attached.inventory()
    plan = planned(attached.runner, lambda: service.fence("demo"))
    assert plan[0] == f"Blocklist {order.client_addresses[0]} for 24 hours"
    assert len(plan) == 6
    assert attached.inventory() == before


def test_a_dry_run_leaves_what_the_fence_left(attached: World) -> None:
    _fence(attached)
    before, service = attached.inventory(), attached.service()
    clear = "Remove the remains on h1 from before the fence, if the host can be reached"
    assert planned(attached.runner, lambda: service.ensure_detached("demo")) == [clear]
    # On the target it goes before the volume is attached, elsewhere nobody waits for it.
    assert planned(attached.runner, lambda: service.ensure_attached("demo", "h1"))[0] == clear
    assert planned(attached.runner, lambda: service.ensure_attached("demo", "h2"))[-1] == clear
    assert attached.inventory() == before
    attached.cut_off(attached.h1)
    service.ensure_attached("demo", "h2")
    attached.h1.up = True
    before = attached.inventory()
    cleared = planned(attached.runner, lambda: service.takeovers.ensure_cleared("demo"))
    assert cleared == [clear]
    assert attached.inventory() == before
    service.takeovers.ensure_cleared("demo")
    assert service.get("demo").fenced == ()
