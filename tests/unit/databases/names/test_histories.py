from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.histories import Histories
from grampus.databases.names.naming import DatabaseNames
from grampus.state.history import OperationHistory
from grampus.state.retention import OperationRetention
from tests.unit.databases.world import LAB, World, database_events


def histories(world: World) -> Histories:
    return Histories(
        world.service().operations.records,
        OperationHistory(world.store, LAB),
        OperationRetention(world.store, LAB, world.clock),
        volumes=list(world.volumes.images),
    )


def kinds(world: World, name: str) -> list[str]:
    return [event.kind for event in database_events(world).of(name)]


def test_a_database_keeps_the_history_of_its_former_names(tmp_path: Path) -> None:
    world = World(tmp_path)
    for name in ("first", "gone"):
        world.create(name)
    names = DatabaseNames(world.service().operations)
    names.rename("first", "second")
    names.rename("second", "third")
    trash = DatabaseTrash(world.service().operations)
    world.service().delete("gone")
    trash.trash("third")
    before = kinds(world, "third")
    world.clock.sleep(timedelta(days=91).total_seconds())
    assert histories(world).forget_all(90) > 0
    assert kinds(world, "third") == before, "it is in the trash, and may come back"
    assert "gone" not in subjects(world)
    world.close()


def test_nothing_goes_before_its_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create("gone")
    world.service().delete("gone")
    world.clock.sleep(timedelta(days=89).total_seconds())
    assert histories(world).forget_all(90) == 0
    assert "db.delete" in kinds(world, "gone")
    world.close()


def subjects(world: World) -> set[str]:
    with world.store.transaction() as connection:
        rows = connection.execute("SELECT DISTINCT subject FROM operations").fetchall()
    return {row["subject"] for row in rows}
