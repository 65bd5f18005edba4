"""INV-69: no command of ours takes the lock of a client that lives, whatever cuts it off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB
from grampus.volumes.asking import HEARD_FOR_S
from grampus.volumes.model import CloneSource

from .world import IMAGE, POOL, World

Command = Callable[[World], object]

COMMANDS: dict[str, Command] = {
    "snapshot": lambda world: world.service().ensure_snapshot("demo", "after"),
    "delete-snapshot": lambda world: world.service().ensure_snapshot_absent("demo", "before"),
    "release-snapshot": lambda world: world.service().ensure_snapshot_released("demo", "before"),
    "protect": lambda world: world.service().ensure_snapshot_protected(
        "demo", "before", protected=True
    ),
    "resize": lambda world: world.resize("demo", 2 * GIB),
    "flatten": lambda world: world.service().ensure_flattened("demo"),
}


@pytest.fixture(params=["direct", "journal"])
def attached(world: World, request: pytest.FixtureRequest) -> World:
    """A clone in use, with a snapshot."""
    world.build_volumed()
    world.create("source")
    world.attach("source")
    world.service().ensure_snapshot("source", "base")
    source = world.service().get("source").spec
    spec = source.model_copy(
        update={"name": "demo", "image": IMAGE.partition("/")[2], "write_path": request.param}
    )
    order = world.service().plan_clone(
        spec, CloneSource(pool=POOL, image=source.image, snapshot="base")
    )
    world.service().clone(order)
    world.attach()
    world.service().ensure_snapshot("demo", "before")
    if request.param == "journal":
        world.image.frames = 5
    return world


def cut_off(world: World, *, watch_has_ended: bool) -> str:
    address = world.image.lock
    assert address is not None
    world.cluster.cut_off.add(address)
    if watch_has_ended:
        world.cluster.unwatched.add(address)
    return address


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("watch_has_ended", [False, True])
def test_a_client_that_is_cut_off_keeps_its_lock(
    attached: World, command: str, watch_has_ended: bool
) -> None:
    address = cut_off(attached, watch_has_ended=watch_has_ended)
    with pytest.raises(RefusedError, match="does not answer the client on that host") as caught:
        COMMANDS[command](attached)
    assert caught.value.code == "owner-silent"
    assert attached.cluster.broken_locks == []
    assert attached.image.lock == address
    assert list(attached.image.snapshots) == ["before"]
    attached.cluster.cut_off.clear()
    attached.cluster.unwatched.clear()
    attached.service().converge()
    COMMANDS[command](attached)
    assert attached.cluster.broken_locks == []
    assert attached.image.lock == address


@pytest.mark.parametrize("command", COMMANDS)
def test_of_a_volumed_before_an_upgrade_its_watch_decides(attached: World, command: str) -> None:
    attached.cluster.are_volumeds_old = True
    address = cut_off(attached, watch_has_ended=True)
    with pytest.raises(RefusedError, match=f"receives nothing from the volume's client {address}"):
        COMMANDS[command](attached)
    assert attached.cluster.broken_locks == []
    attached.cluster.cut_off.clear()
    attached.cluster.unwatched.clear()
    attached.service().converge()
    COMMANDS[command](attached)
    assert attached.cluster.broken_locks == []


def test_a_volumed_takes_the_snapshot_itself(attached: World) -> None:
    attached.service().ensure_snapshot("demo", "after")
    assert attached.image.frames == 0
    commands = [command for command in attached.cluster.commands if "create" in command]
    assert not [command for command in commands if command[:2] == ("rbd", "snap")]
    attached.service().ensure_snapshot("demo", "after")  # once is enough


def test_a_volumed_that_cannot_take_it_is_not_gone_round(attached: World) -> None:
    attached.cluster.refuses_snapshots = True
    with pytest.raises(GrampusError, match="timed out") as caught:
        attached.service().ensure_snapshot("demo", "after")
    assert caught.value.code == "snapshot-failed"
    assert list(attached.image.snapshots) == ["before"]


def test_a_fenced_client_holds_nothing_up(attached: World) -> None:
    address = cut_off(attached, watch_has_ended=True)
    attached.cluster.blocklist.append(address)
    attached.cluster.cut_off.clear()
    attached.service().ensure_snapshot_absent("demo", "before")
    assert attached.image.snapshots == {}


@pytest.mark.parametrize("watch_has_ended", [False, True])
def test_notes_are_written_without_the_lock(attached: World, watch_has_ended: bool) -> None:
    cut_off(attached, watch_has_ended=watch_has_ended)
    attached.service().set_metadata("demo", {"flavour": "mysql"})
    assert attached.image.metadata["grampus.flavour"] == "mysql"
    assert attached.cluster.broken_locks == []


def test_a_command_beside_a_client_ends_before_the_watch_of_it_could(attached: World) -> None:
    asking = attached.service()._snapshots._asking
    record = attached.service().get("demo")
    assert asking.require_heard(record) == HEARD_FOR_S
    attached.cluster.are_volumeds_old = True
    assert asking.require_heard(record) is None
    attached.service().ensure_detached("demo")
    assert asking.require_heard(attached.service().get("demo")) is None


def test_a_flattening_is_ended_when_the_client_is_cut_off_meanwhile(attached: World) -> None:
    watch = attached.service()._snapshots._asking.watch(attached.service().get("demo"))
    assert watch.look() is None
    cut_off(attached, watch_has_ended=False)
    error = watch.look()
    assert error is not None
    assert error.code == "owner-silent"
