"""Restarts in maintenance windows: for what waits, once in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from grampus.cli.serve_windows import restart_in_windows
from grampus.core.errors import GrampusError
from grampus.core.weekly_window import parse_weekly_window
from grampus.databases.live.window_restarts import WindowRestarts

from .live_world import LiveWorld

WAITING = "innodb_page_cleaners"


def kinds(world: LiveWorld, restarts: WindowRestarts | None = None) -> list[str]:
    """What one look did; that of a new controller unless told."""
    events = restart_in_windows(restarts or WindowRestarts(), world.service().operations)
    return [event.kind for event in events]


def set_window(world: LiveWorld, *, opens_in: timedelta = timedelta(0)) -> None:
    """An hour of each day that begins so long from now."""
    begin = world.clock.now() + opens_in
    text = f"{begin:%H:%M}-{begin + timedelta(hours=1):%H:%M}"
    world.service().set_maintenance_window("demo", parse_weekly_window(text))


def pass_time(world: LiveWorld, time: timedelta) -> None:
    world.clock.sleep(time.total_seconds())


def wait_for_restart(world: LiveWorld) -> None:
    world.parameters().set("demo", WAITING, "8")


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, code: str) -> Iterator[None]:
    """No server can be restarted."""

    def fail(*_: object) -> None:
        raise GrampusError("It cannot be restarted.", "Look.", code=code)

    with monkeypatch.context() as patched:
        patched.setattr("grampus.databases.live.live_settings.LiveSettings.restart", fail)
        yield


def test_what_runs_from_an_older_host_image_is_restarted_in_the_window(world: LiveWorld) -> None:
    set_window(world)
    world.volumes.older_drivers.add("demo")
    (event,) = restart_in_windows(WindowRestarts(), world.service().operations)
    assert event.text.endswith("maintenance window: newer host image.")
    assert world.volumes.older_drivers == set(), "the driver was started again, too"
    pass_time(world, timedelta(minutes=1))
    assert kinds(world) == []


def test_what_waits_takes_effect_once_the_window_is_open(world: LiveWorld) -> None:
    set_window(world, opens_in=timedelta(hours=2))
    wait_for_restart(world)
    assert kinds(world) == []
    pass_time(world, timedelta(hours=2, minutes=1))
    assert kinds(world) == ["window-restarted"]
    assert world.server().values[WAITING] == "8"
    assert kinds(world) == []


@pytest.mark.parametrize("reason", ["nothing waits", "no window", "stopped", "host away"])
def test_nothing_is_restarted_without_need(world: LiveWorld, reason: str) -> None:
    if reason != "no window":
        set_window(world)
    if reason != "nothing waits":
        wait_for_restart(world)
    if reason == "stopped":
        world.service().stop("demo")
    if reason == "host away":
        world.hosts["h1"].up = False
    pass_time(world, timedelta(minutes=1))
    assert kinds(world) == []


def test_a_second_change_waits_for_the_next_window(world: LiveWorld) -> None:
    set_window(world)
    wait_for_restart(world)
    pass_time(world, timedelta(minutes=1))
    assert kinds(world) == ["window-restarted"]
    world.parameters().set("demo", WAITING, "2")
    pass_time(world, timedelta(minutes=1))
    assert kinds(world) == []
    pass_time(world, timedelta(days=1))
    assert kinds(world) == ["window-restarted"]
    assert world.server().values[WAITING] == "2"


def test_a_restart_that_fails_is_not_repeated_and_told_until_nothing_waits(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_window(world)
    wait_for_restart(world)
    pass_time(world, timedelta(minutes=1))

    restarts = WindowRestarts()

    with failing(monkeypatch, "server-stopped"):
        assert kinds(world, restarts) == ["window-restart-failed"]
    # Told again, so that it does not count as over; a new controller knows nothing of it.
    assert kinds(world, restarts) == ["window-restart-failed"]
    assert kinds(world) == []
    world.live().restart("demo")
    assert kinds(world, restarts) == []
    pass_time(world, timedelta(days=1))
    assert kinds(world, restarts) == []


def test_a_restart_that_failed_is_repeated_in_the_next_window(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_window(world)
    wait_for_restart(world)
    pass_time(world, timedelta(minutes=1))
    restarts = WindowRestarts()

    with failing(monkeypatch, "server-stopped"):
        assert kinds(world, restarts) == ["window-restart-failed"]
    pass_time(world, timedelta(hours=2))
    assert kinds(world, restarts) == ["window-restart-failed"]
    pass_time(world, timedelta(hours=22))
    assert kinds(world, restarts) == ["window-restarted"]
    assert kinds(world, restarts) == []


def test_what_another_command_works_on_is_restarted_later_in_the_window(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_window(world)
    wait_for_restart(world)
    pass_time(world, timedelta(minutes=1))

    with failing(monkeypatch, "busy"):
        assert kinds(world) == []
    assert kinds(world) == ["window-restarted"]
