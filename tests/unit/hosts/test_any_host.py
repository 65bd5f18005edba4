from __future__ import annotations

from collections.abc import Collection

import pytest

from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.port import CommandFailedError, CommandResult, HostUnreachableError
from tests.fakes.hosts import FakeFleet

from .fakes import AnsweringHost


def three_hosts(down: Collection[str]) -> list[AnsweringHost]:
    return [
        AnsweringHost(name, lambda argv, name=name: name, up=name not in down)
        for name in ("h2", "h1", "h3")
    ]


@pytest.mark.parametrize(
    ("down", "answers"), [([], "h1"), (["h1"], "h2"), (["h1", "h2"], "h3"), (["h2"], "h1")]
)
def test_first_reachable_host_runs_it(down: list[str], answers: str) -> None:
    hosts = three_hosts(down)
    result = AnyReachableHost(FakeFleet(hosts)).run(["ceph", "status"])
    assert result.stdout == answers
    assert [host.name for host in hosts if host.commands] == [answers]


@pytest.mark.parametrize("hosts", [three_hosts(["h1", "h2", "h3"]), []])
def test_none_to_be_reached_says_where_to_look(hosts: list[AnsweringHost]) -> None:
    runner = AnyReachableHost(FakeFleet(hosts))
    with pytest.raises(HostUnreachableError) as caught:
        runner.run(["ceph", "status"])
    assert "grampus host list" in caught.value.remedy
    assert caught.value.code == "host-unreachable"


def test_options_are_handed_on() -> None:
    (host,) = hosts = [AnsweringHost("h1", lambda argv: "")]
    AnyReachableHost(FakeFleet(hosts)).run(["rbd"], stdin="x", timeout_s=7, check=False)
    assert host.options == [{"stdin": "x", "timeout_s": 7, "check": False}]


def test_failure_is_not_tried_on_another_host() -> None:
    # A command that failed may have changed something: repeating it is for its caller to decide.
    failing = AnsweringHost("h1", lambda argv: CommandResult(tuple(argv), 22, "", "EINVAL"))
    other = AnsweringHost("h2", lambda argv: "")
    with pytest.raises(CommandFailedError, match="EINVAL"):
        AnyReachableHost(FakeFleet([failing, other])).run(["ceph", "osd", "pool", "create"])
    assert other.commands == []
