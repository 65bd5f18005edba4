"""INV-57: volumes, images and cephx users are changed by their ids, not by their names alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from grampus.core.errors import RefusedError
from grampus.core.units import GIB
from grampus.volumes.decide_identity import is_own_client, is_own_image, is_same_volume
from grampus.volumes.decide_namespace import decide_capabilities
from grampus.volumes.model import VolumeRecord, VolumeSpec
from tests.fakes.interruption import Killed

from .cluster import POOL, Image
from .test_trash import EXPIRES, trashed
from .world import LAB, World

USER = f"client.grampus.{LAB}.demo"
FOREIGN_CAPS = {"mon": "profile rbd", "osd": "profile rbd pool=theirs"}


def _spec(identity: str = "a", image: str = "demo.1/demo", name: str = "demo") -> VolumeSpec:
    return VolumeSpec(name=name, pool=POOL, image=image, size_bytes=GIB, identity=identity)


def _default_spec(world: World) -> VolumeSpec:
    """A volume whose image is in the default namespace, where anybody may make one."""
    spec = world.service().plan_create("demo", POOL, GIB)
    return spec.model_copy(update={"namespace": "default"})


def test_each_image_bears_the_id_of_its_volume(world: World) -> None:
    world.create("demo")
    world.create("other")
    noted = [image.metadata["grampus.identity"] for image in world.cluster.images.values()]
    assert noted == [world.service().get(name).spec.identity for name in ("demo", "other")]
    assert len(set(noted)) == 2


def test_an_image_made_meanwhile_is_not_taken_over_and_stays(world: World) -> None:
    spec, service = _default_spec(world), world.service()
    before = world.inventory()

    def somebody_is_faster() -> None:
        world.cluster.images[f"{POOL}/demo"] = Image(GIB, data="theirs")

    world.cluster.before_image = somebody_is_faster
    with pytest.raises(RefusedError, match="did not create it") as refused:
        service.create(spec)
    assert refused.value.code == "image-exists"
    assert world.cluster.images[f"{POOL}/demo"].data == "theirs"
    del world.cluster.images[f"{POOL}/demo"]
    assert world.inventory() == before


@pytest.mark.parametrize("caps", [FOREIGN_CAPS, {}])
def test_a_cephx_user_of_somebody_else_is_neither_taken_over_nor_removed(
    world: World, caps: Mapping[str, str]
) -> None:
    world.cluster.users[USER] = dict(caps)
    before = world.inventory()
    with pytest.raises(RefusedError, match="Grampus did not create") as refused:
        world.create()
    assert refused.value.code == "client-exists"
    assert world.inventory() == before


def test_a_deletion_leaves_a_cephx_user_that_is_another(world: World) -> None:
    world.create()
    world.cluster.users[USER] = dict(FOREIGN_CAPS)
    world.service().delete("demo")
    assert world.cluster.users == {USER: FOREIGN_CAPS}
    assert world.cluster.images == {}


def test_a_creation_that_was_cut_off_leaves_another_volume_of_its_name(world: World) -> None:
    spec = world.service().plan_create("demo", POOL, GIB)
    world.create()
    world.attach()
    world.journal.begin("volume.create", LAB, "demo", spec.model_dump(mode="json"))
    before = world.inventory()
    (sentence,) = world.service().converge()
    assert "is now undone" in sentence or "closed" in sentence
    assert world.inventory() == {**before, "unfinished": []}
    assert world.image.data == "precious"


def test_a_deletion_that_was_cut_off_leaves_another_volume_of_its_name(world: World) -> None:
    world.create()
    world.journal.dies_after = ("volume.delete", "journal")
    with pytest.raises(Killed):
        world.service().delete("demo")
    record = world.service().get("demo")
    other = record.spec.model_copy(update={"identity": "another"})
    world.service()._records.put(record.model_copy(update={"spec": other}))
    (sentence,) = world.service().converge()
    assert "It is closed without a change, because another one has that name now" in sentence
    assert world.service().get("demo").spec.identity == "another"
    assert len(world.cluster.images) == 1


def test_what_goes_to_the_trash_is_the_volume_that_is_meant(world: World) -> None:
    volume = trashed(world)
    world.create()
    world.attach()
    before = world.inventory()
    world.service().trash.ensure_trashed(volume, EXPIRES)  # once more
    assert world.inventory() == before


def test_a_volume_is_not_renamed_over_another_one(world: World) -> None:
    world.create("demo")
    world.create("other")
    before = world.inventory()
    with pytest.raises(RefusedError) as refused:
        world.service().trash.ensure_renamed("demo", "other", "db-other")
    assert refused.value.code == "exists"
    assert world.inventory() == before


def test_no_volume_is_made_while_a_database_of_its_name_is(world: World) -> None:
    world.journal.begin("db.create", LAB, "demo", {}, takes="demo")
    with pytest.raises(RefusedError, match=r"'demo' is reserved by the operation db\.create"):
        world.create()
    assert world.service().all() == []


@pytest.mark.parametrize(
    ("found", "meant", "expected"),
    [
        (_spec("a"), _spec("a"), True),
        (_spec("a"), _spec("b"), False),
        (_spec("a"), _spec(""), False),  # an older release did not create it
        (_spec(""), _spec("a"), True),
        (_spec("", "demo.1/db-demo"), _spec("a", "db-demo"), True),
        (_spec("", "demo.1/demo"), _spec("a", "db-demo"), False),  # a user made it
        (_spec("", "demo"), _spec("", "demo"), True),
    ],
)
def test_which_volume_is_meant(found: VolumeSpec, meant: VolumeSpec, expected: bool) -> None:
    assert is_same_volume(found, meant) is expected


@pytest.mark.parametrize(
    ("spec", "noted", "expected"),
    [
        (_spec("a", "demo.1/demo"), None, True),
        (_spec("a", "demo.1/demo"), "b", True),  # a clone that has its parent's facts yet
        (_spec("a", "demo"), "a", True),
        (_spec("a", "demo"), "b", False),
        (_spec("a", "demo"), None, False),
        (_spec("", "demo"), None, True),  # of an older release
    ],
)
def test_whose_an_image_is(spec: VolumeSpec, noted: str | None, expected: bool) -> None:
    assert is_own_image(spec, noted) is expected


@pytest.mark.parametrize("image", ["demo.1/demo", "demo"])
def test_whose_a_cephx_user_is(image: str) -> None:
    record = VolumeRecord(spec=_spec("a", image), ceph_user="grampus.t.demo")
    assert is_own_client(record, decide_capabilities(record))
    assert not is_own_client(record, FOREIGN_CAPS)
    assert not is_own_client(record, {})
    older = VolumeRecord(spec=_spec("", image), ceph_user="grampus.t.demo")
    assert is_own_client(older, FOREIGN_CAPS)
