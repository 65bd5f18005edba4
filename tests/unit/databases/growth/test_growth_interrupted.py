"""Growth and guard, killed before and after every single change that a port makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB
from grampus.databases.growth.growth_rule import GuardState
from tests.fakes.interruption import stopped_runs
from tests.unit.databases.world import prepared

from .growth_world import RULE, GrowthWorld

Act = Callable[[GrowthWorld], object]


def _created(world: GrowthWorld) -> None:
    world.create()
    world.use(GIB)


def _due(world: GrowthWorld) -> None:
    world.create()
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)


def _nearly_full(world: GrowthWorld) -> None:
    world.create()
    world.use(10 * GIB - 100 * MIB)


def _closed(world: GrowthWorld) -> None:
    _nearly_full(world)
    world.look()
    assert world.is_read_only()


def _with_room(world: GrowthWorld) -> None:
    _closed(world)
    world.use(GIB)


# name, the state before, and the operation.
CASES: list[tuple[str, Act, Act]] = [
    ("rule", _created, lambda w: w.growth().put_rule("demo", RULE)),
    ("rule-off", _due, lambda w: w.growth().put_rule("demo", None)),
    ("grow", _due, lambda w: w.look()),
    ("close", _nearly_full, lambda w: w.look()),
    ("open", _with_room, lambda w: w.look()),
    ("release", _closed, lambda w: w.growth().release("demo", 900)),
]


@pytest.mark.parametrize(
    ("prepare", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_killed_at_any_point_it_comes_to_the_same_end(
    tmp_path: Path, prepare: Act, act: Act
) -> None:
    """A new guard, which remembers nothing, goes on from what the old one left."""
    whole = prepared(tmp_path, prepare, GrowthWorld)(10**6)
    before = whole.inventory()
    act(whole)
    after = whole.inventory()
    whole.close()
    assert before != after
    for point, world in stopped_runs(prepared(tmp_path, prepare, GrowthWorld), act, more_than=1):
        world.service().converge()
        found = world.inventory()
        assert found in (before, after), f"killed at {point}"
        assert found["unfinished"] == []
        if found == before:
            act(world)
            assert _timeless(world.inventory()) == _timeless(after), f"killed at {point}"


def test_a_closing_that_fails_lets_users_write_as_before(tmp_path: Path) -> None:
    error = GrampusError("disk gone")
    runs = stopped_runs(prepared(tmp_path, _nearly_full, GrowthWorld), _close, error, more_than=1)
    for point, world in runs:
        assert world.service().get("demo").guard is None, f"failed at {point}"
        assert not world.is_read_only(), f"failed at {point}"


def _close(world: GrowthWorld) -> None:
    guard = GuardState(state="closed", since=world.clock.now(), reason="full", release_bytes=GIB)
    world.growth().close("demo", guard)


def _timeless(inventory: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without when it was."""
    return {key: value for key, value in inventory.items() if key != "growth"}
