"""What a command about one database takes does not depend on how many others there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.databases.names.naming import DatabaseNames
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from tests.system.crowd import counting, put_crowd
from tests.unit.databases.names.test_histories import histories
from tests.unit.databases.world import LAB, World, database_events

FEW, MANY = 10, 400
Command = Callable[[World], object]
COMMANDS: dict[str, Command] = {
    "show": lambda world: world.service().show("demo"),
    "endpoint": lambda world: world.service().endpoint("demo"),
    "stop": lambda world: world.service().stop("demo"),
    "stop and start": lambda world: (world.service().stop("demo"), world.service().start("demo")),
    "protect": lambda world: world.service().protect("demo", True),
    "resize": lambda world: world.service().resize("demo", 20 << 30),
    "set": lambda world: world.service().set_write_path("demo", "journal"),
    "label": lambda world: DatabaseNames(world.service().operations).label("demo", ["a=b"]),
    "rename": lambda world: DatabaseNames(world.service().operations).rename("demo", "other"),
    "snapshot": lambda world: DatabaseSnapshots(world.service().operations).create("demo", "s1"),
    "create": lambda world: world.create("further"),
    "delete": lambda world: world.service().delete("demo"),
    "events": lambda world: database_events(world).of("demo", last=10),
    "settle": lambda world: world.service().converge(),
    "forget": lambda world: histories(world).forget(90, most=5),
}


def measure(root: Path, count: int, command: Command) -> tuple[int, list[str], list[int]]:
    """Records parsed, SQL statements by text, and commands on hosts."""
    world = World(root)
    world.create()
    address = world.service().get("demo").spec.address
    put_crowd(world.store, LAB, "demo", count=count, operations=20 * count, address=address)
    before = [len(host.commands) for host in world.hosts.values()]
    with counting(world.store) as cost:
        command(world)
    after = [len(host.commands) for host in world.hosts.values()]
    world.close()
    # Two threads of a creation work beside each other: their order is not always the same.
    statements = sorted(re.sub(r"'[^']*'|\d+", "?", statement) for statement in cost.statements)
    return cost.parsed, statements, [b - a for a, b in zip(before, after, strict=True)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_about_one_database_takes_the_same_among_many(tmp_path: Path, name: str) -> None:
    few = measure(tmp_path / "few", FEW, COMMANDS[name])
    many = measure(tmp_path / "many", MANY, COMMANDS[name])
    (parsed, statements, commands), (others_parsed, others_statements, others_commands) = few, many
    # What differs, and not two long lists.
    assert Counter(statements) - Counter(others_statements) == Counter()
    assert Counter(others_statements) - Counter(statements) == Counter()
    assert (parsed, commands) == (others_parsed, others_commands)
    assert few[0] < 10


def test_a_list_takes_one_statement_for_all(tmp_path: Path) -> None:
    def cost(count: int) -> int:
        return len(measure(tmp_path / str(count), count, lambda world: world.service().list())[1])

    assert cost(FEW) == cost(MANY)
