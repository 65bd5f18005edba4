"""A new master key: every volume opens at every moment, and none needs the former one after it."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_facts import ImageFact
from grampus.core.errors import GrampusError, NotFoundError
from grampus.volumes.decide_sealed import classify_sealed
from grampus.volumes.model import CloneSource
from grampus.volumes.records import VolumeRecords
from grampus.volumes.resealing import Resealing, RotatedMaster
from grampus.volumes.trash import TrashedVolume
from grampus.volumes.volume_keys import (
    MasterKey,
    make_volume_key,
    master_key_id,
    master_keys,
    seal_volume_key,
)
from tests.fakes.interruption import stopped_runs
from tests.unit.operation_runner import planned

from .cluster import POOL, Image
from .test_encryption import copy_spec, image_of, opens, snapped
from .world import LAB, World, prepared

KEY = "grampus.encryption.key"
EXPIRES = datetime(2026, 11, 29, 1, 2, 3, tzinfo=UTC)


class Trash:
    """What is in the trash of the lab, as databases know it."""

    def __init__(self) -> None:
        self.volumes: list[TrashedVolume] = []


def filled(world: World) -> Trash:
    """A volume in use with a clone, one that is detached, and one in the trash; one in clear."""
    world.build_volumed()
    world.service().clone(world.service().plan_clone(copy_spec(), snapped(world)))
    world.create("plain")
    for name in ("idle", "gone"):
        world.create(name, encryption="luks2")
    trash = Trash()
    trash.volumes.append(world.service().trash.drain("gone"))
    world.service().trash.ensure_trashed(trash.volumes[0], EXPIRES)
    return trash


def resealing(world: World, trash: Trash) -> Resealing:
    """As in a new process."""
    return Resealing(
        world.home,
        world.runner,
        world.clock,
        CephCluster(world.cluster),
        VolumeRecords(world.store, LAB),
        master_keys(world.home),
        lambda: trash.volumes,
        world.service().operations,
    )


def rotate(world: World, trash: Trash, *, makes_key: bool = True) -> RotatedMaster:
    return resealing(world, trash).rotate(makes_key=makes_key)


def encrypted(world: World) -> list[Image]:
    images = [*world.cluster.images.values(), *(one[0] for one in world.cluster.trash.values())]
    return [image for image in images if image.passphrase is not None]


def test_every_image_is_sealed_with_the_new_key_and_opens_without_the_former(
    world: World,
) -> None:
    trash = filled(world)
    keys = master_keys(world.home)
    former = keys.ensure_current()
    passphrases = [image.passphrase for image in encrypted(world)]
    rotated = rotate(world, trash)
    assert rotated.key == keys.ensure_current() != former
    assert (rotated.resealed, len(rotated.sealed.current)) == (4, 4)
    assert rotated.sealed.former == ()
    assert keys.ids() == sorted([former.id, rotated.key.id])  # older backups need the former
    (keys.directory / f"{former.id}.key").unlink()
    assert all(opens(world, image) for image in encrypted(world))
    assert [image.passphrase for image in encrypted(world)] == passphrases
    world.service().ensure_detached("demo")
    world.attach()


def test_nothing_is_opened_again_and_plain_images_are_left_alone(world: World) -> None:
    trash = filled(world)
    clients = [image.clients[:] for image in world.cluster.images.values()]
    rotate(world, trash)
    assert [image.clients for image in world.cluster.images.values()] == clients
    assert KEY not in image_of(world, "plain").metadata


def test_what_is_made_later_is_sealed_with_the_new_key(world: World) -> None:
    trash = filled(world)
    key = rotate(world, trash).key
    world.create("later", encryption="luks2")
    source = image_of(world, "demo")
    spec = copy_spec().model_copy(update={"name": "second", "image": "second"})
    parent = world.service().get("demo").spec.image
    from_demo = CloneSource(pool=POOL, image=parent, snapshot="before")
    world.service().clone(world.service().plan_clone(spec, from_demo))
    for name in ("later", "second"):
        assert master_key_id(image_of(world, name).metadata[KEY]) == key.id
    assert master_key_id(source.metadata[KEY]) == key.id


def test_stopped_at_any_call_every_image_opens_and_the_same_rotation_is_gone_on_with(
    tmp_path: Path,
) -> None:
    trash = Trash()

    def prepare(world: World) -> None:
        shutil.rmtree(master_keys(world.home).directory, ignore_errors=True)
        trash.volumes = filled(world).volumes

    def act(world: World) -> RotatedMaster:
        return rotate(world, trash)

    for point, world in stopped_runs(prepared(tmp_path, prepare), act, more_than=10):
        assert all(opens(world, image) for image in encrypted(world)), f"stopped at call {point}"
        world.service().converge()  # other commands leave it alone
        rotated = act(world)
        keys = master_keys(world.home)
        assert len(keys.ids()) == 2, f"stopped at call {point}"
        assert keys.find_next() is None
        assert rotated.sealed.former == ()
        assert len(rotated.sealed.current) == 4
        assert all(opens(world, image) for image in encrypted(world))
        assert world.journal.unfinished(LAB) == []


def test_volume_that_others_work_on_is_named_and_sealed_the_next_time(world: World) -> None:
    trash = filled(world)
    with ExitStack() as others:
        service = world.service()
        others.enter_context(service.operations.locked("idle"))
        with pytest.raises(GrampusError, match=r"former master key: idle\.") as caught:
            rotate(world, trash)
    assert caught.value.code == "sealed-before"
    assert all(opens(world, image) for image in encrypted(world))
    key = master_keys(world.home).ensure_current()
    rotated = rotate(world, trash)
    assert (rotated.key, rotated.resealed) == (key, 1)


def test_reseal_makes_no_key_and_takes_in_what_came_with_a_former_one(world: World) -> None:
    trash = filled(world)
    keys = master_keys(world.home)
    former = keys.ensure_current()
    key = rotate(world, trash).key
    image = image_of(world, "idle")
    secret = make_volume_key()
    image.passphrase, image.metadata[KEY] = (
        secret.get_secret_value(),
        seal_volume_key(secret, former),
    )
    rotated = rotate(world, trash, makes_key=False)
    assert (rotated.key, rotated.resealed) == (key, 1)
    assert opens(world, image)


def test_without_a_master_key_there_is_nothing_to_rotate(world: World) -> None:
    with pytest.raises(NotFoundError) as caught:
        rotate(world, Trash())
    assert caught.value.code == "no-volume-key"
    assert not master_keys(world.home).ids()


def test_plan_changes_nothing_and_counts(world: World) -> None:
    trash = filled(world)
    facts = [dict(image.metadata) for image in encrypted(world)]
    plan = planned(world.runner, lambda: rotate(world, trash))
    assert "Seal the keys of 4 images" in plan[1]
    assert "0 images" in planned(world.runner, lambda: rotate(world, trash, makes_key=False))[0]
    assert [image.metadata for image in encrypted(world)] == facts
    assert len(master_keys(world.home).ids()) == 1


def test_journal_holds_no_key(world: World) -> None:
    trash = filled(world)
    key = rotate(world, trash).key
    with world.store.transaction() as connection:
        rows = connection.execute("SELECT * FROM operations").fetchall()
    kept = str([tuple(row) for row in rows])
    assert key.id in kept
    assert key.render().split()[2] not in kept


OURS, OTHERS, AWAY = (MasterKey.make() for _ in range(3))


def fact(name: str, key: MasterKey | None, *, in_trash: bool = False) -> ImageFact:
    sealed = "rubbish" if key is None else seal_volume_key(make_volume_key(), key)
    return ImageFact(pool="p", name=name, id=name, in_trash=in_trash, fact=sealed)


@pytest.mark.parametrize(
    ("image", "where"),
    [
        (fact("a", OURS), "current"),
        (fact("a", OTHERS), "former"),
        (fact("a", AWAY), "closed"),
        (fact("a", None), "closed"),
        (fact("t", OTHERS, in_trash=True), "former"),
        (fact("a", OTHERS, in_trash=True), "foreign"),
        (fact("t", OTHERS), "foreign"),
        (fact("b", OURS), ""),
        (fact("b", AWAY), ""),
    ],
)
def test_images_of_others_are_none_of_ours_to_seal(image: ImageFact, where: str) -> None:
    ids = [OURS.id, OTHERS.id]
    sealed = classify_sealed([image], {("p", "a"): "vol"}, {"t": "old"}, OURS.id, ids)
    found = {
        name: len(getattr(sealed, name)) for name in ("current", "former", "closed", "foreign")
    }
    assert found == {name: int(name == where) for name in found}
