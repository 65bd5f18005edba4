"""What is wanted of a database outlives whatever fails (INV-71)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.growth.growth_rule import GuardState
from grampus.databases.growth.growth_steps import CLOSE, GuardChange
from grampus.databases.layout import scratch_directory
from grampus.databases.lifecycle import START
from grampus.databases.model import DesiredState
from tests.unit.databases.live.live_world import LiveWorld

from .stopped_case import trash
from .world import LAB, World

BROKEN = "[ERROR] InnoDB: corrupted"


def _desired(world: World) -> DesiredState:
    return world.service().get("demo").desired


@pytest.mark.parametrize("former", ["running", "stopped"])
def test_a_start_that_fails_leaves_what_was_wanted_before(
    world: World, former: DesiredState
) -> None:
    world.create()
    if former == "stopped":
        world.service().stop("demo")
    else:
        world.hosts["h1"].crash()
    world.hosts["h1"].serve_failure = BROKEN
    with pytest.raises(GrampusError, match="corrupted"):
        world.service().start("demo")
    assert _desired(world) == former


@pytest.mark.parametrize("former", ["running", "stopped"])
def test_a_start_that_is_killed_and_then_fails_leaves_it_too(
    world: World, former: DesiredState
) -> None:
    world.create()
    if former == "stopped":
        world.service().stop("demo")
    world.hosts["h1"].crash()
    world.hosts["h1"].serve_failure = BROKEN
    operations = world.service().operations
    order = operations.records.get("demo").spec.model_dump(mode="json")
    world.journal.begin(START.kind, LAB, "demo", {**order, "former_desired": former})
    world.service().converge()
    assert _desired(world) == former
    assert not operations.unfinished("demo")


def test_a_start_that_an_older_release_was_killed_at_is_finished_or_undone(world: World) -> None:
    world.create()
    world.service().stop("demo")
    order = json.loads(world.service().get("demo").spec.model_dump_json())
    world.journal.begin(START.kind, LAB, "demo", order)
    world.service().converge()
    assert world.service().show("demo").status == "running"


def test_a_host_that_comes_back_starts_a_database_whose_start_failed(world: World) -> None:
    world.create()
    world.hosts["h1"].crash()
    world.hosts["h1"].serve_failure = BROKEN
    with pytest.raises(GrampusError, match="corrupted"):
        world.service().start("demo")
    world.hosts["h1"].serve_failure = ""
    assert world.service().ensure_running() == []
    assert world.service().show("demo").status == "running"


def test_a_database_from_the_trash_that_does_not_start_is_to_run_all_the_same(
    world: World,
) -> None:
    world.create()
    trash(world).trash("demo")
    world.hosts["h1"].serve_failure = BROKEN
    with pytest.raises(GrampusError, match="corrupted"):
        trash(world).restore("demo")
    assert _desired(world) == "running"


def test_a_scratch_instance_that_was_there_before_outlives_a_start_that_fails(
    world: World,
) -> None:
    world.create()
    world.service().ensure_local_instance("demo")
    world.service().ensure_local_instance_absent("demo")
    host = world.hosts["h1"]
    before = host.below(scratch_directory(host.data_dir, "demo"))
    host.serve_failure = BROKEN
    with pytest.raises(GrampusError, match="corrupted"):
        world.service().ensure_local_instance("demo")
    assert host.below(scratch_directory(host.data_dir, "demo")).keys() == before.keys()
    assert world.service().operations.records.find_scratch("demo") is not None


def test_a_database_that_was_closed_stays_closed_when_closing_it_again_fails(
    tmp_path: Path,
) -> None:
    world = LiveWorld(tmp_path)
    world.create()
    closed = GuardState(
        state="closed", since=world.clock.now(), reason="Its disk is full.", release_bytes=1
    )
    spec = world.service().get("demo").spec
    world.service().operations.records.change("demo", guard=closed)
    change = GuardChange(spec=spec, guard=closed, former=closed, summary="")
    steps = CLOSE.build(world.service().operations.ports, change)
    asked = len(world.hosts["h1"].commands)
    for step in reversed(steps):
        if step.undo is not None:
            step.undo()
    statements = [argv[-1] for argv in world.hosts["h1"].commands[asked:]]
    assert not any("read_only = OFF" in statement for statement in statements)
    assert world.service().get("demo").guard == closed
    world.close()
