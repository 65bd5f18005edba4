"""Encrypted volumes: made, opened, grown, copied; and stopped at every call."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.volumes.model import CloneSource, DriverName, VolumeSpec, WritePath
from grampus.volumes.volume_keys import (
    MasterKey,
    make_volume_key,
    master_keys,
    seal_volume_key,
    unseal_volume_key,
)
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Killed, stopped_runs

from .cluster import POOL, Image
from .encryption_commands import data_bytes
from .world import TAG, World, prepared

Act = Callable[[World], object]
KEY_FILE = f"/dev/shm/grampus-{TAG}-h1-demo.key"
EXPIRES = datetime(2026, 11, 29, 1, 2, 3, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _built(world: World) -> None:
    world.build_volumed()


def image_of(world: World, name: str) -> Image:
    return world.cluster.images[f"{POOL}/{world.service().get(name).spec.image}"]


def opens(world: World, image: Image) -> bool:
    """Whether what the image says of its key, and this home, are enough to read it."""
    if image.metadata.get("grampus.encryption") != "luks2":
        return False
    key = unseal_volume_key(image.metadata["grampus.encryption.key"], master_keys(world.home))
    return key.get_secret_value() == image.passphrase


def snapped(world: World) -> CloneSource:
    world.create(encryption="luks2", write_path="journal")
    world.attach()
    world.service().ensure_snapshot("demo", "before")
    image = world.service().get("demo").spec.image
    return CloneSource(pool=POOL, image=image, snapshot="before")


def copy_spec(size_bytes: int = GIB, write_path: WritePath = "direct") -> VolumeSpec:
    return VolumeSpec(
        name="copy", pool=POOL, image="copy", size_bytes=size_bytes, write_path=write_path
    )


def everywhere(world: World) -> str:
    """All that was said, stored or left anywhere but in the image's header and sealed keys."""
    said = [world.cluster.commands, world.h1.commands, world.h2.commands]
    kept = [record.model_dump_json() for record in world.service().all()]
    files = [host.files for host in (world.h1, world.h2)]
    facts = [image.metadata for image in world.cluster.images.values()]
    return f"{said} {kept} {files} {facts}"


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
def test_user_has_the_size_asked_for_and_the_image_is_bigger(
    world: World, write_path: WritePath
) -> None:
    world.create(encryption="luks2", write_path=write_path)
    attachment = world.attach()
    image = image_of(world, "demo")
    assert image.size_bytes == GIB + 16 * MIB
    assert world.service().get("demo").spec.size_bytes == GIB == image.filesystem_bytes
    assert attachment.driver == "volumed"
    assert attachment.driver_reason == "only volumed serves an encrypted volume"
    assert opens(world, image)


def test_key_is_nowhere_in_clear_once_volumed_serves(world: World) -> None:
    world.create(encryption="luks2", write_path="cache")
    world.attach()
    digits = image_of(world, "demo").passphrase
    assert digits is not None
    assert digits not in everywhere(world)
    world.service().ensure_detached("demo")
    assert digits not in everywhere(world)


def test_each_volume_has_a_key_of_its_own(world: World) -> None:
    world.create(encryption="luks2")
    world.create("other", encryption="luks2")
    assert image_of(world, "demo").passphrase != image_of(world, "other").passphrase


def test_plain_volumes_have_no_key_and_no_header(world: World) -> None:
    world.create()
    world.attach()
    assert image_of(world, "demo").size_bytes == GIB
    assert "grampus.encryption" not in image_of(world, "demo").metadata
    assert not master_keys(world.home).ids()


@pytest.mark.parametrize("driver", ["krbd", "nbd", "qsd"])
def test_another_driver_is_refused_with_the_reason(world: World, driver: DriverName) -> None:
    world.h1.capabilities = ("krbd", "nbd", "fuse")
    world.create(encryption="luks2")
    before = world.inventory()
    with pytest.raises(RefusedError, match=f"{driver} cannot decrypt") as caught:
        world.service().ensure_attached("demo", "h1", driver=driver)
    assert caught.value.code == "encrypted"
    assert world.inventory() == before
    assert world.attach().driver == "volumed"


