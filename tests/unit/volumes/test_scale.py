"""What a command about one volume takes does not depend on how many others there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.units import GIB
from tests.system.crowd import counting, put_crowd

from .world import LAB, World

FEW, MANY = 10, 400
Command = Callable[[World], object]


def _resize(world: World) -> None:
    service = world.service()
    service.resize(service.plan_resize("demo", 20 * GIB))


COMMANDS: dict[str, Command] = {
    "show": lambda world: world.service().observe_live("demo"),
    "attached": lambda world: world.service().is_attached("demo"),
    "detach": lambda world: world.service().ensure_detached("demo"),
    "resize": _resize,
    "snapshot": lambda world: world.service().ensure_snapshot("demo", "s1"),
    "settle": lambda world: world.service().converge(),
}


def measure(root: Path, count: int, command: Command) -> tuple[object, ...]:
    """Records parsed, SQL statements, commands on the host."""
    root.mkdir()
    world = World(root)
    world.build_volumed()
    world.create()
    world.service().ensure_attached("demo", "h1")
    put_crowd(world.store, LAB, "demo", count=count, operations=20 * count)
    before = len(world.h1.commands)
    with counting(world.store) as cost:
        command(world)
    statements = [re.sub(r"'[^']*'|\d+", "?", statement) for statement in cost.statements]
    return cost.parsed, statements, len(world.h1.commands) - before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_about_one_volume_takes_the_same_among_many(tmp_path: Path, name: str) -> None:
    few = measure(tmp_path / "few", FEW, COMMANDS[name])
    many = measure(tmp_path / "many", MANY, COMMANDS[name])
    assert few == many
    assert few[0] < 10  # type: ignore[operator]
