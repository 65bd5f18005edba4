"""Whether a host reaches the MONs: what ceph.conf says of them, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

import pytest

from grampus.hosts.port import CommandResult
from grampus.hosts.remote.cluster_reach import (
    CONF,
    REACHES_FOR_S,
    ClusterReach,
    parse_mon_places,
)

THREE = ["10.0.5.1:3300", "10.0.5.2:3300", "10.0.5.3:3300"]


@pytest.mark.parametrize(
    ("conf", "places"),
    [
        ("[global]\nmon host = 10.0.5.1,10.0.5.2,10.0.5.3\n", THREE),
        ("[global]\n\tmon_host = 10.0.5.1 10.0.5.2  10.0.5.3  # three\n", THREE),
        ("[global]\nMon-Host=10.0.5.1; 10.0.5.2", THREE[:1]),
        ("mon host = '10.0.5.1:6789, 10.0.5.2:6790/0'\n", ["10.0.5.1:6789", "10.0.5.2:6790"]),
        (
            "mon_host = [v2:10.0.5.1:3300/0,v1:10.0.5.1:6789/0] "
            "[v2:10.0.5.2:3301/0,v1:10.0.5.2:6789/0]\n",
            ["10.0.5.1:3300", "10.0.5.2:3301"],
        ),
        ("mon host = v1:10.0.5.1:6789\n", ["10.0.5.1:6789"]),
        ("mon host = 10.0.5.9\nmon host = 10.0.5.1\n", THREE[:1]),
        # Unknown, and never taken for a cluster without MONs.
        ("[global]\nfsid = 1\n", []),
        ("mon host =\n", []),
        ("mon host = ceph1.example.org\n", []),
        ("mon host = 10.0.5.1,ceph2\n", []),
        ("mon host = [v2:[fd00::1]:3300/0,v1:[fd00::1]:6789/0]\n", []),
        ("# mon host = 10.0.5.1\n", []),
        ("", []),
    ],
)
def test_the_places_of_mons(conf: str, places: list[str]) -> None:
    assert parse_mon_places(conf) == places


class Answering:
    """A host from which MONs answer so, and the clock of whoever asks."""

    def __init__(self, answers: Sequence[str], conf: str | None = "mon host = ") -> None:
        self.answers = answers
        self.conf = conf if conf is None else conf + ",".join(p.split(":")[0] for p in THREE)
        self.now_s = 0.0
        self.asked = 0
        self.reach = ClusterReach(self.run, self.read, lambda: self.now_s)

    def run(self, argv: Sequence[str]) -> CommandResult:
        self.asked += 1
        assert list(argv[-3:]) == THREE
        lines = [f"{place} {answer}\n" for place, answer in zip(THREE, self.answers, strict=True)]
        return CommandResult(tuple(argv), 0, "".join(lines), "")

    def read(self, path: PurePosixPath) -> str | None:
        assert path == CONF
        return self.conf


@pytest.mark.parametrize(
    ("answers", "reaches"),
    [
        (("greets", "greets", "greets"), True),
        (("greets", "listens", "silent"), True),
        (("refused", "refused", "silent"), True),
        (("greets", "silent", "silent"), False),
        (("silent", "silent", "silent"), False),
    ],
)
def test_a_quorum_that_answers_is_reached(answers: tuple[str, ...], *, reaches: bool) -> None:
    assert Answering(answers).reach.observe() is reaches


@pytest.mark.parametrize("conf", [None, "other = "])
def test_without_places_the_cluster_counts_as_reached(conf: str | None) -> None:
    host = Answering(["silent"] * 3, conf)
    assert host.reach.observe()
    assert host.asked == 0


def test_an_answer_is_kept_for_a_moment() -> None:
    host = Answering(["silent"] * 3)
    assert not host.reach.observe()
    host.answers = ["greets"] * 3
    assert not host.reach.observe()
    host.now_s += REACHES_FOR_S
    assert host.reach.observe()
    assert host.asked == 2