def test_without_volumed_no_encrypted_volume_is_made(world: World) -> None:
    world.volumed.unlink()
    with pytest.raises(GrampusError, match="Only volumed serves an encrypted volume") as caught:
        world.create(encryption="luks2")
    assert caught.value.code == "no-volumed"
    assert not world.cluster.images


def test_host_where_volumed_cannot_run_is_refused_before_anything_is_changed(
    world: World,
) -> None:
    world.h1.capabilities = ("krbd",)
    with pytest.raises(GrampusError, match="only volumed serves an encrypted") as caught:
        world.service().require_served("h1", "direct", "luks2")
    assert caught.value.code == "no-driver"


def test_without_its_master_key_nothing_is_changed_and_deleting_works(world: World) -> None:
    world.create(encryption="luks2", write_path="journal")
    world.attach()
    world.service().ensure_detached("demo")
    shutil.rmtree(master_keys(world.home).directory)
    before = world.inventory()
    with pytest.raises(NotFoundError, match="volume key import") as caught:
        world.service().ensure_attached("demo", "h1")
    assert caught.value.code == "no-volume-key"
    assert world.inventory() == before
    world.service().delete("demo")
    assert not world.cluster.images
    assert not world.cluster.journals


def test_another_home_opens_it_once_it_has_the_master_key(world: World) -> None:
    world.create(encryption="luks2")
    keys = master_keys(world.home)
    current = keys.ensure_current()
    shutil.rmtree(keys.directory)
    master_keys(world.home).add(MasterKey.parse(current.render()))
    world.attach()


@pytest.mark.parametrize("attached", [True, False])
def test_grown_by_what_the_user_asked_for(world: World, attached: bool) -> None:
    world.create(encryption="luks2", write_path="journal")
    world.attach()
    if not attached:
        world.service().ensure_detached("demo")
    world.resize("demo", 2 * GIB)
    assert image_of(world, "demo").size_bytes == 2 * GIB + 16 * MIB
    world.attach()
    assert image_of(world, "demo").filesystem_bytes == 2 * GIB
    with pytest.raises(RefusedError, match=r"has 2(\.0)? GiB"):
        world.resize("demo", GIB)


def test_header_that_is_bigger_than_expected_is_told(world: World) -> None:
    world.create(encryption="luks2")
    image_of(world, "demo").header_bytes = 32 * MIB
    with pytest.raises(GrampusError, match="objects of the image may be larger") as caught:
        world.resize("demo", 2 * GIB)
    assert caught.value.code == "image-size"


def test_clone_shares_its_sources_key_and_facts_of_it_alone(world: World) -> None:
    source = snapped(world)
    world.service().set_metadata("demo", {"database": "demo"})
    world.service().clone(world.service().plan_clone(copy_spec(2 * GIB), source))
    copy = image_of(world, "copy")
    assert opens(world, copy)
    assert copy.passphrase == image_of(world, "demo").passphrase
    assert set(copy.facts) == {"grampus.encryption", "grampus.encryption.key"}
    assert copy.size_bytes == 2 * GIB + 16 * MIB
    assert world.service().get("copy").spec.encryption == "luks2"
    attached = world.attach("copy", "h2")
    assert attached.driver == "volumed"
    world.service().ensure_flattened("copy")
    assert copy.parent is None


def test_snapshot_has_the_size_that_the_user_had(world: World) -> None:
    source = snapped(world)
    assert [info.size_bytes for info in world.service().snapshots("demo")] == [GIB]
    with pytest.raises(RefusedError) as caught:
        world.service().plan_clone(copy_spec(GIB - MIB), source)
    assert caught.value.code == "shrink"
    world.resize("demo", 2 * GIB)
    world.service().ensure_detached("demo")
    world.service().ensure_rolled_back("demo", "before")
    assert image_of(world, "demo").size_bytes == 2 * GIB + 16 * MIB


