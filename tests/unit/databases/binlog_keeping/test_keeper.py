"""Binary logs at work: deleted once nobody needs them, kept while somebody does (INV-80)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from grampus.core.units import GIB, MIB
from grampus.databases.controller.due_jobs import ControllerEvent

from .keeping_world import KeepingWorld

HOUR = 3600
# Of a volume of 10 GiB: the share of its binary logs.
SHARE = 1280 * MIB


@pytest.fixture
def world(tmp_path: Path) -> Iterator[KeepingWorld]:
    made = KeepingWorld(tmp_path)
    yield made
    made.close()


def told(events: list[ControllerEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.level) for event in events]


def test_what_nobody_needs_goes_once_its_retention_is_over(world: KeepingWorld) -> None:
    world.write_logs(10, size=8 * MIB)
    assert world.keep() == []
    assert world.server.purged == ["binlog.000005"]  # those of the last hour stay
    world.service().set_retention("demo", 24 * HOUR)
    world.write_logs(200, size=MIB)
    world.keep()
    assert world.server.purged[1:] == ["binlog.000057"]  # 144 of ten minutes each are a day's


def test_an_archiver_that_was_away_for_six_minutes_leaves_no_gap(world: KeepingWorld) -> None:
    world.service().set_retention("demo", 0)
    world.archive_to(3)
    world.write_logs(10, size=8 * MIB, apart_s=60)
    world.clock.sleep(360)
    world.keep()
    assert world.server.purged == ["binlog.000003"]
    [expiry_s] = {world.server.expiries[-1]}
    assert expiry_s >= 540 + 360 + HOUR, "the server would delete them by itself"


def test_logs_of_another_history_with_the_same_names_count_as_not_archived(
    world: KeepingWorld,
) -> None:
    world.archive_to(9)
    record = world.records.get("demo")
    state = world.records.backup_state(record)
    assert state is not None
    assert state.archive_end is not None
    other = state.archive_end.model_copy(
        update={"last_piece": f"binlog.000009/{0:015d}-{9:015d}-0"}
    )
    world.records.put_backup_state("demo", state.model_copy(update={"archive_end": other}))
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    assert world.keep() == []
    assert world.server.purged == []


def test_who_archives_by_hand_counts_while_that_is_lately(world: KeepingWorld) -> None:
    world.archive_to(2, by_schedule=False)
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    world.keep()
    assert world.server.purged == ["binlog.000002"]
    world.clock.sleep(timedelta(days=8).total_seconds())
    world.keep()
    assert world.server.purged[1:] == ["binlog.000010"]


def test_replicas_keep_what_they_lack_also_while_they_do_not_answer(world: KeepingWorld) -> None:
    world.add_replica("demo-r1", 45)
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    world.keep()
    assert world.server.purged == ["binlog.000005"]
    world.add_replica("demo-r22", None)
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    world.keep()
    assert world.server.purged == ["binlog.000005"]


def test_a_replica_keeps_its_own_logs_while_they_have_room(world: KeepingWorld) -> None:
    """They may hold the only copy of what its primary lost in a crash."""
    record = world.records.get("demo")
    spec = record.spec.model_copy(update={"replica_of": "lost", "binlog_retention_s": 0})
    world.records.put(record.model_copy(update={"spec": spec}))
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    assert world.keep() == []
    assert world.server.purged == []
    world.write_logs(11, size=140 * MIB, apart_s=6000)
    assert world.keep() == []
    assert world.server.purged == ["binlog.000003"]


def test_a_replica_that_is_away_is_warned_of_then_gives_way(world: KeepingWorld) -> None:
    world.add_replica("demo-r1", None)
    world.write_logs(9, size=140 * MIB, apart_s=6000)
    [event] = world.keep()
    assert (event.kind, event.level) == ("logs-held-demo-r1", "warning")
    assert "demo-r1" in event.text
    assert "demo-r1" in event.remedy
    assert world.server.purged == []
    world.write_logs(11, size=140 * MIB, apart_s=6000)
    events = world.keep()
    assert ("replica-gave-way-demo-r1", "warning") in told(events)
    assert world.server.purged == ["binlog.000003"]


def test_the_archive_gives_way_last_and_never_silently(world: KeepingWorld) -> None:
    world.archive_to(None)
    world.write_logs(11, size=140 * MIB, apart_s=6000)
    assert world.keep() == []  # over the share, and not nearly at its bound
    world.write_logs(16, size=140 * MIB, apart_s=6000)
    assert told(world.keep()) == [("logs-held", "warning")]
    assert world.server.purged == []
    world.write_logs(20, size=140 * MIB, apart_s=6000)
    events = world.keep()
    assert ("archive-gave-way", "warning") in told(events)
    assert "cannot be restored" in next(e for e in events if e.kind == "archive-gave-way").text
    assert world.server.purged == ["binlog.000003"]


def test_its_server_is_told_seldom_and_its_users_own_setting_stands(world: KeepingWorld) -> None:
    world.write_logs(3, size=MIB)
    for _ in range(5):
        world.keep()
    assert len(world.server.expiries) == 1
    world.clock.sleep(HOUR)
    world.keep()
    assert len(world.server.expiries) == 2
    record = world.records.get("demo")
    spec = record.spec.model_copy(update={"parameters": {"binlog_expire_logs_seconds": "60"}})
    world.records.put(record.model_copy(update={"spec": spec}))
    world.clock.sleep(HOUR)
    world.keep()
    assert len(world.server.expiries) == 2


def test_a_host_that_is_away_keeps_no_other_from_its_look(world: KeepingWorld) -> None:
    world.write_logs(10, size=8 * MIB, apart_s=6000)
    record = world.records.get("demo")
    spec = record.spec.model_copy(update={"name": "far", "host": "h2"})
    world.records.put(record.model_copy(update={"spec": spec}))
    world.keeping["h2"].up = False
    assert told(world.keep()) == [("failed", "failed")]
    assert world.server.purged == ["binlog.000010"]


def test_a_quiet_server_is_not_asked(world: KeepingWorld) -> None:
    world.write_logs(1, size=MIB)
    world.server.commands.clear()
    world.keep()
    # Its host is asked for its volumes and its logs, and nobody else.
    assert [argv[0] for argv in world.server.commands] == ["findmnt", "find"]


def test_a_look_shows_who_keeps_what(world: KeepingWorld) -> None:
    world.add_replica("demo-r1", 15)
    world.write_logs(4, size=8 * MIB)
    seen = world.keeper.view(world.service().operations, world.records.get("demo"))
    assert seen is not None
    assert (len(seen.logs), seen.size_bytes, seen.room.share_bytes) == (4, 32 * MIB, SHARE)
    assert [(held.need.name, held.size_bytes) for held in seen.held] == [("demo-r1", 16 * MIB)]
    assert world.server.purged == []


def test_the_guard_deletes_what_nobody_needs_before_it_closes_a_database(
    world: KeepingWorld,
) -> None:
    world.write_logs(40, size=8 * MIB, apart_s=1)
    world.use(10 * GIB - 100 * MIB)
    assert told(world.look()) == []
    assert world.server.purged == ["binlog.000025"]
    assert not world.is_read_only()
    assert told(world.look()) == [("read-only", "warning")], "there is still no room"
    assert world.is_read_only()


def test_the_guard_says_when_a_retention_gives_way(world: KeepingWorld) -> None:
    world.service().set_retention("demo", 24 * HOUR)
    world.write_logs(40, size=8 * MIB, apart_s=1)
    world.use(10 * GIB - 100 * MIB)
    assert told(world.look()) == [("retention-cut", "warning")]


@pytest.mark.parametrize("what", ["archive", "replica", "server", "full"])
def test_the_guard_asks_nobody_and_closes_in_time(world: KeepingWorld, what: str) -> None:
    world.write_logs(40, size=8 * MIB, apart_s=1)
    world.use(10 * GIB - (4 if what == "full" else 100) * MIB)
    if what == "archive":
        world.archive_to(39)
    if what == "replica":
        world.add_replica("demo-r1", 400)
    if what == "server":
        world.server.refuses_purges = True
    assert told(world.look()) == [("read-only", "warning")]
    assert world.server.purged == []
