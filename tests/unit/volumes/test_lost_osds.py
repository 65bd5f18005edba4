"""OSDs of a lost host are taken for down, and those that answer somebody are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grampus.core.progress import SilentProgress
from grampus.hosts.port import CommandResult
from grampus.volumes.takeovers import Takeovers
from tests.fakes.hosts import FakeFleet, FakeHost

DUMP = {
    "osds": [
        {"osd": 0, "up": 1, "public_addrs": {"addrvec": [{"addr": "10.0.0.1:6800"}]}},
        {"osd": 1, "up": 1, "public_addrs": {"addrvec": [{"addr": "10.0.0.2:6800"}]}},
    ]
}


class AskingHost(FakeHost):
    """A host from which OSDs are asked."""

    is_answered = False

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        assert argv[0] == "timeout"
        return int(not self.is_answered), ""


@pytest.mark.parametrize(
    ("is_up", "is_silent", "is_cut", "is_answered", "expected"),
    [
        (False, False, False, False, ["0"]),
        (False, False, False, True, []),
        (False, True, False, True, ["0"]),  # it was looked for a moment ago
        (True, False, False, False, []),
        (True, False, True, False, ["0"]),
        (True, False, True, True, []),
    ],
)
def test_who_is_taken_for_down(
    is_up: bool, is_silent: bool, is_cut: bool, is_answered: bool, expected: list[str]
) -> None:
    lost, other = AskingHost("h1", address="10.0.0.1"), AskingHost("h2", address="10.0.0.2")
    lost.up, other.is_answered = is_up, is_answered
    told: list[str] = []

    def run(argv: list[str], **_: Any) -> CommandResult:
        told.extend(argv[3:4])
        return CommandResult(tuple(argv), 0, "{}", "")

    cluster = SimpleNamespace(ask=lambda _: DUMP, runner=SimpleNamespace(run=run))
    unused: Any = None
    takeovers = Takeovers(
        *(unused, FakeFleet([lost, other]), cluster),  # type: ignore[arg-type]
        *(unused, unused, unused, unused),
        SilentProgress(),
    )
    takeovers.hurry("h1", is_silent=is_silent, is_cut=is_cut)
    assert ['"ids": ["0"]' in command for command in told] == [True for _ in expected]
    asked = is_answered or not is_silent
    assert not lost.commands, "it cannot say whether others reach it"
    assert bool(other.commands) == (asked and not is_silent and (not is_up or is_cut))


def test_without_another_host_nobody_is_taken_for_down() -> None:
    lost = AskingHost("h1", address="10.0.0.1")
    cluster = SimpleNamespace(ask=lambda _: DUMP, runner=None)
    unused: Any = None
    takeovers = Takeovers(
        *(unused, FakeFleet([lost]), cluster),  # type: ignore[arg-type]
        *(unused, unused, unused, unused),
        SilentProgress(),
    )
    takeovers.hurry("h1", is_cut=True)
