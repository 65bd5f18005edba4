"""Growing a volume: image, device and file system, attached or not."""

from __future__ import annotations

import pytest

from grampus.core.errors import NotFoundError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.hosts.port import HostUnreachableError
from tests.unit.operation_runner import planned
from tests.unit.volumes.machine import VolumeHost

from .world import IMAGE, World


def _sizes(world: World, host: VolumeHost) -> tuple[int, int, int, int]:
    """Of record, image, device and file system."""
    attachment = world.service().get("demo").attachment
    assert attachment is not None
    return (
        world.service().get("demo").spec.size_bytes,
        world.image.size_bytes,
        host._device_size(attachment.device),
        world.image.filesystem_bytes,
    )


@pytest.mark.parametrize(
    ("capabilities", "driver"), [(("fuse",), "volumed"), (("krbd",), "krbd"), (("nbd",), "nbd")]
)
def test_grows_while_it_is_attached(
    world: World, capabilities: tuple[str, ...], driver: str
) -> None:
    world.h1.capabilities = capabilities
    world.build_volumed()
    world.create()
    before = world.attach()
    assert before.driver == driver
    world.resize("demo", 2 * GIB)
    assert _sizes(world, world.h1) == (2 * GIB, 2 * GIB, 2 * GIB, 2 * GIB)
    assert world.service().get("demo").attachment == before
    assert world.journal.unfinished("t") == []


def test_detached_only_the_image_grows_and_the_file_system_at_the_next_attach(
    world: World,
) -> None:
    world.create()
    world.attach()
    world.service().ensure_detached("demo")
    commands = len(world.h1.commands)
    world.resize("demo", 2 * GIB)
    assert len(world.h1.commands) == commands
    assert (world.image.size_bytes, world.image.filesystem_bytes) == (2 * GIB, GIB)
    world.attach(host="h2")
    assert _sizes(world, world.h2) == (2 * GIB, 2 * GIB, 2 * GIB, 2 * GIB)


def test_a_dead_attachment_grows_when_it_is_mended(world: World) -> None:
    world.build_volumed()
    world.create()
    world.attach()
    world.h1.kill_daemon("volumed-demo")
    world.resize("demo", 2 * GIB)
    world.attach()
    assert _sizes(world, world.h1) == (2 * GIB, 2 * GIB, 2 * GIB, 2 * GIB)


def test_sizes_are_rounded_up_to_whole_mib(world: World) -> None:
    world.create()
    assert world.service().plan_resize("demo", GIB + 1).size_bytes == GIB + MIB


def test_the_size_that_it_has_already_is_checked_and_changes_nothing(world: World) -> None:
    world.build_volumed()
    world.create()
    world.attach()
    before = world.inventory()
    world.resize("demo", GIB)
    assert world.inventory() == before


@pytest.mark.parametrize(
    ("size_bytes", "code"), [(GIB - 1, None), (GIB - MIB, "shrink"), (102 * GIB, "pool-full")]
)
def test_what_cannot_be_is_refused_and_says_why(
    world: World, size_bytes: int, code: str | None
) -> None:
    world.create()
    if code is None:
        assert world.service().plan_resize("demo", size_bytes).size_bytes == GIB
        return
    with pytest.raises(RefusedError) as caught:
        world.service().plan_resize("demo", size_bytes)
    assert caught.value.code == code
    assert world.image.size_bytes == GIB


def test_room_is_asked_for_what_is_added_alone(world: World) -> None:
    world.create()
    world.cluster.available_bytes = GIB
    assert world.service().plan_resize("demo", 2 * GIB).size_bytes == 2 * GIB


def test_an_image_that_was_grown_by_hand_is_never_cut(world: World) -> None:
    world.create()
    world.cluster.images[IMAGE].size_bytes = 4 * GIB
    with pytest.raises(RefusedError, match=r"has 4 GiB\. It cannot shrink to 2 GiB"):
        world.service().plan_resize("demo", 2 * GIB)
    world.resize("demo", 4 * GIB)
    assert world.service().get("demo").spec.size_bytes == 4 * GIB


def test_qsd_cannot_grow_and_says_what_to_do(world: World) -> None:
    world.create()
    world.attach()
    with pytest.raises(RefusedError, match="attached through qsd, which cannot grow") as caught:
        world.service().plan_resize("demo", 2 * GIB)
    assert caught.value.code == "cannot-grow"
    assert "grampus volume detach demo" in caught.value.remedy
    # Begun while it could, a resize is finished all the same; the next attachment shows it.
    world.service().ensure_size("demo", 2 * GIB)
    world.service().ensure_detached("demo")
    world.attach()
    assert _sizes(world, world.h1) == (2 * GIB, 2 * GIB, 2 * GIB, 2 * GIB)


def test_host_that_is_away_is_waited_for(world: World) -> None:
    world.build_volumed()
    world.create()
    world.attach()
    world.h1.up = False
    with pytest.raises(HostUnreachableError, match="attached to it") as caught:
        world.service().plan_resize("demo", 2 * GIB)
    assert "volume fence demo" in caught.value.remedy


def test_file_system_of_a_part_keeps_its_size(world: World) -> None:
    world.build_volumed()
    spec = world.service().plan_create("demo", "databases", GIB)
    world.service().ensure_created(spec.model_copy(update={"filesystem_bytes": 400 * MIB}))
    world.attach()
    world.resize("demo", 2 * GIB)
    assert _sizes(world, world.h1) == (2 * GIB, 2 * GIB, 2 * GIB, 400 * MIB)


def test_unknown_volume_is_not_found(world: World) -> None:
    with pytest.raises(NotFoundError):
        world.service().plan_resize("demo", GIB)


def test_plan_says_what_happens_now_and_what_later(world: World) -> None:
    world.build_volumed()
    world.create()
    before = world.inventory()
    plan = planned(world.runner, lambda: world.resize("demo", 2 * GIB))
    assert plan[-1] == "Grow its file system at the next attach"
    assert world.inventory() == before
    world.attach()
    before = world.inventory()
    plan = planned(world.runner, lambda: world.resize("demo", 2 * GIB))
    assert world.inventory() == before
    assert plan == [
        "Grow the image databases/demo.1/demo to 2 GiB",
        "Record the size of 'demo'",
        "Grow its block device",
        "Grow its file system",
    ]
