"""INV-2, INV-25, INV-74: volumes are taken from lost hosts, and cleared away there later on."""

from __future__ import annotations

import pytest

from tests.fakes.interruption import Killed

from .world import IMAGE, LAB, MOUNT, World


@pytest.fixture
def lost(world: World) -> World:
    """A volume attached to h1, which is cut off since."""
    world.build_volumed()
    world.create()
    world.attach()
    world.cut_off(world.h1)
    return world


def test_it_is_fenced_and_attached_elsewhere(lost: World) -> None:
    client = lost.service().get("demo").attachment.client_address  # type: ignore[union-attr]
    lost.service().takeovers.ensure_fenced("demo", "h1")
    assert lost.cluster.blocklist == [client]
    lost.attach(host="h2")
    assert lost.image.data == "precious"


def test_what_is_left_on_a_host_that_is_cut_from_the_cluster_waits(world: World) -> None:
    """Commands run there, but an unmount would wait for the cluster."""
    world.build_volumed()
    world.create()
    world.attach()
    world.fleet.cut_from_cluster.add("h1")
    world.service().takeovers.ensure_fenced("demo", "h1")
    asked = len(world.h1.commands)
    world.attach(host="h2")
    assert world.image.data == "precious"
    assert [argv for argv in world.h1.commands[asked:] if argv[0] == "umount"] == []
    world.fleet.cut_from_cluster.clear()
    world.service().takeovers.ensure_cleared("demo")
    assert world.service().get("demo").fenced == ()


def test_the_driver_of_a_fenced_volume_is_killed_before_anything_waits_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not know of its fence yet, and a server that writes nothing keeps its files open."""
    world.build_volumed()
    world.create()
    world.attach()
    world.service().takeovers.ensure_fenced("demo", "h1")
    killed: list[tuple[str, bool]] = []
    ensure_absent = world.h1.ensure_daemon_absent

    def noted(name: str, *, kill: bool = False) -> None:
        if not killed:
            assert [argv for argv in world.h1.commands[asked:] if "umount" in argv] == []
        killed.append((name, kill))
        ensure_absent(name, kill=kill)

    monkeypatch.setattr(world.h1, "ensure_daemon_absent", noted)
    asked = len(world.h1.commands)
    world.service().takeovers.ensure_cleared("demo")
    assert killed[0] == ("volumed-demo", True)
    assert [argv for argv in world.h1.commands[asked:] if "ctl" in argv and "stop" in argv] == []
    assert world.service().get("demo").fenced == ()


def test_from_another_host_than_it_is_on_nothing_is_taken(lost: World) -> None:
    lost.service().takeovers.ensure_fenced("demo", "h2")
    assert lost.service().get("demo").host == "h1"
    assert lost.cluster.blocklist == []


def test_an_attaching_that_left_no_client_is_fenced_by_its_key(world: World) -> None:
    """Of a lost host nobody can find out more: whoever has the key is cut off, seen or not."""
    world.build_volumed()
    world.create()
    record = world.service().get("demo").model_copy(update={"host": "h1"})
    world.store.put("volume", LAB, "demo", record)
    world.service().takeovers.ensure_fenced("demo", "h1")
    fenced = world.service().get("demo")
    assert (fenced.host, [left.host for left in fenced.fenced]) == (None, ["h1"])
    assert world.cluster.users == {}
    world.attach(host="h2")


def test_killed_while_an_attachment_began_it_is_fenced_all_the_same(world: World) -> None:
    world.build_volumed()
    world.create()
    for point in range(200):
        world.fuse.left, world.fuse.error = point, Killed()
        try:
            world.service().ensure_attached("demo", "h1")
        except Killed:
            pass
        else:
            break
        world.cut_off(world.h1)
        world.fuse.left = None
        world.service().takeovers.ensure_fenced("demo", "h1")
        assert world.service().get("demo").host is None
        assert world.cluster.watchers(IMAGE) == [], f"killed at {point}"
        world.h1.up = True
        world.service().takeovers.ensure_cleared("demo")
    assert point > 5


def test_log_of_a_lost_host_is_known_and_given_up(world: World) -> None:
    world.build_volumed()
    world.create(write_path="cache")
    world.attach()
    world.cut_off(world.h1)
    takeovers = world.service().takeovers
    assert takeovers.find_needed_log("demo") == "h1"
    takeovers.ensure_fenced("demo", "h1")
    assert takeovers.find_needed_log("demo") is None
    world.attach(host="h2")


def test_volume_goes_while_its_former_host_is_away_and_is_cleared_there_later(
    lost: World,
) -> None:
    takeovers = lost.service().takeovers
    takeovers.ensure_fenced("demo", "h1")
    volume = lost.service().get("demo")
    takeovers.ensure_absent("demo", volume.spec)
    assert IMAGE not in lost.cluster.images
    assert MOUNT in lost.h1.mounts
    lost.h1.up = True
    assert takeovers.ensure_left_cleared(volume, "h1")
    assert MOUNT not in lost.h1.mounts
    assert lost.h1.daemons == {}
    assert lost.service().find("demo") is None


def test_log_of_a_volume_that_is_gone_is_removed_when_its_host_is_back(world: World) -> None:
    world.build_volumed()
    world.create(write_path="cache")
    world.attach()
    world.cut_off(world.h1)
    takeovers = world.service().takeovers
    takeovers.ensure_fenced("demo", "h1")
    volume = world.service().get("demo")
    takeovers.ensure_absent("demo", volume.spec)
    directory = world.local_directory()
    assert [path for path in world.h1.files if path.is_relative_to(directory)]
    world.h1.up = True
    assert takeovers.ensure_left_cleared(volume, "h1")
    assert not [path for path in world.h1.files if path.is_relative_to(directory)]