def test_clone_of_a_plain_volume_is_not_made_encrypted(world: World) -> None:
    world.create()
    world.attach()
    world.service().ensure_snapshot("demo", "before")
    image = world.service().get("demo").spec.image
    source = CloneSource(pool=POOL, image=image, snapshot="before")
    wanted = copy_spec().model_copy(update={"encryption": "luks2"})
    with pytest.raises(RefusedError) as caught:
        world.service().plan_clone(wanted, source)
    assert caught.value.code == "encryption"


def test_volume_in_the_trash_and_renamed_keeps_its_key(world: World) -> None:
    world.create(encryption="luks2", write_path="journal")
    world.attach()
    trash = world.service().trash
    volume = trash.drain("demo")
    trash.ensure_trashed(volume, EXPIRES)
    trash.ensure_restored(volume, "again", "again")
    world.attach("again", "h2")
    world.service().trash.ensure_renamed("again", "third", "third")
    world.attach("third")
    assert image_of(world, "third").data == "precious"


def test_image_filled_from_a_backup_is_marked_and_not_formatted(world: World) -> None:
    key = make_volume_key()
    sealed = seal_volume_key(key, master_keys(world.home).ensure_current())
    spec = copy_spec().model_copy(update={"encryption": "luks2"})
    world.service().ensure_created(spec, sealed)
    image = image_of(world, "copy")
    assert (image.passphrase, image.size_bytes) == (None, GIB + 16 * MIB)
    # What a backup brings: header and data.
    image.passphrase, image.data, image.has_filesystem = key.get_secret_value(), "old", True
    world.service().note_formatted("copy")
    assert opens(world, image)
    world.attach("copy")
    assert image.data == "old"


def test_backup_of_another_home_is_refused_before_anything_is_made(world: World) -> None:
    sealed = seal_volume_key(make_volume_key(), MasterKey.make())
    spec = copy_spec().model_copy(update={"encryption": "luks2"})
    with pytest.raises(NotFoundError) as caught:
        world.service().encryption.require_openable(sealed)
    assert caught.value.code == "no-volume-key"
    with pytest.raises(NotFoundError):
        world.service().ensure_created(spec, sealed)
    assert not world.cluster.images


def test_lost_sealed_key_is_said(world: World) -> None:
    world.create(encryption="luks2")
    del image_of(world, "demo").metadata["grampus.encryption.key"]
    with pytest.raises(GrampusError, match="has lost its sealed key") as caught:
        world.attach()
    assert caught.value.code == "bad-volume-key"


def test_master_key_of_a_volume_is_told_and_whether_it_is_here(world: World) -> None:
    world.create("plain")
    world.create(encryption="luks2")
    service, keys = world.service(), master_keys(world.home)
    assert service.encryption.find_master_key(service.get("plain").spec) is None
    for is_here in (True, False):
        found = service.encryption.find_master_key(service.get("demo").spec)
        assert found is not None
        assert (found.is_here, len(found.id)) == (is_here, 16)
        if is_here:
            assert [found.id] == keys.ids()
            shutil.rmtree(keys.directory)


def test_key_that_a_killed_command_left_on_a_host_is_removed(world: World) -> None:
    world.create(encryption="luks2")
    world.attach()
    world.h1.files[PurePosixPath(KEY_FILE)] = FakeFile("0" * 64, 0o600)
    world.service().ensure_detached("demo")
    assert PurePosixPath(KEY_FILE) not in world.h1.files


def _created(world: World) -> None:
    world.build_volumed()
    world.create(encryption="luks2", write_path="journal")


def _attached(world: World) -> None:
    _created(world)
    world.attach()


def _killed(world: World) -> None:
    _attached(world)
    world.h1.kill_daemon("volumed-demo")


