"""The memory that the journal of a database's volume may take: asked for, kept, changed, undone."""

from __future__ import annotations

import pytest

from grampus.core.errors import UsageError
from grampus.databases.changes import SET_WRITE_PATH
from grampus.databases.clones.decide_clone import CloneRequest, decide_clone_request

from .world import World, database_events


def test_the_memory_of_the_journal_is_that_of_its_volume(world: World) -> None:
    world.create(write_path="journal", journal_memory_bytes=32 << 20)
    assert world.volumes.get("demo").spec.journal_memory_bytes == 32 << 20
    world.service().set_write_path("demo", None, journal_memory_bytes=64 << 20)
    assert world.volumes.get("demo").spec.journal_memory_bytes == 64 << 20
    assert world.service().get("demo").spec.journal_memory_bytes == 64 << 20
    request = decide_clone_request(
        CloneRequest("demo", "copy"), world.service().get("demo").spec, snapshot_bytes=None
    )
    assert request.journal_memory_bytes == 64 << 20
    with pytest.raises(UsageError, match="has no journal"):
        world.create("other", write_path="direct", journal_memory_bytes=64 << 20)


def test_a_change_of_the_journals_memory_that_fails_is_undone(world: World) -> None:
    world.create(write_path="journal")
    change = world.service().plan_write_path("demo", None, journal_memory_bytes=64 << 20)
    assert change is not None
    steps = SET_WRITE_PATH.build(world.service().operations.ports, change)
    for step in steps[:-1]:
        step.apply()
    for step in reversed(steps):
        if step.undo is not None:
            step.undo()
    assert world.volumes.get("demo").spec.journal_memory_bytes is None
    assert world.service().get("demo").spec.journal_memory_bytes is None


def test_the_history_says_what_became_of_the_bounds(world: World) -> None:
    world.create(write_path="journal")
    world.service().set_write_path("demo", None, journal_memory_bytes=64 << 20)
    world.service().set_write_path("demo", "cache", max_lag_ms=50)
    said = [event.what for event in database_events(world).of("demo")]
    assert any("journal; now journal, at most 64 MiB of memory" in one for one in said)
    assert any(one.endswith(": journal to cache") for one in said)
