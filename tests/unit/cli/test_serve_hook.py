"""`grampus serve --hook`: the user's program gets each event, and holds nothing up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grampus.cli import serve_hook
from grampus.cli.serve_hook import EventHook
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from tests.fakes.clock import FakeClock
from tests.system.machine import wait_for

LOST = ControllerEvent("shop", "host-dead", "h1 is lost.", "warning", {"host": "h1"}, "Look.")
MOVED = ControllerEvent("shop", "failed-over", "It runs on h2.")


class Told:
    """What the controller shows."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def tell(self, job: str, event: ControllerEvent) -> None:
        self.events.append((job, event.kind, event.level))


@pytest.fixture
def told() -> Told:
    return Told()


def program(directory: Path, body: str) -> str:
    """An executable script."""
    script = directory / "hook.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_it_gets_each_event_in_order(tmp_path: Path, told: Told) -> None:
    seen = tmp_path / "seen"
    words = "$GRAMPUS_EVENT_KIND $GRAMPUS_EVENT_LEVEL $GRAMPUS_EVENT_DATABASE"
    hook = EventHook(
        program(tmp_path, f'{{ cat; echo "{words}"; }} >> {seen}'), told.tell, FakeClock()
    )
    with hook.running():
        for event in (LOST, MOVED):
            hook.tell("failover", event)
    first, first_words, second, second_words = seen.read_text().splitlines()
    assert json.loads(first) == {
        "at": "2026-01-01T00:00:00+00:00",
        "job": "failover",
        "database": "shop",
        "kind": "host-dead",
        "level": "warning",
        "text": "h1 is lost.",
        "remedy": "Look.",
        "details": {"host": "h1"},
    }
    assert json.loads(second)["kind"] == "failed-over"
    assert (first_words, second_words) == ("host-dead warning shop", "failed-over done shop")
    assert told.events == [
        ("failover", "host-dead", "warning"),
        ("failover", "failed-over", "done"),
    ]


@pytest.mark.parametrize("body", ["echo broken >&2; exit 3", "sleep 60"])
def test_a_failure_is_told_once_until_it_is_over(tmp_path: Path, told: Told, body: str) -> None:
    file = tmp_path / "is-well"
    script = program(tmp_path, f"test -e {file} && exit 0\n{body}")
    hook = EventHook(script, told.tell, FakeClock(), timeout_s=2.0)
    with hook.running():
        for _ in range(2):
            hook.tell("failover", LOST)
        wait_for(lambda: ("hook", "hook-failed", "failed") in told.events, "the failure")
        wait_for(hook._waiting.empty, "the others to fail")
        file.touch()
        hook.tell("failover", MOVED)
        wait_for(lambda: told.events[-1] == ("hook", "hook-failed", "recovered"), "the recovery")
    assert [event for event in told.events if event[0] == "hook"] == [
        ("hook", "hook-failed", "failed"),
        ("hook", "hook-failed", "recovered"),
    ]


def test_a_slow_one_misses_events_and_holds_nothing_up(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve_hook, "MOST_WAITING", 2)
    release = tmp_path / "release"
    hook = EventHook(
        program(tmp_path, f"until test -e {release}; do sleep 0.05; done"), told.tell, FakeClock()
    )
    with hook.running():
        for _ in range(10):
            hook.tell("failover", LOST)
        assert len(told.events) == 10
        release.touch()
        wait_for(lambda: ("hook", "hook-failed", "failed") in told.events, "what it missed")


def test_a_program_that_is_not_there_is_refused(told: Told) -> None:
    with pytest.raises(GrampusError, match="/nonexistent/hook") as caught:
        EventHook("/nonexistent/hook", told.tell, FakeClock())
    assert caught.value.code == "program-missing"
