"""Memory and CPUs changed under a running server, and its restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.core.units import GIB, MIB
from grampus.databases.live.decide_live_limits import (
    RunningPool,
    decide_live_options,
    decide_live_pool,
)
from grampus.databases.settings import PERFORMANCE_SCHEMA_BYTES, decide_server_settings
from grampus.hosts.port import HostUnreachableError

from .live_world import LiveWorld, render_pages


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LiveWorld]:
    made = LiveWorld(tmp_path)
    yield made
    made.close()


def _settings(memory_bytes: int):  # type: ignore[no-untyped-def]
    return decide_server_settings("mysql", 10 * GIB, memory_bytes, 1.0)


@pytest.mark.parametrize(
    ("memory_bytes", "running", "pool_bytes"),
    [
        (GIB, RunningPool(176 * MIB, 16 * MIB, None, False), 512 * MIB),
        # Started with big units: no more than the settings say.
        (GIB, RunningPool(2 * GIB, 384 * MIB, None, False), 384 * MIB),
        # performance_schema keeps its memory until the next start.
        (
            GIB,
            RunningPool(2 * GIB, MIB, None, True),
            512 * MIB - PERFORMANCE_SCHEMA_BYTES,
        ),
        (4 * GIB, RunningPool(2 * GIB, 128 * MIB, None, True), 2816 * MIB),
        # MariaDB grows into the addresses that it reserved.
        (4 * GIB, RunningPool(176 * MIB, MIB, 200 * MIB, False), 200 * MIB),
    ],
)
def test_pool_of_a_running_server(memory_bytes: int, running: RunningPool, pool_bytes: int) -> None:
    assert decide_live_pool(_settings(memory_bytes), running, "shop") == pool_bytes


def test_pool_that_cannot_shrink_so_far_needs_a_restart() -> None:
    with pytest.raises(RefusedError) as caught:
        decide_live_pool(_settings(512 * MIB), RunningPool(8 * GIB, GIB, None, False), "shop")
    assert caught.value.code == "needs-restart"


def test_options_of_the_user_stay_and_those_of_a_start_wait() -> None:
    own = {"max_connections": 40, "table_open_cache": 400, "innodb_buffer_pool_instances": 1}
    assert decide_live_options("mysql", own, {"max_connections": "100"}) == {
        "table_open_cache": 400
    }


def test_growing_makes_room_first_and_shrinking_last(world: LiveWorld) -> None:
    world.create()
    host, live = world.live_hosts["h1"], world.live()
    small = world.server().values["innodb_buffer_pool_size"]
    live.set_limits("demo", memory_bytes=GIB, cpus=1.5)
    assert world.progress.phases[-6:-4] == [
        "Limit the server to 1.5 CPUs and 1 GiB of memory",
        "Resize the server's buffer pool",
    ]
    assert host.limits["mysqld-demo"].memory_bytes == GIB
    assert world.server().values["innodb_buffer_pool_size"] == str(512 * MIB)
    record = world.service().get("demo")
    assert (record.spec.memory_bytes, record.spec.cpus) == (GIB, 1.5)
    assert record.buffer_pool_bytes == 512 * MIB
    live.set_limits("demo", memory_bytes=512 * MIB)
    assert world.progress.phases[-6:-4] == [
        "Resize the server's buffer pool",
        "Limit the server to 1.5 CPUs and 512 MiB of memory",
    ]
    assert world.server().values["innodb_buffer_pool_size"] == small
    assert world.volumes.images["demo"].facts["memory-bytes"] == str(512 * MIB)


def test_server_that_gives_no_memory_back_keeps_what_it_had(world: LiveWorld) -> None:
    world.create(memory_bytes=GIB)
    before = world.inventory()
    world.live_hosts["h1"].memory_in_use_bytes = 600 * MIB
    with pytest.raises(RefusedError) as caught:
        world.live().set_limits("demo", memory_bytes=512 * MIB)
    assert caught.value.code == "memory-in-use"
    assert world.inventory() == before
    assert world.clock.monotonic_s() >= 15, "it was given time"


def test_stopped_database_takes_its_limits_at_the_next_start(world: LiveWorld) -> None:
    world.create()
    world.service().stop("demo")
    before = list(world.live_hosts["h1"].limit_history)
    world.live().set_limits("demo", memory_bytes=GIB)
    assert world.live_hosts["h1"].limit_history == before
    world.service().start("demo")
    assert world.live_hosts["h1"].limits["mysqld-demo"].memory_bytes == GIB
    assert world.server().values["innodb_buffer_pool_size"] == str(512 * MIB)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"memory_bytes": 100 * GIB}, "too-big"),
        ({"cpus": 99.0}, "too-big"),
        ({"memory_bytes": 10 * MIB}, "too-small"),
        ({"cpus": float("nan")}, "too-small"),
    ],
)
def test_limits_that_cannot_be(world: LiveWorld, wish: dict[str, float], code: str) -> None:
    world.create()
    before = world.inventory()
    with pytest.raises((RefusedError, UsageError)) as caught:
        world.live().set_limits("demo", **wish)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert world.inventory() == before


def test_same_limits_change_nothing(world: LiveWorld) -> None:
    world.create()
    before = list(world.live_hosts["h1"].limit_history)
    assert world.live().plan_limits("demo", memory_bytes=512 * MIB) is None
    world.live().set_limits("demo", memory_bytes=512 * MIB)
    assert world.live_hosts["h1"].limit_history == before


def test_limits_of_a_database_on_a_host_that_is_down(world: LiveWorld) -> None:
    world.create()
    world.hosts["h1"].up = False
    with pytest.raises(HostUnreachableError):
        world.live().plan_limits("demo", memory_bytes=GIB)


def test_password_goes_by_stdin_alone(world: LiveWorld) -> None:
    world.create()
    world.live().set_limits("demo", memory_bytes=GIB)
    password = world.service().operations.credentials.load("demo").admin_password
    words = [word for argv in world.hosts["h1"].commands for word in argv]
    assert "--defaults-file=/dev/stdin" in words
    assert not [word for word in words if password.get_secret_value() in word]


def test_restart_writes_pages_out_first_and_takes_what_waited(world: LiveWorld) -> None:
    world.create()
    world.parameters().set("demo", "innodb_page_cleaners", "8")
    first = world.server()
    world.live().restart("demo")
    assert first.dirty_pages == 0
    hurried = [first.values[f"innodb_io_capacity{end}"] for end in ("", "_max")]
    assert hurried == ["10000", "20000"]
    assert world.server() is not first
    assert world.server().values["innodb_page_cleaners"] == "8"
    assert world.server().values["innodb_max_dirty_pages_pct"] == "90"


@pytest.mark.parametrize(
    ("fall", "least_s"), [pytest.param(500, 30, id="they fall"), pytest.param(0, 1.5, id="level")]
)
def test_load_that_keeps_pages_changed_does_not_hold_a_restart_up(
    world: LiveWorld, fall: int, least_s: float
) -> None:
    world.create()
    first = world.server()
    first.answer = _always_dirty(first.answer, fall)  # type: ignore[method-assign]
    world.live().restart("demo")
    assert least_s <= world.clock.monotonic_s() < least_s + 5
    assert world.server() is not first


def _always_dirty(answer, fall):  # type: ignore[no-untyped-def]
    dirty, written = 1_000_000, 0

    def answered(statement: str) -> tuple[int, str]:
        nonlocal dirty, written
        if "pool_pages_" in statement:
            dirty, written = dirty - fall, written + 2000
            return 0, render_pages(dirty, written)
        return answer(statement)

    return answered


def test_stopped_database_is_not_restarted(world: LiveWorld) -> None:
    world.create()
    world.service().stop("demo")
    with pytest.raises(RefusedError) as caught:
        world.live().restart("demo")
    assert caught.value.code == "not-running"


def test_restart_that_fails_leaves_the_database_to_be_mended(world: LiveWorld) -> None:
    world.create()
    world.parameters().set("demo", "innodb_page_cleaners", "8")
    world.hosts["h1"].serve_failure = "[ERROR] no such luck"
    with pytest.raises(GrampusError) as caught:
        world.live().restart("demo")
    assert caught.value.code == "server-stopped"
    world.hosts["h1"].serve_failure = ""
    world.parameters().reset("demo", "innodb_page_cleaners")
    world.service().start("demo")
    assert world.server().values["innodb_page_cleaners"] == "4"
