"""Whether a host can be reached: nobody waits for the same silent host again and again."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError, RefusedError, SupersededError
from grampus.hosts.port import CommandResult, HostUnreachableError
from grampus.hosts.remote.remote_fleet import RemoteFleet
from grampus.hosts.remote.remote_host import REACHABLE_FOR_S, RemoteHost, RemoteHostPlace
from grampus.hosts.remote.ssh import SshPlace

SSH = SshPlace("db1", "root", "10.0.5.11", 22, None, Path("/known_hosts"), Path("/control"))
PLACE = RemoteHostPlace("db1", "10.0.5.11", SSH, "/var/lib/grampus/1a2b3", "1a2b3", "sid-1", "")


class Asked(RemoteHost):
    """A host whose answers to commands are given, and that counts them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(PLACE, monotonic_s=lambda: self.now_s)
        self.error: GrampusError | None = None
        self.waits: list[float] = []
        self.began, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()

    def run(self, argv: Any, **options: Any) -> CommandResult:
        self.waits.append(options["timeout_s"])
        self.began.set()
        assert self.may_end.wait(10)
        if self.error is not None:
            raise self.error
        return CommandResult(tuple(argv), 0, "", "")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, True),
        (HostUnreachableError("It is gone."), False),
        (RefusedError("Its key is another one.", code="host-key"), False),
        (GrampusError("It did not end.", code="timeout"), False),
    ],
)
def test_what_a_command_there_says(error: GrampusError | None, *, expected: bool) -> None:
    host = Asked()
    host.error = error
    assert host.is_reachable() is expected


def test_a_host_that_obeys_another_controller_is_not_lost() -> None:
    host = Asked()
    host.error = SupersededError("It obeys a later one.")
    with pytest.raises(RefusedError, match="later one"):
        host.is_reachable()


def test_a_defect_is_no_sign_of_a_lost_host() -> None:
    host = Asked()
    host.error = GrampusError("The program ssh is missing.", code="program-missing")
    with pytest.raises(GrampusError, match="missing"):
        host.is_reachable()


def test_it_is_asked_once_a_second_and_less_patiently_when_it_is_known() -> None:
    host = Asked()
    assert host.is_reachable()
    assert host.is_reachable()
    assert len(host.waits) == 1
    host.now_s += REACHABLE_FOR_S
    assert host.is_reachable()
    assert len(host.waits) == 2
    assert host.waits[1] < host.waits[0]


def test_a_silent_host_is_asked_in_the_background_until_it_answers() -> None:
    host = Asked()
    host.error = HostUnreachableError("It is gone.")
    assert not host.is_reachable()
    host.error = None
    host.now_s += REACHABLE_FOR_S
    host.began.clear()
    host.may_end.clear()
    # It would answer, but nobody waits for that; and it is asked once at a time.
    assert not host.is_reachable()
    assert host.began.wait(10)
    assert not host.is_reachable()
    assert len(host.waits) == 2
    host.may_end.set()
    deadline = threading.Event()
    for _ in range(1000):
        if host.is_reachable():
            return
        deadline.wait(0.01)
    raise AssertionError("it answers, and is not seen to")


def test_who_has_an_address_is_asked_over_a_connection_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To connect to another host takes a third as long as the question."""
    hosts = [Asked(), Asked()]
    for host, name in zip(hosts, ("db1", "db2"), strict=True):
        host._place = replace(PLACE, name=name)
    asked: list[str] = []
    monkeypatch.setattr(RemoteHost, "find_address_holder", lambda host, _: asked.append(host.name))
    fleet = RemoteFleet(hosts, ["10.0.5.100"])
    fleet.find_address_holder("10.0.5.100")
    assert (asked, len(hosts[0].waits), len(hosts[1].waits)) == (["db1"], 1, 0)
    fleet = RemoteFleet([Asked(), hosts[1]], ["10.0.5.100"])
    assert hosts[1].is_reachable()
    fleet.find_address_holder("10.0.5.100")
    assert asked == ["db1", "db2"]
