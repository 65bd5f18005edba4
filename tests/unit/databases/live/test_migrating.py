"""Databases that move to another pool: their records follow their volumes."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.databases.live.migrating import DatabaseMigrations
from tests.fakes.interruption import Killed, stopped_runs
from tests.unit.operation_runner import planned

from .live_world import LiveWorld


def _migrations(world: LiveWorld) -> DatabaseMigrations:
    return DatabaseMigrations(world.service().operations)


def _pool(world: LiveWorld) -> str:
    return world.service().get("demo").spec.pool


def test_a_database_moves_while_it_runs(world: LiveWorld) -> None:
    before = world.inventory()
    assert planned(world.runner, lambda: _migrations(world).migrate("demo", "archive")) == [
        "Move 'demo' to 'archive'",
        "Record the pool of 'demo'",
        "Record it in the metadata of the image",
    ]
    assert (world.inventory(), _pool(world)) == (before, "databases")
    assert _migrations(world).migrate("demo", "archive").spec.pool == "archive"
    assert world.service().show("demo").status == "running"
    assert planned(world.runner, lambda: _migrations(world).migrate("demo", "archive")) == []
    assert _migrations(world).migrate("demo", "archive").spec.pool == "archive"


def test_what_is_refused_leaves_nothing_begun(world: LiveWorld) -> None:
    world.volumes.migrations.refused = "has-clones"
    with pytest.raises(RefusedError):
        _migrations(world).migrate("demo", "archive")
    with pytest.raises(NotFoundError):
        _migrations(world).migrate("demo", "nowhere")
    with pytest.raises(RefusedError):
        _migrations(world).abort("demo")
    assert world.service().operations.unfinished("demo") == []


def test_one_that_stops_half_way_is_noted_where_it_is_and_can_go_back(world: LiveWorld) -> None:
    world.volumes.migrations.fails_half_way = True
    with pytest.raises(GrampusError, match="copy failed"):
        _migrations(world).migrate("demo", "archive")
    assert (_pool(world), world.volumes.get("demo").spec.pool) == ("archive", "archive")
    plan = planned(world.runner, lambda: _migrations(world).abort("demo"))
    assert (plan[0], _pool(world)) == ("Go back to 'databases'", "archive")
    _migrations(world).abort("demo")
    assert (_pool(world), world.volumes.get("demo").spec.pool) == ("databases", "databases")


def test_one_that_stopped_half_way_is_gone_on_with(world: LiveWorld) -> None:
    world.volumes.migrations.fails_half_way = True
    with pytest.raises(GrampusError, match="copy failed"):
        _migrations(world).migrate("demo", "archive")
    world.volumes.migrations.fails_half_way = False
    assert world.service().operations.converge() == []
    assert world.volumes.migrations.find("demo") is not None
    _migrations(world).migrate("demo", "archive")
    assert world.volumes.migrations.find("demo") is None
    assert _pool(world) == "archive"


def test_one_whose_pool_fills_up_is_noted_where_it_is_again(world: LiveWorld) -> None:
    world.volumes.migrations.fills_up = True
    with pytest.raises(GrampusError) as stopped:
        _migrations(world).migrate("demo", "archive")
    assert stopped.value.code == "pool-filling"
    assert (_pool(world), world.volumes.get("demo").spec.pool) == ("databases", "databases")


def test_a_volume_that_went_back_by_itself_is_followed(world: LiveWorld) -> None:
    world.volumes.migrations.fails_half_way = True
    with pytest.raises(GrampusError, match="copy failed"):
        _migrations(world).migrate("demo", "archive")
    _migrations(world).follow()
    assert _pool(world) == "archive"
    world.volumes.migrations.abort("demo")  # as whoever goes on with the copy of the volume alone
    with world.service().operations.locked("demo"):
        _migrations(world).follow()  # somebody is at it
        assert _pool(world) == "archive"
    _migrations(world).follow()
    assert _pool(world) == "databases"


@pytest.mark.parametrize("error", [Killed(), GrampusError("The call failed.")], ids=repr)
@pytest.mark.parametrize("aborts", [False, True])
def test_stopped_at_any_call_the_record_says_where_the_volume_is(
    tmp_path: Path, error: BaseException, *, aborts: bool
) -> None:
    def start(point: int) -> LiveWorld:
        world = LiveWorld(tmp_path / f"{point}")
        world.create()
        if aborts:
            world.volumes.migrations.fails_half_way = True
            with pytest.raises(GrampusError):
                _migrations(world).migrate("demo", "archive")
        return world

    def act(world: LiveWorld) -> None:
        if aborts:
            _migrations(world).abort("demo")
        else:
            _migrations(world).migrate("demo", "archive")

    for _, world in stopped_runs(start, act, error, more_than=1):
        world.service().operations.converge()
        assert _pool(world) == world.volumes.get("demo").spec.pool
        assert world.service().operations.unfinished("demo") == []
