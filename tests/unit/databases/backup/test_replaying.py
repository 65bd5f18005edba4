"""Moments restored from archived binary logs, at the ports (INV-62)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB
from grampus.databases.backup import replaying
from grampus.databases.backup.replay_server import ReplayServer
from grampus.databases.backup.restores import decide_size
from grampus.databases.layout import plan_instance
from grampus.hosts.port import DaemonSpec
from tests.fakes.hosts import FakeFile
from tests.fakes.mysql_host import MEMINFO

from .existing import put_database
from .replay_world import ReplayWorld

LATE_S = int(datetime(2037, 1, 1, tzinfo=UTC).timestamp())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplayWorld]:
    with closing(ReplayWorld(tmp_path)) as made:
        yield made


def restored(world: ReplayWorld, moment: datetime) -> list[str]:
    world.restore(moment)
    return world.rows()


def test_what_was_committed_before_the_moment_is_there_and_no_more(world: ReplayWorld) -> None:
    world.fill()
    assert restored(world, world.moment) == ["one", "two"]


def test_database_that_has_grown_since_is_restored_with_room_for_its_rows(
    world: ReplayWorld,
) -> None:
    world.begin()
    world.service().resize("demo", 20 * GIB)
    world.clock.sleep(60)
    world.commit("two")
    world.clock.sleep(60)
    world.archive()
    assert restored(world, world.clock.now()) == ["one", "two"]
    spec = world.service().show("again").record.spec
    assert spec.size_bytes == world.volumes.get("again").spec.size_bytes == 20 * GIB


@pytest.mark.parametrize(
    ("wanted_bytes", "now_bytes", "expected"),
    [
        (None, 0, 10 * GIB),
        (None, 10 * GIB, 10 * GIB),
        (None, 15 * GIB, 15 * GIB),
        (12 * GIB, 15 * GIB, 12 * GIB),
        (10 * GIB, 15 * GIB, 10 * GIB),
    ],
)
def test_restored_size_is_as_asked_or_as_now(
    wanted_bytes: int | None, now_bytes: int, expected: int
) -> None:
    assert decide_size(10 * GIB, wanted_bytes, now_bytes) == expected
    with pytest.raises(RefusedError) as caught:
        decide_size(10 * GIB, 9 * GIB, now_bytes)
    assert caught.value.code == "shrink"


def test_time_that_a_session_sets_cuts_nothing_off(world: ReplayWorld) -> None:
    world.begin()
    world.clock.sleep(60)
    world.commit("future", at_s=LATE_S)
    world.commit("two")
    world.clock.sleep(60)
    world.archive()
    assert restored(world, world.clock.now()) == ["one", "future", "two"]


def test_long_statement_counts_when_it_commits_not_when_it_begins(world: ReplayWorld) -> None:
    world.begin()
    world.clock.sleep(60)
    moment = world.clock.now()
    began_s = int(moment.timestamp()) - 30
    world.clock.sleep(60)
    world.commit("altered", at_s=began_s)
    world.clock.sleep(60)
    world.archive()
    assert restored(world, moment) == ["one"]


def test_clock_that_was_set_back_loses_nothing_and_is_told(world: ReplayWorld) -> None:
    world.begin()
    world.clock.sleep(60)
    moment = world.clock.now()
    world.commit("ahead", committed=moment + timedelta(seconds=20))
    world.rotate()
    world.commit("before", committed=moment - timedelta(seconds=1))
    world.commit("after", committed=moment + timedelta(seconds=1))
    world.clock.sleep(60)
    world.archive()
    assert restored(world, moment) == ["one", "ahead", "before"]
    assert any("set back" in note and "1 transactions" in note for note in world.progress.notes)


def test_logs_lie_on_the_host_some_at_a_time(
    world: ReplayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "ROUND_BYTES", 2000)
    world.begin()
    rows = [f"row{number}" for number in range(40)]
    for row in rows:
        world.clock.sleep(10)
        world.rotate()
        world.commit(row)
    world.clock.sleep(60)
    world.archive()
    assert restored(world, world.clock.now()) == ["one", *rows]
    assert world.logging_hosts["h2"].most_relay_bytes < 6000


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_logs_of_an_encrypted_database_lie_on_its_volume_alone(
    world: ReplayWorld, *, is_encrypted: bool
) -> None:
    """INV-47: nothing of it is in clear on a host's disk."""
    record, host = put_database(world), world.logging_hosts["h1"]
    plan = plan_instance(record.spec, host.data_dir, PurePosixPath("/data/volumes/demo"))
    credentials = world.service().operations.credentials.load("demo")
    server = ReplayServer(host, plan, credentials, world.clock, is_encrypted=is_encrypted)
    server.put("r1", 1, iter([b"abc", b"def", b"ghi"]), 5)
    (path,) = [path for path in host.files if path.name == "relay-r1.000001"]
    assert host.files[path].content == "abcde"
    assert path.is_relative_to(plan.volume) is is_encrypted


