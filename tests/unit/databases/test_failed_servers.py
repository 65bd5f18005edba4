"""A server that should run and does not is failed, has a reason, and comes back (INV-73)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from grampus.cli.serve_servers import restart_servers
from grampus.core.errors import RefusedError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.failed_servers import FailedServers
from grampus.databases.server_end import decide_restart_wait_s
from grampus.state.locks import hold_lock
from grampus.volumes.model import FencedAttachment

from .world import LAB, World

RESTARTED = ["server-failed", "server-restarted"]
BROKEN = "[ERROR] InnoDB: corrupted\n[ERROR] Aborting"


def _look(world: World) -> list[ControllerEvent]:
    return restart_servers(FailedServers(world.service()))


def _kill(world: World, *, out_of_memory: int = 0, log: str = "ready for connections.") -> None:
    daemon = world.hosts["h1"].daemons["mysqld-demo"]
    daemon.state, daemon.log, daemon.out_of_memory = "stopped", log, out_of_memory


def test_a_killed_server_is_failed_with_its_reason_and_not_stopped(world: World) -> None:
    world.create()
    _kill(world, out_of_memory=1)
    view = world.service().show("demo")
    assert view.status == "failed"
    assert view.end is not None
    assert view.end.kind == "out-of-memory"
    with pytest.raises(RefusedError) as raised:
        world.service().client_argv("demo")
    assert raised.value.remedy == "`grampus db start demo` starts it."


def test_a_stopped_database_is_stopped_and_left_alone(world: World) -> None:
    world.create()
    world.service().stop("demo")
    assert _look(world) == []
    view = world.service().show("demo")
    assert (view.status, view.end) == ("stopped", None)


def test_a_server_that_ended_is_told_of_and_started_again(world: World) -> None:
    world.create()
    assert _look(world) == []
    _kill(world, out_of_memory=1)
    warning, done = _look(world)
    assert (warning.database, warning.kind, warning.level) == ("demo", "server-failed", "warning")
    assert "memory limit" in warning.text
    assert "db set demo --memory" in warning.remedy
    assert (done.database, done.kind, done.level) == ("demo", "server-restarted", "done")
    assert world.service().show("demo").status == "running"
    assert _look(world) == []


def test_one_that_does_not_start_is_tried_again_after_longer_and_longer(world: World) -> None:
    world.create()
    _kill(world, log=BROKEN)
    world.hosts["h1"].serve_failure = BROKEN
    (event,) = _look(world)
    assert (event.kind, event.level) == ("server-failed", "failed")
    assert "InnoDB: corrupted" in event.text
    tried = len(world.progress.phases)
    assert [e.text for e in _look(world)] == [event.text], "a state that lasts reads the same"
    assert len(world.progress.phases) == tried, "it was tried again at once"
    view = world.service().show("demo")
    assert (view.status, view.record.desired) == ("failed", "running")
    assert view.end is not None
    assert view.end.kind == "error", "the log is gone with the container, the reason is not"
    world.clock.sleep(decide_restart_wait_s(1))
    _look(world)
    assert len(world.progress.phases) > tried
    failure = world.service().operations.records.find_failure("demo")
    assert failure is not None
    wait = timedelta(seconds=decide_restart_wait_s(2))
    assert failure.next_at - world.clock.now() <= wait
    world.hosts["h1"].serve_failure = ""
    world.clock.sleep(decide_restart_wait_s(2))
    assert [event.kind for event in _look(world)] == RESTARTED


def test_a_server_that_fails_again_soon_is_not_started_again_at_once(world: World) -> None:
    world.create()
    _kill(world)
    assert [event.kind for event in _look(world)] == RESTARTED
    _kill(world)
    assert [event.kind for event in _look(world)] == ["server-failed"]
    world.clock.sleep(decide_restart_wait_s(1))
    assert [event.kind for event in _look(world)] == RESTARTED


def test_a_host_that_came_back_has_its_servers_again(world: World) -> None:
    world.create()
    world.hosts["h1"].crash()
    assert [event.kind for event in _look(world)] == RESTARTED
    assert world.service().show("demo").status == "running"


def test_a_host_that_is_away_says_nothing_of_its_servers(world: World) -> None:
    world.create()
    world.hosts["h1"].up = False
    assert _look(world) == []
    assert world.service().show("demo").status == "host-down"
    assert world.service().operations.records.find_failure("demo") is None


def test_what_another_command_works_on_is_left_to_it(world: World) -> None:
    world.create()
    _kill(world)
    spec = world.service().get("demo").spec.model_dump(mode="json")
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        world.journal.begin("db.start", LAB, "demo", spec)
        assert _look(world) == []
        assert world.service().show("demo").status == "starting"


def test_a_volume_that_was_fenced_away_is_not_opened_again(world: World) -> None:
    world.create()
    _kill(world)
    image = world.volumes.images["demo"]
    fenced = FencedAttachment(
        host="h1",
        driver="volumed",
        client_addresses=(),
        fenced_at=world.clock.now(),
        expires_at=world.clock.now(),
    )
    image.record = image.record.model_copy(update={"fenced": (fenced,), "attachment": None})
    (event,) = _look(world)
    assert (event.kind, "by a fence" in event.text) == ("server-failed", True)
    # From another host it was taken away by a failover: that says nothing of this one.
    elsewhere = fenced.model_copy(update={"host": "h2"})
    image.record = image.record.model_copy(update={"fenced": (elsewhere,)})
    assert [event.kind for event in _look(world)] == RESTARTED


def test_a_user_who_starts_it_ends_the_failure(world: World) -> None:
    world.create()
    world.hosts["h1"].serve_failure = BROKEN
    _kill(world, log=BROKEN)
    _look(world)
    world.hosts["h1"].serve_failure = ""
    world.service().start("demo")
    assert _look(world) == []
    assert world.service().operations.records.find_failure("demo") is None
