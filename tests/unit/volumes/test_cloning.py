"""Clones of volumes: what they share, what is their own, and what they keep from going."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB
from grampus.volumes.model import CloneSource, Lineage, VolumeSpec
from grampus.volumes.records import VolumeRecords
from tests.unit.operation_runner import planned

from .cluster import POOL
from .world import LAB, World

SOURCE = CloneSource(pool=POOL, image="demo.1/demo", snapshot="before")
COPY = VolumeSpec(name="copy", pool=POOL, image="copy", size_bytes=2 * GIB)
COPY_IMAGE = f"{POOL}/copy.1/copy"
FACTS = {"database": "demo", "journal.local": "h1:/data"}


@pytest.fixture
def snapped(world: World) -> World:
    """`demo`, attached through a journal, with facts on its image and a snapshot `before`."""
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    service = world.service()
    service.set_metadata("demo", FACTS)
    service.ensure_snapshot("demo", "before")
    return world


def _clone(world: World, spec: VolumeSpec = COPY, source: CloneSource = SOURCE) -> None:
    service = world.service()
    service.clone(service.plan_clone(spec, source))


def test_it_holds_what_the_snapshot_held_and_is_grown(snapped: World) -> None:
    snapped.image.data = "later"
    _clone(snapped)
    record = snapped.service().get("copy")
    assert (record.is_formatted, record.source) == (True, SOURCE)
    attachment = snapped.service().ensure_attached("copy", "h2")
    image = snapped.h2.image_of(attachment.device)
    assert image is not None
    assert (image.data, image.size_bytes, image.filesystem_bytes) == ("precious", 2 * GIB, 2 * GIB)


def test_its_user_is_its_own_and_facts_of_the_parent_stay_there(snapped: World) -> None:
    _clone(snapped)
    assert "client.grampus.t.copy" in snapped.cluster.users
    assert snapped.cluster.images[COPY_IMAGE].facts == {}
    assert snapped.image.metadata["grampus.database"] == "demo"
    assert snapped.image.is_journal_open


def test_a_clone_whose_making_was_killed_half_way_is_finished(snapped: World) -> None:
    """The image is there with the size and facts of its parent, and is no volume yet."""
    service = snapped.service()
    record = service.ensure_cloned(COPY, SOURCE)
    VolumeRecords(snapped.store, LAB).put(record.model_copy(update={"is_formatted": False}))
    image = snapped.cluster.images[f"{POOL}/{record.spec.image}"]
    image.size_bytes, image.metadata = GIB, dict(snapped.image.metadata)
    assert service.ensure_cloned(COPY, SOURCE).is_formatted
    assert (image.size_bytes, image.facts) == (2 * GIB, {})


def test_a_clone_in_use_is_left_alone_when_it_is_ensured_again(snapped: World) -> None:
    copy = COPY.model_copy(update={"write_path": "journal"})
    service = snapped.service()
    service.ensure_cloned(copy, SOURCE)
    service.ensure_attached("copy", "h2")
    before = snapped.inventory()
    facts = dict(snapped.cluster.images[COPY_IMAGE].metadata)
    assert facts["grampus.journal"] == "open"
    service.ensure_cloned(copy, SOURCE)
    assert snapped.cluster.images[COPY_IMAGE].metadata == facts
    assert snapped.inventory() == before


@pytest.mark.parametrize(
    ("spec", "source", "code"),
    [
        (COPY.model_copy(update={"size_bytes": GIB // 2}), SOURCE, "shrink"),
        (COPY.model_copy(update={"pool": "other"}), SOURCE, "other-pool"),
        (COPY.model_copy(update={"name": "demo"}), SOURCE, "exists"),
        (COPY.model_copy(update={"image": SOURCE.image}), SOURCE, "image-exists"),
        (COPY, SOURCE.model_copy(update={"snapshot": "befor"}), "not-found"),
        (COPY, SOURCE.model_copy(update={"image": "nothing"}), "not-found"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    snapped: World, spec: VolumeSpec, source: CloneSource, code: str
) -> None:
    before = snapped.inventory()
    with pytest.raises((RefusedError, NotFoundError)) as caught:
        snapped.service().plan_clone(spec, source)
    assert caught.value.code == code
    assert snapped.inventory() == before


def test_what_clones_stand_on_cannot_be_removed(snapped: World) -> None:
    _clone(snapped)
    service, before = snapped.service(), snapped.inventory()
    for remove in (
        lambda: service.ensure_snapshot_absent("demo", "before"),
        lambda: service.require_removable("demo"),
        lambda: service.delete("demo"),
        lambda: service.ensure_absent("demo"),
        lambda: planned(snapped.runner, lambda: service.delete("demo")),
    ):
        with pytest.raises(RefusedError, match="clones that depend on it: copy") as caught:
            remove()
        assert caught.value.code == "has-clones"
    assert snapped.inventory() == before
    service.ensure_flattened("copy")
    service.delete("demo")
    assert service.lineage("copy") == Lineage(parent=None, depth=0)


def test_lineage_over_generations(snapped: World) -> None:
    service = snapped.service()
    _clone(snapped)
    service.ensure_snapshot("copy", "again")
    second = CloneSource(pool=POOL, image="copy.1/copy", snapshot="again")
    _clone(snapped, COPY.model_copy(update={"name": "third", "image": "third"}), second)
    assert service.lineage("demo") == Lineage(parent=None, depth=0, children=("copy",))
    assert service.lineage("copy") == Lineage(parent=SOURCE, depth=1, children=("third",))
    assert service.lineage("third") == Lineage(parent=second, depth=2)
    with pytest.raises(NotFoundError):
        service.lineage("other")


def test_flattened_while_it_is_used_and_once_is_enough(snapped: World) -> None:
    _clone(snapped)
    service = snapped.service()
    service.ensure_attached("copy", "h2")
    for _ in range(2):
        service.ensure_flattened("copy")
    assert service.lineage("copy").parent is None
    assert service.get("copy").source == SOURCE


def test_an_image_of_somebody_else_survives_a_clone_that_fails(snapped: World) -> None:
    service = snapped.service()
    order = service.plan_clone(COPY.model_copy(update={"namespace": "default"}), SOURCE)
    snapped.cluster.images[f"{POOL}/copy"] = snapped.image
    with pytest.raises(GrampusError):
        service.clone(order)
    assert f"{POOL}/copy" in snapped.cluster.images
    assert service.find("copy") is None


def test_an_image_that_was_filled_otherwise_is_never_formatted(world: World) -> None:
    world.create()
    world.image.has_filesystem = world.image.was_mounted = True  # mkfs over it fails the test
    world.image.data = "restored"
    world.service().note_formatted("demo")
    world.attach()
    assert world.image.data == "restored"
