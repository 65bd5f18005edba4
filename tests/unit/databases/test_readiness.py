"""INV-6: no client gets in while flushes of the volume are answered at once (ADR 58)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.database_work import SWITCH_CPUS, DatabaseWork
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.readiness import OPEN_PIPE, PIPE
from tests.fakes.interruption import Killed, burn_points
from tests.fakes.mysql_host import MysqlDaemon

from .failover.failover_world import FailoverWorld
from .stopped_case import operations
from .world import World

DAEMON = "mysqld-demo"


def _serving(world: World) -> MysqlDaemon:
    (daemon,) = [
        host.daemons[DAEMON]
        for host in world.hosts.values()
        if host.up and DAEMON in host.daemons and host.daemons[DAEMON].state == "running"
    ]
    return daemon


def _has_pipe(world: World) -> bool:
    return any(path.name == PIPE for host in world.hosts.values() for path in host.files)


def _restart(world: FailoverWorld) -> None:
    world.live().restart("demo")


def _stop_and_start(world: World) -> None:
    world.service().stop("demo")
    world.service().start("demo")


def _move(world: World) -> None:
    DatabaseMoves(operations(world)).move("demo", "h2")


def _fail_over(world: FailoverWorld) -> None:
    world.lose()
    world.failovers().fail_over("demo")


@pytest.mark.parametrize("act", [_restart, _stop_and_start, _move, _fail_over])
@pytest.mark.parametrize("write_path", ["journal", "cache"])
def test_clients_get_in_once_the_volume_is_flushed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[FailoverWorld], None],
    write_path: str,
) -> None:
    world = FailoverWorld(tmp_path)
    world.create(host="h1", write_path=write_path)
    world.volumes.dropped_flushes.clear()
    waited: list[bool] = []
    flush = world.volumes.ensure_flushed

    def flush_seen(name: str) -> None:
        waited.append(_serving(world).waits_at is not None)
        flush(name)

    monkeypatch.setattr(world.volumes, "ensure_flushed", flush_seen)
    act(world)
    assert world.volumes.dropped_flushes == ["demo"]
    assert waited == [True]
    assert (_serving(world).waits_at, _has_pipe(world)) == (None, False)
    assert world.volumes.unflushed == set()
    assert world.service().show("demo").status == "running"
    world.close()


def test_a_start_gets_more_cpus_than_the_server_keeps(world: World) -> None:
    world.create(cpus=0.5)
    _stop_and_start(world)
    daemon = _serving(world)
    assert (daemon.spec.limits.cpus, daemon.limits.cpus) == (SWITCH_CPUS, 0.5)


def test_a_volume_without_an_order_of_writes_keeps_its_flushes(world: World) -> None:
    world.create(write_path="direct")
    _stop_and_start(world)
    assert world.volumes.dropped_flushes == []
    assert not any("--init-file" in word for word in _serving(world).spec.argv)


def test_a_server_that_waits_is_let_go_by_the_next_command(world: World) -> None:
    """Whoever started it was killed before the flush."""
    world.create(write_path="journal")
    world.service().stop("demo")
    left_waiting = 0
    for calls in burn_points():
        world.fuse.left = calls
        try:
            world.service().start("demo")
        except Killed:
            daemon = world.hosts["h1"].daemons.get(DAEMON)
            left_waiting += daemon is not None and daemon.waits_at is not None
            world.service().start("demo")
            assert (_serving(world).waits_at, _has_pipe(world)) == (None, False)
            assert world.volumes.unflushed == set()
            world.service().stop("demo")
        else:
            break
    world.fuse.left = None
    assert left_waiting > 0


def test_a_server_whose_volume_cannot_be_flushed_lets_nobody_in(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(write_path="journal")
    world.service().stop("demo")

    def refuse(name: str) -> None:
        raise GrampusError(f"{name} drops flushes.", code="drops-flushes")

    dismissed = list(world.hosts["h1"].dismissed)
    with monkeypatch.context() as patched:
        patched.setattr(world.volumes, "ensure_flushed", refuse)
        with pytest.raises(GrampusError) as caught:
            world.service().start("demo")
    assert caught.value.code == "drops-flushes"
    # It was ended at once: one that waits heeds no stop until it is killed a minute later.
    assert DAEMON not in world.hosts["h1"].daemons
    assert world.hosts["h1"].dismissed == dismissed
    assert not _has_pipe(world)
    world.service().start("demo")
    assert (_serving(world).waits_at, world.volumes.unflushed) == (None, set())


def test_a_pipe_that_nobody_waits_at_is_cleared_away(world: World) -> None:
    """One that an earlier start left; the server was started without it since."""
    world.create(write_path="journal")
    host = world.hosts["h1"]
    host.run(["mkfifo", "-m", "0600", f"/data/databases/demo/{PIPE}"])
    assert _has_pipe(world)
    service = world.service()
    DatabaseWork(service.operations.ports, service.get("demo").spec).serve()
    assert not _has_pipe(world)
    assert _serving(world).waits_at is None


def _try(pipe: Path, patience_s: str) -> int:
    argv = [sys.executable, "-c", OPEN_PIPE, str(pipe), patience_s]
    return subprocess.run(argv, timeout=50, check=False).returncode


def test_who_waits_at_a_pipe_reads_its_end(tmp_path: Path) -> None:
    pipe, read = tmp_path / PIPE, []
    os.mkfifo(pipe, 0o600)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert _try(pipe, "40") == 0
    reader.join(timeout=40)
    assert (read, pipe.exists()) == ([b""], False)


def test_a_pipe_without_a_reader_stays(tmp_path: Path) -> None:
    pipe = tmp_path / PIPE
    assert _try(pipe, "0.1") == 0  # there is none: nobody waits
    os.mkfifo(pipe, 0o600)
    assert _try(pipe, "0.1") == 1
    assert pipe.exists()
