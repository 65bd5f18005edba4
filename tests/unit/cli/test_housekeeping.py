"""Without a controller, commands delete the binary logs of the databases that they change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from grampus.cli.housekeeping import LOOK_EVERY, controller_lock, keep_touched_binlogs
from grampus.core.units import MIB
from grampus.state.locks import hold_lock
from tests.unit.databases.binlog_keeping.keeping_world import KeepingWorld
from tests.unit.databases.world import LAB


@pytest.fixture
def world(tmp_path: Path) -> Iterator[KeepingWorld]:
    made = KeepingWorld(tmp_path)
    yield made
    made.close()


def end_command(world: KeepingWorld) -> None:
    """What a command does at its end, on its own session."""
    session = SimpleNamespace(
        lab_name=LAB,
        home=world.home,
        clock=world.clock,
        journal=world.journal,
        store=world.store,
        progress=world.progress,
        databases=world.service,
    )
    keep_touched_binlogs(session)  # type: ignore[arg-type]


def test_a_command_deletes_what_its_database_needs_no_longer(world: KeepingWorld) -> None:
    world.service().protect("demo", True)
    world.write_logs(10, size=8 * MIB)
    end_command(world)
    assert world.server.purged == ["binlog.000005"]


def test_what_the_archive_and_replicas_need_stays(world: KeepingWorld) -> None:
    world.add_replica("demo-r1", 25)
    world.archive_to(8)
    world.service().protect("demo", True)
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    end_command(world)
    assert world.server.purged == ["binlog.000003"]


def test_a_new_database_is_not_asked(world: KeepingWorld) -> None:
    world.create("fresh")
    world.server.commands.clear()
    end_command(world)
    assert world.server.commands == []


def test_commands_look_every_five_minutes(world: KeepingWorld) -> None:
    world.service().protect("demo", True)
    world.write_logs(10, size=8 * MIB)
    end_command(world)
    world.server.commands.clear()
    world.clock.sleep((LOOK_EVERY - timedelta(seconds=1)).total_seconds())
    end_command(world)
    assert world.server.commands == []
    world.clock.sleep(1)
    end_command(world)
    assert world.server.commands != []


def test_databases_that_a_command_only_looked_at_are_left_alone(world: KeepingWorld) -> None:
    world.write_logs(10, size=8 * MIB)
    world.server.commands.clear()
    end_command(world)
    assert world.server.commands == []


def test_a_controller_is_left_to_look_after_all_of_them(world: KeepingWorld) -> None:
    world.service().protect("demo", True)
    world.write_logs(10, size=8 * MIB)
    with hold_lock(world.home, controller_lock(LAB), world.clock):
        end_command(world)
    assert world.server.purged == []
    assert world.server.expiries == []


def test_a_server_that_nobody_looks_at_again_keeps_logs_no_longer_than_it_has_room(
    world: KeepingWorld,
) -> None:
    """Nobody needs them: at 32 MiB/s they take a quarter of the volume at most."""
    world.service().protect("demo", True)
    world.write_logs(10, size=8 * MIB, apart_s=1)
    end_command(world)
    assert world.server.expiries == [80]


def test_a_host_that_is_away_fails_no_command(world: KeepingWorld) -> None:
    world.service().protect("demo", True)
    world.write_logs(10, size=8 * MIB)
    world.server.up = False
    end_command(world)
    assert "h1" in world.progress.notes[-1]
