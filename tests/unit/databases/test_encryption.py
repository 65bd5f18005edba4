"""Encrypted databases: from creation on, and so is whatever is made from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.units import GIB
from grampus.databases.backup.backups import DatabaseBackups
from grampus.databases.backup.keys import BackupKey
from grampus.databases.backup.manifest_file import (
    parse_manifest,
    render_manifest,
    require_authentic,
)
from grampus.databases.backup.restores import DatabaseRestores, RestoreRequest
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.planning import CreatePlanner
from grampus.databases.request import CreateRequest
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from tests.fakes.interruption import stopped_runs
from tests.fakes.pools_and_images import FakeImages
from tests.unit.databases.backup.existing import place, write_rows
from tests.unit.databases.backup.made import made_backup
from tests.unit.operation_runner import planned

from .live.live_world import LiveWorld
from .world import World, prepared

KEY = BackupKey(bytes(range(32)))


def clones(world: World) -> DatabaseClones:
    operations = world.service().operations
    planner = CreatePlanner(
        operations.records, world.fleet, world.volumes, FakeImages(), world.cluster
    )
    return DatabaseClones(operations, planner)


def snapshots(world: World) -> DatabaseSnapshots:
    return DatabaseSnapshots(world.service().operations)


@pytest.mark.parametrize(("encrypt", "images"), [(True, 1), (False, 2)])
def test_encrypted_database_stands_on_no_golden_volume(
    world: World, encrypt: bool, images: int
) -> None:
    world.create(encrypt=encrypt)
    assert len(world.volumes.images) == images
    assert (world.volumes.get("demo").spec.encryption is not None) == encrypt
    assert (world.volumes.lineage("demo").parent is None) == encrypt
    spec = world.service().get("demo").spec
    assert spec.encryption == world.volumes.get("demo").spec.encryption


def test_plan_says_that_its_data_directory_is_initialised(world: World) -> None:
    service = world.service()
    spec = service.plan_create(CreateRequest(name="demo", size_bytes=10 * GIB, encrypt=True))
    before = world.inventory()
    steps = planned(world.runner, lambda: service.create(spec))
    assert world.inventory() == before
    assert "Initialise the data directory" in steps
    assert any(step.startswith("Create an encrypted volume") for step in steps)
    assert not any("golden" in step for step in steps)


def test_without_volumed_it_is_not_made_with_another_write_path(world: World) -> None:
    """A plain database falls back to `direct`; an encrypted one would be left in clear."""
    world.volumes.hosts_without_volumed = {"h1", "h2"}
    with pytest.raises(GrampusError) as caught:
        world.create(encrypt=True, write_path=None)
    assert caught.value.code == "no-driver"
    world.create("plain", write_path=None)


def test_clone_is_encrypted_as_its_source_is(world: World) -> None:
    world.create(encrypt=True)
    clones(world).clone(CloneRequest(source="demo", name="copy"))
    images = world.volumes.images
    assert images["copy"].record.spec.encryption == "luks2"
    assert images["copy"].sealed_key == images["demo"].sealed_key
    assert world.service().get("copy").spec.encryption == "luks2"


def test_restored_one_has_the_sealed_key_that_is_in_the_manifest(
    world: World, tmp_path: Path
) -> None:
    world.create(encrypt=True)
    write_rows(world, "one", "demo")
    backups = DatabaseBackups(world.service().operations)
    manifest = backups.create("demo", place(tmp_path / "shelf")).manifest
    sealed = world.volumes.images["demo"].sealed_key
    assert (manifest.volume_key, manifest.database.encryption) == (sealed, "luks2")
    request = RestoreRequest("again", place(tmp_path / "shelf"))
    DatabaseRestores(world.service()).restore(request)
    assert world.volumes.images["again"].sealed_key == sealed
    assert world.service().get("again").spec.encryption == "luks2"


def test_backup_without_its_master_key_is_refused_before_anything_is_made(
    world: World, tmp_path: Path
) -> None:
    world.create(encrypt=True)
    write_rows(world, "one", "demo")
    backups = DatabaseBackups(world.service().operations)
    manifest = backups.create("demo", place(tmp_path / "shelf")).manifest
    assert manifest.volume_key is not None
    world.volumes.encryption.lost = {manifest.volume_key}
    before = world.inventory()
    with pytest.raises(NotFoundError) as caught:
        DatabaseRestores(world.service()).restore(
            RestoreRequest("again", place(tmp_path / "shelf"))
        )
    assert caught.value.code == "no-volume-key"
    assert world.inventory() == before


ACTS: dict[str, Callable[[World], object]] = {
    "clone": lambda w: clones(w).clone(CloneRequest(source="demo", name="copy")),
    "move": lambda w: DatabaseMoves(w.service().operations).move("demo", "h2"),
    "rename": lambda w: DatabaseNames(w.service().operations).rename("demo", "store"),
    "resize": lambda w: w.service().resize("demo", 20 * GIB),
    "rollback": lambda w: snapshots(w).rollback("demo", "early", with_safety=True),
    "rollback for good": lambda w: snapshots(w).rollback("demo", "early", with_safety=False),
    "write path": lambda w: w.service().set_write_path("demo", "direct"),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_could_not_be_opened_again_is_not_let_go_of(tmp_path: Path, act: str) -> None:
    """It runs, and would be down for good."""
    world = LiveWorld(tmp_path)
    world.create(encrypt=True, write_path="journal")
    snapshots(world).create("demo", "early")
    sealed = world.volumes.images["demo"].sealed_key
    assert sealed is not None
    world.volumes.encryption.lost = {sealed}
    before = world.inventory()
    with pytest.raises(NotFoundError) as caught:
        ACTS[act](world)
    assert caught.value.code == "no-volume-key"
    assert world.inventory() == before
    world.volumes.encryption.lost = set()
    ACTS[act](world)
    world.close()


def test_manifest_from_before_encryption_is_still_authentic() -> None:
    """Its seal is over the fields that there were, not over those that there are now."""
    manifest = made_backup(1)
    document = json.loads(render_manifest(manifest, KEY))
    older = {key: value for key, value in document["backup"].items() if key != "volume_key"}
    older["database"].pop("encryption")
    # As the release before it sealed them: HMAC of the canonical JSON of just these.
    sealed = render_manifest(_Written(older), KEY)  # type: ignore[arg-type]
    assert b"volume_key" not in sealed
    require_authentic(sealed, parse_manifest(sealed, manifest.id), KEY)


class _Written:
    """A manifest whose fields are those of an older release."""

    def __init__(self, document: dict[str, object]) -> None:
        self._document = document

    def model_dump(self, *, mode: str) -> dict[str, object]:
        assert mode == "json"
        return self._document


def _create(world: World) -> None:
    if not world.volumes.images:
        world.create(encrypt=True)


def test_creation_cut_off_at_any_call_leaves_nothing(tmp_path: Path) -> None:
    for point, world in stopped_runs(prepared(tmp_path, lambda _: None), _create, more_than=10):
        world.service().converge()
        if world.service().list():
            continue  # it was whole already
        assert not world.volumes.images, f"killed at call {point}"
        _create(world)
        assert world.volumes.get("demo").spec.encryption == "luks2"
