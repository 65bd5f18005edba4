"""Volumes in the trash: whole, out of the way, and killed at every call never lost."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.volumes.records import VolumeRecords
from grampus.volumes.trash import TrashedVolume
from tests.fakes.interruption import Killed, burn_points, is_stopped

from .cluster import POOL
from .world import LAB, World

EXPIRES = datetime(2026, 11, 29, 1, 2, 3, tzinfo=UTC)


def trashed(world: World) -> TrashedVolume:
    """A volume with data, moved into the trash."""
    world.create()
    world.attach()
    volume = world.service().trash.drain("demo")
    world.service().trash.ensure_trashed(volume, EXPIRES)
    return volume


def test_a_trashed_volume_leaves_its_name_and_its_key_free(world: World) -> None:
    before = world.inventory()
    trashed(world)
    after = world.inventory()
    assert {key: after[key] for key in ("images", "users", "records", "mounts", "daemons")} == {
        key: before[key] for key in ("images", "users", "records", "mounts", "daemons")
    }
    assert len(world.cluster.trash) == 1
    world.create()  # another one of that name


def test_a_move_done_again_leaves_the_record_of_a_volume_that_has_the_name_by_now(
    world: World,
) -> None:
    volume = trashed(world)
    world.create()
    records = VolumeRecords(world.store, LAB)
    taken = records.get("demo")
    spec = taken.spec.model_copy(update={"image": volume.record.spec.image})
    records.put(taken.model_copy(update={"spec": spec}))
    before = world.inventory()
    world.service().trash.ensure_trashed(volume, EXPIRES)
    assert world.inventory() == before
    assert records.get("demo").spec.identity == taken.spec.identity


def test_it_comes_back_under_another_name_with_its_data(world: World) -> None:
    volume = trashed(world)
    world.create()
    restored = world.service().trash.ensure_restored(volume, "again", "db-again")
    assert (restored.spec.name, restored.spec.image) == ("again", "demo.1/db-again")
    assert restored.is_formatted
    world.attach("again", "h2")
    assert world.cluster.images[f"{POOL}/demo.1/db-again"].data == "precious"


def test_a_name_that_is_taken_is_refused_and_changes_nothing(world: World) -> None:
    volume = trashed(world)
    world.create()
    before = world.inventory()
    with pytest.raises(RefusedError) as error:
        world.service().trash.ensure_restored(volume, "demo", "demo")
    assert error.value.code == "exists"
    assert world.inventory() == before


def test_what_somebody_purged_is_said_to_be_gone(world: World) -> None:
    volume = trashed(world)
    world.cluster.trash.clear()
    with pytest.raises(GrampusError) as error:
        world.service().trash.ensure_restored(volume, "demo", "demo")
    assert error.value.code == "not-in-trash"


def test_what_its_journal_holds_is_in_the_image_first(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    world.service().trash.drain("demo")
    assert world.image.frames == 0
    assert not world.image.is_journal_open


def test_a_purge_removes_image_and_journal(world: World) -> None:
    world.build_volumed()
    empty = world.inventory()
    world.create(write_path="journal")
    world.attach()
    volume = world.service().trash.drain("demo")
    world.service().trash.ensure_trashed(volume, EXPIRES)
    world.service().trash.ensure_purged(volume)
    after = world.inventory()
    assert world.cluster.trash == {}
    for kind in ("images", "journals", "users", "records", "mounts", "daemons"):
        assert after[kind] == empty[kind]
    world.service().trash.ensure_purged(volume)  # nothing is left to do


def test_clones_keep_it_from_being_purged(world: World) -> None:
    volume = trashed(world)
    world.cluster.trashed_parents.add(volume.image_id)
    with pytest.raises(RefusedError) as error:
        world.service().trash.ensure_purged(volume)
    assert error.value.code == "has-clones"
    assert volume.image_id in world.cluster.trash


def test_a_renamed_volume_keeps_its_data_and_gets_another_key(world: World) -> None:
    world.create()
    world.attach()
    record = world.service().trash.ensure_renamed("demo", "store", "db-store")
    assert world.service().trash.ensure_renamed("demo", "store", "db-store") == record
    assert list(world.cluster.users) == ["client.grampus.t.store"]
    world.attach("store", "h2")
    assert world.cluster.images[f"{POOL}/demo.1/db-store"].data == "precious"


@pytest.mark.parametrize("verb", ["trash", "restore", "rename", "purge"])
def test_killed_at_any_call_it_ends_the_same_when_done_again(tmp_path: Path, verb: str) -> None:
    def prepare(world: World) -> TrashedVolume:
        if verb in ("restore", "purge"):
            return trashed(world)
        world.create()
        world.attach()
        return world.service().trash.drain("demo")

    def act(world: World, volume: TrashedVolume) -> None:
        trash = world.service().trash
        match verb:
            case "trash":
                trash.ensure_trashed(volume, EXPIRES)
            case "restore":
                trash.ensure_restored(volume, "again", "db-again")
            case "rename":
                trash.ensure_renamed("demo", "store", "db-store")
            case _:
                trash.ensure_purged(volume)

    whole = World(tmp_path / "whole")
    act(whole, prepare(whole))
    after, kept = whole.inventory(), len(whole.cluster.trash)
    whole.close()
    for point in burn_points():
        with closing(World(tmp_path / str(point))) as world:
            act_on = partial(act, volume=prepare(world))
            if not is_stopped(world, act_on, point, Killed()):
                assert point > 2
                return
            act_on(world)
            assert (world.inventory(), len(world.cluster.trash)) == (after, kept), f"at {point}"
