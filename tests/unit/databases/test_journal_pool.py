"""The pool of the journal of a database's volume: asked for, kept, changed, undone."""

from __future__ import annotations

import pytest

from grampus.core.errors import NotFoundError, UsageError
from grampus.databases.changes import SET_WRITE_PATH
from grampus.databases.clones.decide_clone import CloneRequest, decide_clone_request
from grampus.volumes.model import WritePath

from .world import World, database_events

POOL, FLASH = "databases", "flash"


def _pools(world: World) -> tuple[str | None, str | None]:
    """As the volume has it, and as the database has it."""
    spec = world.service().get("demo").spec
    return world.volumes.get("demo").spec.journal_pool, spec.journal_pool


def test_the_journal_is_in_the_pool_that_is_asked_for(world: World) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    assert _pools(world) == (FLASH, FLASH)
    world.service().set_write_path("demo", None, journal_pool=POOL)
    assert _pools(world) == (None, None)
    world.service().set_write_path("demo", None, journal_pool=FLASH)
    world.service().set_write_path("demo", "cache", max_lag_ms=50)
    assert _pools(world) == (FLASH, FLASH)
    world.service().set_write_path("demo", "direct")
    assert _pools(world) == (None, None)
    said = [event.what for event in database_events(world).of("demo")]
    assert any("journal; now journal, its journal in the pool flash" in one for one in said)


@pytest.mark.parametrize("write_path", ["journal", None, "direct"])
def test_a_clone_has_its_journal_where_its_source_has_it(
    world: World, write_path: WritePath | None
) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    source = world.service().get("demo").spec
    asked = CloneRequest("demo", "copy", write_path=write_path)
    request = decide_clone_request(asked, source, snapshot_bytes=None)
    assert request.journal_pool == (None if write_path == "direct" else FLASH)


def test_a_pool_that_is_not_there_is_refused_before_anything_is_changed(world: World) -> None:
    with pytest.raises(NotFoundError, match="'flahs' does not exist"):
        world.create(write_path="journal", journal_pool="flahs")
    world.create(write_path="journal")
    before = world.inventory()
    with pytest.raises(NotFoundError, match="'flahs' does not exist"):
        world.service().set_write_path("demo", None, journal_pool="flahs")
    with pytest.raises(UsageError, match="has no journal"):
        world.service().set_write_path("demo", "direct", journal_pool=FLASH)
    with pytest.raises(UsageError, match="has no journal"):
        world.create("other", write_path="direct", journal_pool=FLASH)
    assert world.inventory() == before


def test_a_change_that_fails_is_undone(world: World) -> None:
    world.create(write_path="journal")
    change = world.service().plan_write_path("demo", None, journal_pool=FLASH)
    assert change is not None
    steps = SET_WRITE_PATH.build(world.service().operations.ports, change)
    for step in steps[:-1]:
        step.apply()
    assert _pools(world) == (FLASH, FLASH)
    for step in reversed(steps):
        if step.undo is not None:
            step.undo()
    assert _pools(world) == (None, None)
