"""How long a server may take to recover after a crash, and what follows for its redo log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import RefusedError, UsageError
from grampus.core.units import GIB, MIB
from grampus.databases.live.decide_recovery_goal import describe_recovery_goal
from grampus.databases.request import parse_recovery_goal_s
from grampus.databases.settings import (
    PAGE_BYTES,
    RECOVERED_BYTES_PER_S,
    RECOVERED_IN_POOL,
    decide_server_settings,
)

from .live_world import LiveWorld

REDO_LOG, DIRTY = "innodb_redo_log_capacity", "innodb_max_dirty_pages_pct"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LiveWorld]:
    made = LiveWorld(tmp_path)
    yield made
    made.close()


def _redo_log_bytes(goal_s: int | None, *, size_bytes: int = 100 * GIB) -> int:
    settings = decide_server_settings("mysql", size_bytes, 8 * GIB, 2, recovery_goal_s=goal_s)
    return settings.redo_log_capacity_bytes


@pytest.mark.parametrize("goal_s", [3, 5, 10, 30])
def test_a_redo_log_holds_what_is_recovered_in_that_time(goal_s: int) -> None:
    assert _redo_log_bytes(goal_s) == goal_s * RECOVERED_BYTES_PER_S


@pytest.mark.parametrize(
    ("memory_bytes", "goal_s", "pages"), [(GIB, 3, 3000), (GIB, 5, 5000), (64 * GIB, 10, 10_000)]
)
def test_changed_pages_are_no_more_than_are_recovered_in_that_time(
    memory_bytes: int, goal_s: int, pages: int
) -> None:
    settings = decide_server_settings("mysql", 400 * GIB, memory_bytes, 4, recovery_goal_s=goal_s)
    allowed = settings.dirty_pages_pct / 100 * settings.buffer_pool_bytes / PAGE_BYTES
    assert allowed == pytest.approx(pages, rel=0.05)


def test_without_a_goal_changed_pages_have_the_bound_of_mysql() -> None:
    for goal_s in (None, 3600):
        settings = decide_server_settings("mysql", 100 * GIB, GIB, 2, recovery_goal_s=goal_s)
        assert settings.dirty_pages_pct == 90


def test_a_long_goal_makes_no_redo_log_bigger() -> None:
    without = decide_server_settings("mysql", 100 * GIB, 8 * GIB, 2)
    assert _redo_log_bytes(3600) == _redo_log_bytes(None)
    assert _redo_log_bytes(None) == without.buffer_pool_bytes // RECOVERED_IN_POOL // MIB * MIB
    assert _redo_log_bytes(3600, size_bytes=GIB) == 128 * MIB


@pytest.mark.parametrize(
    ("text", "goal_s"),
    [("5s", 5), (" 30S ", 30), ("2m", 120), ("1h", 3600), ("none", None), ("NONE", None)],
)
def test_goals_as_they_are_written(text: str, goal_s: int | None) -> None:
    assert parse_recovery_goal_s(text) == goal_s


@pytest.mark.parametrize(
    "text", ["", "5", "0s", "2s", "61m", "2h", "1d", "-5s", "5.5s", "5 s", "soon"]
)
def test_goals_that_cannot_be(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_recovery_goal_s(text)
    assert caught.value.code == "invalid-time"


def test_a_running_server_gets_its_redo_log_at_once(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)
    before = world.server().values[REDO_LOG]
    world.live().set_recovery_goal("demo", 5)
    wanted = str(5 * RECOVERED_BYTES_PER_S)
    assert world.server().values[REDO_LOG] == wanted != before
    assert float(world.server().values[DIRTY]) < 90
    assert world.service().get("demo").spec.recovery_goal_s == 5
    world.live().set_recovery_goal("demo", None)
    assert world.server().values[REDO_LOG] == before
    assert float(world.server().values[DIRTY]) == 90


def test_a_server_starts_with_the_redo_log_of_its_goal(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)
    world.live().set_recovery_goal("demo", 5)
    world.live().restart("demo")
    assert world.server().values[REDO_LOG] == str(5 * RECOVERED_BYTES_PER_S)


def test_a_stopped_database_has_its_goal_from_the_next_start(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)
    world.service().stop("demo")
    world.live().set_recovery_goal("demo", 5)
    world.service().start("demo")
    assert world.server().values[REDO_LOG] == str(5 * RECOVERED_BYTES_PER_S)


def test_a_goal_can_be_set_while_the_host_is_down(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)
    world.hosts["h1"].up = False
    world.live().set_recovery_goal("demo", 5)
    assert world.service().get("demo").spec.recovery_goal_s == 5


@pytest.mark.parametrize(("parameter", "value"), [(REDO_LOG, "300M"), (DIRTY, "50")])
def test_what_the_user_has_set_is_not_changed(world: LiveWorld, parameter: str, value: str) -> None:
    world.create(memory_bytes=GIB)
    world.parameters().set("demo", parameter, value)
    with pytest.raises(RefusedError) as caught:
        world.live().set_recovery_goal("demo", 5)
    assert caught.value.code == "parameter-set"
    assert f"db parameter reset demo {parameter}" in caught.value.remedy
    world.live().set_recovery_goal("demo", None)  # nothing to do


def test_a_goal_that_a_parameter_overrules_says_so(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)
    world.live().set_recovery_goal("demo", 5)
    spec = world.service().get("demo").spec
    described = "5 s: a redo log of 100 MiB, changed pages in 15.3 % of the buffer pool"
    assert describe_recovery_goal(spec) == described
    world.parameters().set("demo", REDO_LOG, "300M")
    told = describe_recovery_goal(world.service().get("demo").spec)
    assert told == f"5 s, not in effect: the parameter {REDO_LOG} is set"
    assert describe_recovery_goal(spec.model_copy(update={"recovery_goal_s": None})) is None
