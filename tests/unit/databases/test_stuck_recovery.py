"""INV-97: a server that cannot recover in its buffer pool recovers in a larger one (ADR 59)."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB, MIB
from grampus.databases.clones.cloning import CloneRequest
from grampus.databases.clones.identity import serve_closed
from grampus.databases.database_work import DatabaseWork
from grampus.databases.instance import is_stuck
from grampus.databases.stuck_recovery import decide_recovery_pool
from tests.fakes.interruption import Killed, burn_points
from tests.fakes.mysql_host import MEMINFO, MysqlDaemon

from .stopped_case import clones
from .world import World

DAEMON, RECOVERING = "mysqld-demo", "mysqld-init-demo"
WAIT = "[Warning] [MY-011959] [InnoDB] Difficult to find free blocks in the buffer pool"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", False),
        (f"{WAIT} (21 search iterations)! 21 failed attempts to flush a page!", False),
        (f"{WAIT} (999 search iterations)!", False),
        (f"{WAIT} (1000 search iterations)!", True),
        (f"{WAIT} (21 search iterations)!\n{WAIT} (53517 search iterations)!\nPENDING", True),
        (f"{WAIT} (53517 search iterations)!\n[MY-010116] [Server] starting as process 1", False),
        (f"[MY-010116] [Server] starting as process 1\n{WAIT} (1000 search iterations)!", True),
        ("[System] [MY-010931] [Server] ready for connections (5000 search iterations)", False),
    ],
)
def test_a_wait_of_seconds_for_a_page_is_told_from_a_short_one(log: str, expected: bool) -> None:
    assert is_stuck(log) is expected


@pytest.mark.parametrize(
    ("log_bytes", "pool_bytes", "available_bytes", "expected"),
    [
        (352 * MIB, 176 * MIB, 8 * GIB, (176 + 3 * 352) * MIB),
        (16 * GIB, GIB, 100 * GIB, 49 * GIB),
        (352 * MIB, 176 * MIB, GIB, 995 * MIB),  # as much as there is
        (352 * MIB, 176 * MIB, 100 * MIB, None),
        (352 * MIB, 176 * MIB, 0, None),
        (58 * MIB, 176 * MIB, 8 * GIB, 352 * MIB),  # the log that Grampus gives it
    ],
)
def test_the_pool_holds_the_log_if_the_host_can(
    log_bytes: int, pool_bytes: int, available_bytes: int, expected: int | None
) -> None:
    assert decide_recovery_pool(log_bytes, pool_bytes, available_bytes) == expected


def _crash(world: World, name: str = "demo", *, available_kb: int = 8 * 1024**2) -> None:
    """Its server ended in the middle of many writes."""
    world.service().stop(name)
    _need_more(world, available_kb)


def _need_more(world: World, available_kb: int = 8 * 1024**2) -> None:
    host = world.hosts["h1"]
    host.put(MEMINFO, f"MemTotal: 25276516 kB\nMemAvailable: {available_kb} kB\n")
    host.needed_pool_bytes, host.redo_log_bytes = GIB, 352 * MIB


def _serves(world: World, name: str = "mysqld-demo") -> bool:
    daemon = world.hosts["h1"].daemons[name]
    assert isinstance(daemon, MysqlDaemon)
    return (daemon.state, daemon.is_stuck, daemon.waits_at) == ("running", False, None)


@pytest.mark.parametrize("write_path", ["journal", "direct"])
def test_it_recovers_with_more_memory_and_serves_with_its_own(
    world: World, write_path: str
) -> None:
    world.create(host="h1", write_path=write_path)
    _crash(world)
    world.service().start("demo")
    host = world.hosts["h1"]
    assert _serves(world)
    assert RECOVERING not in host.daemons
    assert host.daemons[DAEMON].limits.memory_bytes == 512 * MIB
    assert not any("buffer-pool-size" in word for word in host.daemons[DAEMON].spec.argv)
    assert any("recovers with more memory" in note for note in world.progress.notes)
    assert world.volumes.unflushed == set()


def test_a_copy_recovers_with_more_memory(world: World) -> None:
    """As of a database with much memory, for which little is enough."""
    world.create(host="h1", write_path="journal")
    _need_more(world)
    clones(world).clone(CloneRequest("demo", "copy", host="h1"))
    assert _serves(world, "mysqld-copy")
    assert "mysqld-init-copy" not in world.hosts["h1"].daemons


def test_a_host_without_memory_is_named(world: World) -> None:
    world.create(host="h1")
    _crash(world, available_kb=100 * 1024)
    with pytest.raises(GrampusError) as caught:
        world.service().start("demo")
    assert caught.value.code == "recovery-memory"
    assert "grampus db move demo" in caught.value.remedy
    assert RECOVERING not in world.hosts["h1"].daemons


def test_a_recovery_that_was_cut_off_is_begun_anew(world: World) -> None:
    world.create(host="h1")
    was_recovering = 0
    for calls in burn_points():
        _crash(world)
        world.fuse.left = calls
        try:
            world.service().start("demo")
        except Killed:
            was_recovering += RECOVERING in world.hosts["h1"].daemons
            world.service().start("demo")
            assert _serves(world)
            assert RECOVERING not in world.hosts["h1"].daemons
        else:
            break
    world.fuse.left = None
    assert was_recovering > 0


def test_a_server_for_grampus_alone_recovers_with_more_memory(world: World) -> None:
    """As of a restored database, to which archived transactions are applied."""
    world.create(host="h1", write_path="journal")
    _crash(world)
    ports, spec = world.service().operations.ports, world.service().get("demo").spec
    plan = DatabaseWork(ports, spec).plan()
    credentials = ports.credentials.load("demo")
    serve_closed(world.hosts["h1"], plan, credentials, world.clock, makes_accounts=False)
    assert _serves(world, RECOVERING)
    assert world.hosts["h1"].daemons[RECOVERING].limits.memory_bytes == 512 * MIB