def test_server_that_applies_has_more_memory_and_is_closed(world: ReplayWorld) -> None:
    world.fill()
    host = world.logging_hosts["h2"]  # where there is room
    started: list[DaemonSpec] = []
    ensure = host.ensure_daemon
    host.ensure_daemon = lambda spec: (started.append(spec), ensure(spec))[1]  # type: ignore[method-assign]
    host.files[MEMINFO] = FakeFile("MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
    world.restore(world.moment)
    applies, serves = started
    assert applies.name == "mysqld-init-again"
    assert applies.limits.memory_bytes == (serves.limits.memory_bytes or 0) + 2 * GIB
    assert {"--skip-networking", "--event-scheduler=OFF"} <= set(applies.argv)


@pytest.mark.parametrize("happens", ["error", "skipped", "full", "lost"])
def test_replay_that_is_not_whole_leaves_nothing(world: ReplayWorld, happens: str) -> None:
    world.fill()
    before, host = world.inventory(), world.logging_hosts["h2"]
    codes = {
        "error": "replay-failed",
        "skipped": "replay-failed",
        "full": "host-full",
        "lost": "replay-incomplete",
    }
    match happens:
        case "error":
            host.apply_error = "The table 't' is full"
        case "skipped":
            host.skipped = "two"
        case "full":
            host.free_bytes = 1000
        case _:
            host.lost_at_stop = "two"
    with pytest.raises(GrampusError) as caught:
        world.restore(world.moment)
    assert caught.value.code == codes[happens]
    assert world.inventory() == before


def test_backup_that_holds_later_transactions_is_refused(world: ReplayWorld) -> None:
    """As after a clock of the database's host that is ahead of the cluster's."""
    world.begin()
    world.clock.sleep(3600)
    world.commit("two", committed=world.clock.now() + timedelta(seconds=30))
    world.back_up()
    world.clock.sleep(5)
    moment = world.clock.now()
    world.clock.sleep(60)
    world.archive()
    with pytest.raises(GrampusError) as caught:
        world.restore(moment)
    assert caught.value.code == "backup-too-late"


def test_events_that_ran_run_again_and_others_do_not(world: ReplayWorld) -> None:
    world.fill()
    held = "REPLICA_SIDE_DISABLED"
    host = world.logging_hosts["h2"]  # where there is room
    host.events = [f"a\told\t{held}\t2026-01-01\tu@h\tutf8mb4\tutf8mb4_bin"]
    host.events_after = [
        *host.events,
        "a\toff\tDISABLED\t2026-01-02\tu@h\tutf8mb4\tutf8mb4_bin",
        f"a\tne`w\t{held}\t2026-01-02\tu@h\tlatin1\tlatin1_bin",
        f"a\tn\u00e9\t{held}\t2026-01-02\tu@h\tlatin1\tlatin1_bin",
    ]
    world.restore(world.moment)
    enabled = [statement for statement in host.statements if statement.endswith("ENABLE")]
    assert enabled == [
        "SET SESSION sql_log_bin = 0; SET character_set_client = latin1, "
        "collation_connection = latin1_bin; ALTER DEFINER = `u`@`h` EVENT `a`.`ne``w` ENABLE"
    ]
    assert any("n\u00e9" in note for note in world.progress.notes)
