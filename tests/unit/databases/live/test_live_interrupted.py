"""Live changes and moves that fail before or after a single change that a port makes.

`test_every_step` kills them there.
"""

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


# name, the state before, and the operation; one that fails is undone, all of them.
CASES: list[tuple[str, Act, Act]] = [
    ("grow", _created, lambda w: w.live().set_limits("demo", memory_bytes=GIB, cpus=1.5)),
    ("shrink", _created_big, lambda w: w.live().set_limits("demo", memory_bytes=512 * MIB)),
    ("limits-stopped", _stopped, lambda w: w.live().set_limits("demo", memory_bytes=GIB)),
    ("set", _created, lambda w: w.parameters().set("demo", "innodb_io_capacity", "900")),
    ("set-later", _created, lambda w: w.parameters().set("demo", "innodb_page_cleaners", "8")),
    ("reset", _with_parameters, lambda w: w.parameters().reset("demo", "innodb_io_capacity")),
    ("move", _created, lambda w: w.moves().move("demo", "h2")),
    ("move-stopped", _stopped, lambda w: w.moves().move("demo", "h2")),
]


def _before(tmp_path: Path, prepare: Act, act: Act) -> object:
    """What is there before the operation, which changes it."""
    world = LiveWorld(tmp_path / "whole")
    prepare(world)
    before = world.inventory()
    act(world)
    after = world.inventory()
    world.close()
    assert before["unfinished"] == after["unfinished"] == []
    assert before != after
    return before


@pytest.mark.parametrize(
    ("prepare", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_failed_at_any_point_it_is_undone(tmp_path: Path, prepare: Act, act: Act) -> None:
    before = _before(tmp_path, prepare, act)
    error = GrampusError("disk gone")
    for point, world in stopped_runs(
        prepared(tmp_path, prepare, LiveWorld), act, error, more_than=1
    ):
        assert world.inventory() == before, f"failed at {point}"
