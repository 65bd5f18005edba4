"""Each volume in a namespace of its own, with a key that opens nothing else.

The fake cluster fails a test when a key opens what it was not given, when something is made in a
namespace that is not there, and when a key is given a whole pool.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB
from grampus.volumes.model import CloneSource, VolumeRecord, VolumeSpec
from tests.fakes.interruption import Killed, stopped_runs

from .cluster import POOL, Image
from .world import LAB, World, prepared

EXPIRES = datetime(2026, 11, 29, 1, 2, 3, tzinfo=UTC)
LEGACY = VolumeRecord(
    spec=VolumeSpec(name="old", pool=POOL, image="db-old", size_bytes=GIB),
    ceph_user=f"grampus.{LAB}.old",
    is_formatted=True,
)


def osd_grants(world: World, name: str) -> list[str]:
    """What the key of a volume may do, grant by grant."""
    return world.cluster.users[f"client.grampus.{LAB}.{name}"]["osd"].split(", ")


def own_grant(name: str) -> str:
    return f"profile rbd pool={POOL} namespace={name}.1"


def reading_grant(name: str) -> str:
    return f"profile rbd-read-only pool={POOL} namespace={name}.1"


def snapshot_of(world: World, name: str, snapshot: str = "before") -> CloneSource:
    """A snapshot of an attached volume, to be cloned."""
    service = world.service()
    if service.get(name).host is None:
        service.ensure_attached(name, "h1")
    service.ensure_snapshot(name, snapshot)
    spec = service.get(name).spec
    return CloneSource(pool=spec.pool, image=spec.image, snapshot=snapshot)


def clone(world: World, source: CloneSource, name: str) -> VolumeRecord:
    spec = VolumeSpec(name=name, pool=POOL, image=f"db-{name}", size_bytes=GIB)
    return world.service().ensure_cloned(spec, source)


def cloned(world: World) -> None:
    """`copy`, a clone of `demo`, attached to h2."""
    world.create()
    clone(world, snapshot_of(world, "demo"), "copy")
    world.service().ensure_attached("copy", "h2")


def legacy(world: World) -> None:
    """A volume as releases without namespaces made it: its key may do all in the whole pool."""
    world.store.put("volume", LAB, "old", LEGACY)
    world.cluster.images[f"{POOL}/db-old"] = Image(
        GIB, has_filesystem=True, filesystem_bytes=GIB, was_mounted=True, data="precious"
    )
    world.cluster.users[f"client.{LEGACY.ceph_user}"] = {
        "mon": "profile rbd",
        "osd": f"profile rbd pool={POOL}",
    }


def test_two_volumes_open_nothing_of_one_another(world: World) -> None:
    world.create()
    world.create("other")
    assert world.cluster.namespaces == {f"{POOL}/demo.1", f"{POOL}/other.1"}
    assert osd_grants(world, "demo") == [own_grant("demo")]
    assert osd_grants(world, "other") == [own_grant("other")]
    with pytest.raises(AssertionError, match=r"may not open databases/other\.1/other"):
        world.cluster.open_image(f"{POOL}/other.1/other", f"grampus.{LAB}.demo", "10.9.0.11")


def test_a_namespace_goes_with_its_volume(world: World) -> None:
    before = world.inventory()
    world.create()
    world.attach()
    world.service().delete("demo")
    assert world.inventory() == before


def test_a_clone_reads_what_is_below_it_and_no_more(world: World) -> None:
    cloned(world)
    clone(world, snapshot_of(world, "copy", "again"), "third")
    world.service().ensure_attached("third", "h1")
    assert osd_grants(world, "copy") == [own_grant("copy"), reading_grant("demo")]
    assert osd_grants(world, "third") == [
        own_grant("third"),
        reading_grant("copy"),
        reading_grant("demo"),
    ]
    assert osd_grants(world, "demo") == [own_grant("demo")]


def test_flattened_it_reads_nothing_else(world: World) -> None:
    cloned(world)
    world.service().ensure_flattened("copy")
    assert osd_grants(world, "copy") == [own_grant("copy")]
    assert world.service().get("copy").shares_with == ()
    # What the copy's own key could not take away as the clone let go.
    assert world.cluster.swept == [f"{POOL}/demo.1/demo"]
    world.service().ensure_detached("copy")
    world.service().ensure_attached("copy", "h1")
    assert osd_grants(world, "copy") == [own_grant("copy")]


def test_snapshots_from_before_the_flattening_keep_what_they_need(world: World) -> None:
    cloned(world)
    world.service().ensure_snapshot("copy", "shared")
    world.service().ensure_flattened("copy")
    assert osd_grants(world, "copy") == [own_grant("copy"), reading_grant("demo")]
    with pytest.raises(RefusedError, match="clones that depend on it: copy"):
        world.service().delete("demo")
    world.service().ensure_snapshot_absent("copy", "shared")
    world.service().ensure_flattened("copy")
    assert osd_grants(world, "copy") == [own_grant("copy")]
    world.service().delete("demo")


def test_a_clone_of_what_was_flattened_needs_nothing_below_it(world: World) -> None:
    cloned(world)
    world.service().ensure_flattened("copy")
    clone(world, snapshot_of(world, "copy", "again"), "third")
    assert osd_grants(world, "third") == [own_grant("third"), reading_grant("copy")]


def test_a_clone_of_an_image_that_is_no_volume_reads_all_that_is_below_it(world: World) -> None:
    cloned(world)
    source = snapshot_of(world, "copy", "again")
    world.store.remove("volume", LAB, "copy")
    clone(world, source, "third")
    world.service().ensure_attached("third", "h1")
    assert osd_grants(world, "third") == [
        own_grant("third"),
        reading_grant("copy"),
        reading_grant("demo"),
    ]


def test_a_new_name_and_the_trash_leave_the_namespace(world: World) -> None:
    """So another volume of the old name has another namespace."""
    world.create()
    world.attach()
    trash = world.service().trash
    assert trash.ensure_renamed("demo", "store", "store").spec.image == "demo.1/store"
    assert osd_grants(world, "store") == [own_grant("demo")]
    world.create()
    assert world.service().get("demo").spec.image == "demo.2/demo"
    volume = trash.drain("store")
    trash.ensure_trashed(volume, EXPIRES)
    assert f"{POOL}/demo.1" in world.cluster.namespaces
    again = trash.ensure_restored(volume, "again", "again")
    assert (again.spec.image, osd_grants(world, "again")) == (
        "demo.1/again",
        [own_grant("demo")],
    )
    volume = trash.drain("again")
    trash.ensure_trashed(volume, EXPIRES)
    trash.ensure_purged(volume)
    assert world.cluster.namespaces == {f"{POOL}/demo.2"}


def test_what_others_purged_leaves_no_namespace_either(world: World) -> None:
    world.create()
    trash = world.service().trash
    volume = trash.drain("demo")
    trash.ensure_trashed(volume, EXPIRES)
    world.cluster.trash.clear()
    trash.ensure_purged(volume)
    assert world.cluster.namespaces == set()
    trash.ensure_purged(volume)  # nothing is left to do


def test_a_namespace_with_somebody_elses_image_stays(world: World) -> None:
    world.create()
    world.cluster.images[f"{POOL}/demo.1/theirs"] = Image(GIB, data="somebody else's")
    world.service().delete("demo")
    assert world.cluster.namespaces == {f"{POOL}/demo.1"}
    assert list(world.cluster.images) == [f"{POOL}/demo.1/theirs"]


def test_an_older_volume_goes_on_in_the_default_namespace(world: World) -> None:
    """And from its next attachment on its key opens no new volume."""
    world.build_volumed()
    legacy(world)
    world.create()
    service = world.service()
    service.ensure_attached("old", "h1")
    assert osd_grants(world, "old") == [f'profile rbd pool={POOL} namespace=""']
    with pytest.raises(AssertionError, match="may not open"):
        world.cluster.open_image(f"{POOL}/demo.1/demo", LEGACY.ceph_user, "10.9.0.11")
    service.resize(service.plan_resize("old", 2 * GIB))
    service.ensure_snapshot("old", "before")
    service.ensure_detached("old")
    service.ensure_rolled_back("old", "before")
    service.ensure_snapshot_absent("old", "before")
    trash = service.trash
    assert trash.ensure_renamed("old", "older", "db-older").spec.image == "db-older"
    volume = trash.drain("older")
    trash.ensure_trashed(volume, EXPIRES)
    restored = trash.ensure_restored(volume, "old", "db-old")
    assert (restored.spec.image, restored.spec.name) == ("db-old", "old")
    assert world.cluster.images[f"{POOL}/db-old"].data == "precious"
    service.delete("old")
    assert [name for name in world.cluster.images if "old" in name] == []
    assert world.cluster.namespaces == {f"{POOL}/demo.1"}


def test_a_clone_of_an_older_volume_has_a_namespace_and_reads_the_default_one(
    world: World,
) -> None:
    legacy(world)
    clone(world, snapshot_of(world, "old"), "copy")
    world.service().ensure_attached("copy", "h2")
    reading = f'profile rbd-read-only pool={POOL} namespace=""'
    assert osd_grants(world, "copy") == [own_grant("copy"), reading]
    world.service().ensure_flattened("copy")
    assert osd_grants(world, "copy") == [own_grant("copy")]


def test_an_older_clone_in_another_pool_reads_where_its_parent_is(world: World) -> None:
    legacy(world)
    source = snapshot_of(world, "old")
    spec = LEGACY.spec.model_copy(update={"name": "replica", "pool": "one", "image": "db-replica"})
    user = f"grampus.{LAB}.replica"
    record = VolumeRecord(spec=spec, ceph_user=user, is_formatted=True, source=source)
    world.store.put("volume", LAB, "replica", record)
    world.cluster.clone(f"{POOL}/db-old", "before", "one/db-replica")
    world.service().ensure_attached("replica", "h2")
    assert osd_grants(world, "replica") == [
        'profile rbd pool=one namespace=""',
        f'profile rbd-read-only pool={POOL} namespace=""',
    ]


def _created(world: World) -> None:
    world.create()
    world.attach()


@pytest.mark.parametrize("error", [Killed(), GrampusError("The call failed.")])
@pytest.mark.parametrize(
    ("start", "act"),
    [
        (lambda _world: None, lambda world: world.create()),
        (_created, lambda world: world.service().delete("demo")),
        (cloned, lambda world: world.service().ensure_flattened("copy")),
        (cloned, lambda world: world.service().delete("copy")),
        (legacy, lambda world: world.service().ensure_attached("old", "h1")),
    ],
    ids=["create", "delete", "flatten", "delete-clone", "narrow-an-older-key"],
)
def test_stopped_at_any_call_the_same_once_more_ends_the_same(
    tmp_path: Path,
    start: Callable[[World], None],
    act: Callable[[World], object],
    error: BaseException,
) -> None:
    """INV-22, INV-23, INV-50: no namespace, key or right is left, or missing."""
    whole = World(tmp_path / "whole")
    start(whole)
    act(whole)
    after = whole.inventory()
    whole.close()
    for point, world in stopped_runs(prepared(tmp_path, start), act, error, more_than=4):
        world.service().converge()
        if world.inventory() != after:
            act(world)
        assert world.inventory() == after, f"stopped at {point}"
