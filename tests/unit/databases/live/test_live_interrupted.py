"""Live changes and moves, killed before and after every single change that a port makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB
from tests.fakes.interruption import stopped_runs
from tests.unit.databases.world import prepared

from .live_world import LiveWorld

Act = Callable[[LiveWorld], object]


def _created(world: LiveWorld) -> None:
    world.create()


def _created_big(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)


def _with_parameters(world: LiveWorld) -> None:
    world.create()
    world.parameters().set("demo", "innodb_io_capacity", "900")
    world.parameters().set("demo", "innodb_page_cleaners", "8")


def _stopped(world: LiveWorld) -> None:
    world.create()
    world.service().stop("demo")


# name, the state before, and the operation; a cut-off one is finished, all of them.
CASES: list[tuple[str, Act, Act]] = [
    ("grow", _created, lambda w: w.live().set_limits("demo", memory_bytes=GIB, cpus=1.5)),
    ("shrink", _created_big, lambda w: w.live().set_limits("demo", memory_bytes=512 * MIB)),
    ("limits-stopped", _stopped, lambda w: w.live().set_limits("demo", memory_bytes=GIB)),
    ("set", _created, lambda w: w.parameters().set("demo", "innodb_io_capacity", "900")),
    ("set-later", _created, lambda w: w.parameters().set("demo", "innodb_page_cleaners", "8")),
    ("reset", _with_parameters, lambda w: w.parameters().reset("demo", "innodb_io_capacity")),
    ("restart", _with_parameters, lambda w: w.live().restart("demo")),
    ("move", _created, lambda w: w.moves().move("demo", "h2")),
    ("move-stopped", _stopped, lambda w: w.moves().move("demo", "h2")),
]


def _ends(tmp_path: Path, prepare: Act, act: Act) -> tuple[object, object]:
    world = LiveWorld(tmp_path / "whole")
    prepare(world)
    before = world.inventory()
    act(world)
    after = world.inventory()
    world.close()
    assert before["unfinished"] == after["unfinished"] == []
    assert before != after
    return before, after


@pytest.mark.parametrize(
    ("prepare", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_killed_at_any_point_it_is_finished(tmp_path: Path, prepare: Act, act: Act) -> None:
    _, after = _ends(tmp_path, prepare, act)
    for point, world in stopped_runs(prepared(tmp_path, prepare, LiveWorld), act, more_than=1):
        sentences = world.service().converge()
        if sentences:  # else it was killed before it began
            assert world.inventory() == after, f"killed at {point}"
            assert "finished" in sentences[0]


@pytest.mark.parametrize(
    ("prepare", "act"),
    [case[1:] for case in CASES if case[0] != "restart"],
    ids=[case[0] for case in CASES if case[0] != "restart"],
)
def test_failed_at_any_point_it_is_undone(tmp_path: Path, prepare: Act, act: Act) -> None:
    before, _ = _ends(tmp_path, prepare, act)
    error = GrampusError("disk gone")
    for point, world in stopped_runs(
        prepared(tmp_path, prepare, LiveWorld), act, error, more_than=1
    ):
        assert world.inventory() == before, f"failed at {point}"
