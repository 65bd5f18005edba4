"""Databases made for a while, whose makers were killed: gone, and nothing that is somebody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.cli.serve_scratch import clear_scratch
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.verify.decide_scratch import (
    CLONE_LABEL,
    TEST_LABEL,
    Maker,
    find_maker,
    scratch_name,
)
from grampus.databases.verify.leftovers import ScratchLeftovers
from grampus.state.locks import hold_lock
from grampus.volumes.model import CloneSource

from ..world import LAB, World

CLONE = scratch_name("verify", "demo")
RESTORED = scratch_name("restore-test-new", "demo")
ORIGIN = scratch_name("restore-test-old", "demo")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.create()
    return world


def clone(world: World, name: str, **labels: str) -> None:
    service = world.service()
    request = CloneRequest(
        "demo", name, labels={key.replace("_", "-"): value for key, value in labels.items()}
    )
    DatabaseClones(service.operations, service.planner).clone(request)


def leftovers(world: World) -> ScratchLeftovers:
    return ScratchLeftovers(world.service())


def names(world: World) -> list[str]:
    return [view.record.spec.name for view in world.service().list()]


@pytest.mark.parametrize(
    ("name", "labels", "what"),
    [
        (CLONE, {"verify": "demo"}, "verification"),
        (RESTORED, {"restore_test": "demo"}, "restore test"),
        (ORIGIN, {"restore_test": "demo"}, "restore test"),
    ],
)
def test_what_a_killed_command_left_is_deleted_and_told(
    world: World, name: str, labels: dict[str, str], what: str
) -> None:
    before = world.inventory()
    clone(world, name, **labels)
    (event,) = clear_scratch(leftovers(world))
    assert (event.database, event.kind, event.level) == ("demo", "scratch-cleared", "done")
    assert event.text.startswith(f"{name} is a temporary database of an interrupted {what} of demo")
    assert world.inventory() == before
    assert clear_scratch(leftovers(world)) == []


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("mine", {"verify": "demo"}),  # a label of its user's
        (CLONE, {}),  # a name of its user's
        (CLONE, {"verify": "other"}),
        (CLONE, {"restore_test": "demo"}),
        (RESTORED, {"restore_test": "new"}),  # as earlier releases made them: whose, it is not said
        (scratch_name("verify", "../demo"), {"verify": "x/../demo"}),
    ],
)
def test_what_may_be_somebodys_stays(world: World, name: str, labels: dict[str, str]) -> None:
    clone(world, name, **labels)
    assert clear_scratch(leftovers(world)) == []
    assert name in names(world)


@pytest.mark.parametrize("label", [CLONE_LABEL, TEST_LABEL])
def test_what_its_maker_works_with_stays(world: World, label: str) -> None:
    name = CLONE if label == CLONE_LABEL else RESTORED
    clone(world, name, **{label: "demo"})
    lock = Maker(label, "demo").lock(LAB)
    with hold_lock(world.home, lock, world.clock, timeout_s=0):
        assert clear_scratch(leftovers(world)) == []
        assert name in names(world)
    # Another database's maker is no reason to wait.
    with hold_lock(world.home, Maker(label, "blog").lock(LAB), world.clock, timeout_s=0):
        assert len(clear_scratch(leftovers(world))) == 1


def test_what_somebody_works_on_or_protects_stays(world: World) -> None:
    clone(world, CLONE, verify="demo")
    with world.service().operations.locked(CLONE):
        assert clear_scratch(leftovers(world)) == []
    world.service().protect(CLONE, protected=True)
    assert clear_scratch(leftovers(world)) == []
    world.service().protect(CLONE, protected=False)
    assert len(clear_scratch(leftovers(world))) == 1


def test_one_that_cannot_be_deleted_keeps_no_other_from_it(world: World) -> None:
    clone(world, RESTORED, restore_test="demo")
    clone(world, CLONE, verify="demo")
    volumes = world.volumes
    volumes.ensure_snapshot(CLONE, "before")
    scratch = volumes.get(CLONE).spec
    source = CloneSource(pool=scratch.pool, image=scratch.image, snapshot="before")
    volumes.ensure_cloned(scratch.model_copy(update={"name": "kept", "image": "kept"}), source)
    events = clear_scratch(leftovers(world))
    assert {event.level for event in events} >= {"failed"}
    assert set(names(world)) == {"demo", CLONE}
    volumes.ensure_absent("kept")
    clear_scratch(leftovers(world))
    assert names(world) == ["demo"]


def test_the_locks_are_those_of_the_makers() -> None:
    assert Maker(CLONE_LABEL, "shop").lock("lab") == "verify-tables.lab.shop"
    assert Maker(TEST_LABEL, "shop").lock("lab") == "restore-test.lab.shop"


def test_a_label_that_is_no_name_names_no_lock(world: World) -> None:
    spec = world.service().get("demo").spec
    for value in ("", "a/b", "Shop", "../shop"):
        named = {"labels": {CLONE_LABEL: value}, "name": scratch_name("verify", value)}
        assert find_maker(spec.model_copy(update=named)) is None
