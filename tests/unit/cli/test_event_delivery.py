"""`grampus serve --hook` and `--webhook`: receivers get each event, and hold nothing up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from grampus.cli import event_delivery
from grampus.cli.event_delivery import EventDelivery
from grampus.cli.serve_hook import HookProgram
from grampus.cli.serve_webhook import Webhook
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from tests.fakes.clock import FakeClock
from tests.system.machine import wait_for

LOST = ControllerEvent("shop", "host-dead", "h1 is lost.", "warning", {"host": "h1"}, "Look.")
MOVED = ControllerEvent("shop", "failed-over", "It runs on h2.")
LOST_DOCUMENT = {
    "at": "2026-01-01T00:00:00+00:00",
    "job": "failover",
    "database": "shop",
    "kind": "host-dead",
    "level": "warning",
    "text": "h1 is lost.",
    "remedy": "Look.",
    "details": {"host": "h1"},
}


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
    script = program(tmp_path, f'{{ cat; echo "{words}"; }} >> {seen}')
    hook = EventDelivery(HookProgram(script), told.tell, FakeClock())
    with hook.running():
        for event in (LOST, MOVED):
            hook.tell("failover", event)
    first, first_words, second, second_words = seen.read_text().splitlines()
    assert json.loads(first) == LOST_DOCUMENT
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
    hook = EventDelivery(HookProgram(script, timeout_s=2.0), told.tell, FakeClock())
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
    monkeypatch.setattr(event_delivery, "MOST_WAITING", 2)
    release = tmp_path / "release"
    script = program(tmp_path, f"until test -e {release}; do sleep 0.05; done")
    hook = EventDelivery(HookProgram(script), told.tell, FakeClock())
    with hook.running():
        for _ in range(10):
            hook.tell("failover", LOST)
        assert len(told.events) == 10
        release.touch()
        wait_for(lambda: ("hook", "hook-failed", "failed") in told.events, "what it missed")


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(GrampusError, match="/nonexistent/hook") as caught:
        HookProgram("/nonexistent/hook")
    assert caught.value.code == "program-missing"


# -- a web address ---------------------------------------------------------------------------------


class Site:
    """A web server that answers with `code`, and what it was sent."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.documents: list[dict[str, object]] = []
        self.address = ""


@contextmanager
def site(code: int) -> Iterator[Site]:
    served = Site(code)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json"
            served.documents.append(json.loads(body))
            self.send_response(served.code)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - what a redirected POST becomes

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    served.address = f"http://127.0.0.1:{server.server_port}/hooks/s3cret"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def address_file(directory: Path, content: str, mode: int = 0o600) -> Path:
    file = directory / "webhook"
    file.write_text(content)
    file.chmod(mode)
    return file


def test_a_web_address_gets_each_event(tmp_path: Path, told: Told) -> None:
    with site(204) as served:
        webhook = Webhook(address_file(tmp_path, f"{served.address}\n"))
        delivery = EventDelivery(webhook, told.tell, FakeClock())
        with delivery.running():
            for event in (LOST, MOVED):
                delivery.tell("failover", event)
    assert served.documents[0] == LOST_DOCUMENT
    assert [one["kind"] for one in served.documents] == ["host-dead", "failed-over"]
    assert [job for job, _, _ in told.events] == ["failover", "failover"]


@pytest.mark.parametrize("code", [302, 404, 500])
def test_an_answer_that_is_no_success_is_a_failure_until_it_is_over(
    tmp_path: Path, told: Told, code: int
) -> None:
    with site(code) as served:
        delivery = EventDelivery(
            Webhook(address_file(tmp_path, served.address)), told.tell, FakeClock()
        )
        with delivery.running():
            for _ in range(2):
                delivery.tell("failover", LOST)
            wait_for(lambda: len(served.documents) == 2, "both")
            served.code = 200
            delivery.tell("failover", MOVED)
            wait_for(lambda: told.events[-1][2] == "recovered", "the recovery")
    assert len(served.documents) == 3  # none was sent on
    assert [event for event in told.events if event[0] == "webhook"] == [
        ("webhook", "webhook-failed", "failed"),
        ("webhook", "webhook-failed", "recovered"),
    ]


def test_an_address_that_nobody_serves_fails_without_showing_its_secret(tmp_path: Path) -> None:
    with site(200) as served:
        file = address_file(tmp_path, served.address)
    webhook = Webhook(file)
    with pytest.raises(GrampusError, match="cannot be reached") as caught:
        webhook.deliver(LOST, "{}")
    assert caught.value.code == "webhook-failed"
    assert webhook.subject == "The webhook at 127.0.0.1"
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "mode", "code"),
    [
        ("https://example.org/s3cret", 0o640, "webhook-exposed"),
        ("https://example.org/s3cret", 0o604, "webhook-exposed"),
        ("", 0o600, "wrong-use"),
        ("file:///etc/passwd?s3cret", 0o600, "wrong-use"),
        ("https://", 0o600, "wrong-use"),
        ("https://example.org:s3cret/", 0o600, "wrong-use"),
        ("https://example.org/s3cret\nhttps://example.org/", 0o600, "wrong-use"),
        ("https://[s3cret/", 0o600, "wrong-use"),
    ],
)
def test_a_file_without_a_usable_address_is_refused(
    tmp_path: Path, content: str, mode: int, code: str
) -> None:
    with pytest.raises(GrampusError) as caught:
        Webhook(address_file(tmp_path, content, mode))
    assert caught.value.code == code
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(GrampusError) as caught:
        Webhook(tmp_path / "none")
    assert caught.value.code == "no-webhook"
