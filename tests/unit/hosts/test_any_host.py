from __future__ import annotations

import pytest

from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.port import CommandFailedError, CommandResult, HostUnreachableError

from .fakes import FakeFleet, FakeHost


def three_hosts() -> list[FakeHost]:
    return [FakeHost(name, lambda argv, name=name: name) for name in ("h2", "h1", "h3")]


@pytest.mark.parametrize(
    ("down", "answers"), [([], "h1"), (["h1"], "h2"), (["h1", "h2"], "h3"), (["h2"], "h1")]
)
def test_first_reachable_host_runs_it(down: list[str], answers: str) -> None:
    hosts = three_hosts()
    result = AnyReachableHost(FakeFleet(hosts, down=down)).run(["ceph", "status"])
    assert result.stdout == answers
    assert [host.name for host in hosts if host.asked] == [answers]


@pytest.mark.parametrize("hosts", [three_hosts(), []])
def test_none_to_be_reached_says_where_to_look(hosts: list[FakeHost]) -> None:
    runner = AnyReachableHost(FakeFleet(hosts, down=["h1", "h2", "h3"]))
    with pytest.raises(HostUnreachableError) as caught:
        runner.run(["ceph", "status"])
    assert "grampus lab status" in caught.value.remedy
    assert caught.value.code == "host-unreachable"


def test_options_are_handed_on() -> None:
    (host,) = hosts = [FakeHost("h1", lambda argv: "")]
    AnyReachableHost(FakeFleet(hosts)).run(["rbd"], stdin="x", timeout_s=7, check=False)
    assert host.options == [{"stdin": "x", "timeout_s": 7, "check": False}]


def test_failure_is_not_tried_on_another_host() -> None:
    # A command that failed may have changed something: repeating it is for its caller to decide.
    failing = FakeHost("h1", lambda argv: CommandResult(tuple(argv), 22, "", "EINVAL"))
    other = FakeHost("h2", lambda argv: "")
    with pytest.raises(CommandFailedError, match="EINVAL"):
        AnyReachableHost(FakeFleet([failing, other])).run(["ceph", "osd", "pool", "create"])
    assert other.asked == []
