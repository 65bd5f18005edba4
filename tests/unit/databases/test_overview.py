"""A database at a glance: what is seen, and how little is asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.databases.administrator import LOOK_TIMEOUT_S
from grampus.databases.live.server_now import ServerNow
from grampus.databases.overview import DatabaseOverviews, Overview
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.snapshots.snapshot_schedules import SnapshotSchedules
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.state.warnings import Warned, WarningHistory
from tests.unit.databases.replicas.replica_world import ReplicaWorld
from tests.unit.databases.world import LAB, database_events


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    made = ReplicaWorld(tmp_path)
    made.create(host="h1")
    yield made
    made.close()


def observe(world: ReplicaWorld, name: str = "demo") -> Overview:
    databases = world.service()
    overviews = DatabaseOverviews(databases.operations, world.replicas(), database_events(world))
    return overviews.observe(databases.show(name))


def statements(world: ReplicaWorld) -> list[str]:
    """What servers were asked since the last time."""
    asked = [
        argv[-1] for host in world.hosts.values() for argv in host.commands if "--execute" in argv
    ]
    for host in world.hosts.values():
        host.commands.clear()
    return asked


def test_a_young_database_has_a_server_and_an_event_and_nothing_else(world: ReplicaWorld) -> None:
    seen = observe(world)
    assert seen.server == ServerNow(uptime_s=3600, connections=4, max_connections=151)
    assert (seen.server_problem, seen.waiting) == (None, [])
    assert seen.snapshots is not None
    assert (seen.snapshots.snapshots, seen.next_snapshot_at) == ((), None)
    assert seen.lineage is not None
    assert (seen.lineage.depth, seen.lineage.children) == (1, ()), "of the golden volume"
    assert (seen.replicas, seen.reader, seen.primary, seen.standing) == ([], None, None, None)
    assert seen.last_event is not None
    assert seen.last_event.kind == "db.create"


def test_one_that_does_not_run_is_not_asked(world: ReplicaWorld) -> None:
    world.service().stop("demo")
    statements(world)
    seen = observe(world)
    assert (seen.server, seen.server_problem, statements(world)) == (None, None, [])
    assert seen.last_event is not None
    assert seen.last_event.what == "stop"


def test_the_last_event_is_the_one_that_ended_last(world: ReplicaWorld) -> None:
    """What is done to the volume meanwhile began later, and is a part of it."""
    world.clock.sleep(10)
    whole = world.journal.begin("db.rollback", LAB, "demo", {"snapshot": "before"})
    part = world.journal.begin("volume.rollback", LAB, "demo", {"snapshot": "before"})
    for operation in (part, whole):
        world.clock.sleep(1)
        world.journal.apply(operation, [], world.progress, undo_on_failure=False)
    seen = observe(world)
    assert seen.last_event is not None
    assert (seen.last_event.kind, seen.last_event.duration_s) == ("db.rollback", 2.0)


def test_what_the_controller_warns_of_is_no_event_that_is_over(world: ReplicaWorld) -> None:
    world.clock.sleep(10)
    history = WarningHistory(world.store, LAB, world.clock)
    history.change("binlogs", begun=[Warned("demo", "archive-late", "warning", "It is late.")])
    seen = observe(world)
    assert [event.reason for event in seen.warnings] == ["It is late."]
    assert seen.last_event is not None
    assert seen.last_event.kind == "db.create"
    history.change("binlogs", ended=history.known("binlogs"))
    seen = observe(world)
    assert seen.warnings == []
    assert seen.last_event is not None
    assert seen.last_event.kind == "serve.archive-late"


def test_a_server_that_does_not_answer_keeps_nothing_from_being_shown(world: ReplicaWorld) -> None:
    world.hosts["h1"].silent_to_looks = True
    seen = observe(world)
    assert seen.server is None
    assert seen.server_problem is not None
    assert seen.snapshots is not None


def test_a_server_that_hangs_is_waited_for_once_and_briefly(world: ReplicaWorld) -> None:
    world.add(host="h2")
    world.servers["h1"].hung.add("mysqld-demo")
    seen = observe(world)
    assert (seen.server, seen.server_problem) == (None, "No answer within 5 s.")
    assert world.servers["h1"].waited_s == [LOOK_TIMEOUT_S]
    (replica,) = seen.replicas
    assert (replica.standing.state, replica.standing.lag_ms) == ("replicating", None)
    assert seen.snapshots is not None


def test_replicas_that_hang_keep_nothing_from_being_shown(world: ReplicaWorld) -> None:
    for host in ("h2", "h2", "h3"):
        world.add(host=host)
    world.servers["h2"].hung |= {"mysqld-demo-r1", "mysqld-demo-r2"}
    seen = observe(world)
    assert seen.server is not None
    assert [(one.standing.state, one.standing.problem) for one in seen.replicas] == [
        ("no-answer", "No answer within 5 s."),
        ("no-answer", "No answer within 5 s."),
        ("replicating", None),
    ]
    assert seen.reader is not None
    assert seen.reader.record.spec.name == "demo-r3"
    assert world.servers["h2"].waited_s == [LOOK_TIMEOUT_S] * 2, "once each"


def test_a_cluster_that_does_not_answer_is_told(world: ReplicaWorld) -> None:
    world.volumes.measure_failure = "The command timed out."
    seen = observe(world)
    assert (seen.snapshots, seen.lineage) == (None, None)
    assert seen.cluster_problem == "The command timed out."
    assert seen.server is not None


def test_snapshots_and_when_the_next_one_is_due(world: ReplicaWorld) -> None:
    schedule = SnapshotSchedule(every_s=3600, keep=3)
    SnapshotSchedules(world.service().operations).put("demo", schedule)
    now = world.clock.now()
    assert observe(world).next_snapshot_at == now, "there is none yet"
    SnapshotSchedules(world.service().operations).carry_out()
    seen = observe(world)
    assert seen.snapshots is not None
    assert [info.used_bytes for info in seen.snapshots.snapshots] == [4096]
    assert seen.snapshots.since_last_bytes == 8192
    assert seen.next_snapshot_at is not None
    assert 0 < (seen.next_snapshot_at - now).total_seconds() <= 3600


def test_replicas_with_their_standing_and_a_replica_with_its_source(world: ReplicaWorld) -> None:
    world.add(host="h2")
    seen = observe(world)
    assert [one.record.spec.name for one in seen.replicas] == ["demo-r1"]
    assert seen.reader is not None
    assert seen.reader.record.spec.name == "demo-r1"
    replica = observe(world, "demo-r1")
    assert replica.primary is not None
    assert replica.primary.spec.name == "demo"
    assert replica.standing is not None
    assert (replica.standing.state, replica.standing.lag_ms) == ("replicating", 0)
    world.service().stop("demo-r1")
    assert observe(world).reader is None


def test_without_passwords_all_else_is_shown(world: ReplicaWorld) -> None:
    """As after `state rebuild` in a home that never had them."""
    world.add(host="h2")
    for file in world.home.secrets_dir(LAB).iterdir():
        file.unlink()
    seen = observe(world)
    assert seen.server_problem is not None
    assert [one.standing.state for one in seen.replicas] == ["stopped"]
    assert seen.replicas[0].standing.problem is not None
    assert observe(world, "demo-r1").standing == seen.replicas[0].standing


def test_how_little_is_asked_whatever_the_database_has(world: ReplicaWorld) -> None:
    """One query of its server, one measure of all snapshots, and two queries a replica."""
    world.add(host="h2")
    snapshots = DatabaseSnapshots(world.service().operations)
    for name in ("a", "b", "c"):
        snapshots.create("demo", name)
    world.volumes.measured.clear()
    statements(world)
    observe(world)
    asked = statements(world)
    assert len([said for said in asked if said.startswith("SHOW GLOBAL STATUS")]) == 1
    assert len(asked) == 1 + 1 + 2, "the server, how far the primary is, and the replica's two"
    assert world.volumes.measured == ["demo"]