def _left(world: World) -> None:
    _killed(world)
    world.service().ensure_detached("demo")


def _snapped(world: World) -> None:
    world.build_volumed()
    snapped(world)


def _cloned(world: World) -> None:
    _snapped(world)
    _clone(world)


def _create(world: World) -> None:
    world.build_volumed()
    if world.service().find("demo") is None:
        world.create(encryption="luks2", write_path="journal")


def _ensure_created(world: World) -> None:
    world.build_volumed()
    spec = copy_spec().model_copy(update={"encryption": "luks2"})
    world.service().ensure_created(spec)


def _clone(world: World) -> None:
    service = world.service()
    if service.find("copy") is None:
        image = service.get("demo").spec.image
        source = CloneSource(pool=POOL, image=image, snapshot="before")
        service.clone(service.plan_clone(copy_spec(2 * GIB), source))


def _ensure_cloned(world: World) -> None:
    image = world.service().get("demo").spec.image
    source = CloneSource(pool=POOL, image=image, snapshot="before")
    world.service().ensure_cloned(copy_spec(2 * GIB), source)


def _attach(world: World) -> None:
    world.attach()


def _resize(world: World) -> None:
    world.resize("demo", 2 * GIB)


def _flatten(world: World) -> None:
    world.service().ensure_flattened("copy")


def _replay(world: World) -> None:
    world.service().replay("demo")


def _roll_back(world: World) -> None:
    world.service().ensure_detached("demo")
    world.service().ensure_rolled_back("demo", "before")


def _delete(world: World) -> None:
    if world.service().find("demo") is not None:
        world.service().delete("demo")


def _nothing(world: World) -> None:
    del world


CASES: dict[str, tuple[Act, Act]] = {
    "create": (_nothing, _create),
    "ensure-created": (_nothing, _ensure_created),
    "attach": (_created, _attach),
    "attach-again": (_killed, _attach),
    "resize": (_attached, _resize),
    "replay": (_left, _replay),
    "clone": (_snapped, _clone),
    "ensure-cloned": (_snapped, _ensure_cloned),
    "flatten": (_cloned, _flatten),
    "roll-back": (_snapped, _roll_back),
    "delete": (_left, _delete),
}


def _state(world: World) -> dict[str, list[str]]:
    """Keys are random: whether they open their images is what counts."""
    images = world.cluster.images
    return world.inventory() | {
        "contents": sorted(f"{name}:{image.data}:{image.frames}" for name, image in images.items()),
        "opened": sorted(f"{name}:{opens(world, image)}" for name, image in images.items()),
        "data": sorted(f"{name}:{data_bytes(image)}" for name, image in images.items()),
        "facts": sorted(f"{name}:{sorted(image.facts)}" for name, image in images.items()),
    }


@pytest.mark.parametrize("error", [Killed(), GrampusError("The call failed.")], ids=repr)
@pytest.mark.parametrize("case", CASES)
def test_stopped_at_any_call_the_next_process_makes_it_whole(
    tmp_path: Path, case: str, error: BaseException
) -> None:
    prepare, act = CASES[case]
    with closing(World(tmp_path / "whole")) as whole:
        prepare(whole)
        act(whole)
        expected = _state(whole)
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, error, more_than=3):
        world.service().converge()
        assert world.journal.unfinished("t") == []
        act(world)
        assert _state(world) == expected, f"stopped at call {point}"


def test_image_that_says_it_is_encrypted_can_always_be_opened(tmp_path: Path) -> None:
    for point, world in stopped_runs(prepared(tmp_path, _nothing), _ensure_created, more_than=3):
        for image in world.cluster.images.values():
            says_so = "grampus.encryption" in image.metadata
            assert opens(world, image) or not says_so, f"killed at call {point}"
            # A header without the key to it would be a volume lost.
            assert image.passphrase is None or "grampus.encryption.key" in image.metadata
