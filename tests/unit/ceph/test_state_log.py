"""What is asked about the log of a site's state, and what becomes of the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from grampus.ceph.state_log import StateLog, program_argv
from grampus.core.errors import GrampusError
from grampus.state.log_port import LogPart, StateUnansweredError


@dataclass
class Answer:
    returncode: int = 0
    stdout: str = "null"
    stderr: str = ""


@dataclass
class Servers:
    """Answers requests in order."""

    answers: list[Answer | GrampusError]
    asked: list[tuple[list[str], str | None]] = field(default_factory=list)
    closed: int = 0

    def run(self, argv: list[str], *, stdin: str | None, timeout_s: float, check: bool) -> Answer:
        assert timeout_s > 30
        assert not check
        self.asked.append((argv, stdin))
        answer = self.answers.pop(0)
        if isinstance(answer, GrampusError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


def log_of(*answers: Any) -> tuple[StateLog, Servers]:
    made = [
        one if isinstance(one, Answer | GrampusError) else Answer(stdout=json.dumps(one))
        for one in answers
    ]
    servers = Servers(made)
    return StateLog("prod", lambda: servers), servers


def test_requests() -> None:
    part = {"log": "l", "base": 1, "head": 3, "entries": [[2, "two"], [3, "three"]]}
    log, servers = log_of(part, None, True, False, True, "text", True, {"a": "1"}, True)
    assert log.read(1) == LogPart("l", 1, 3, ((2, "two"), (3, "three")))
    assert log.read(0) is None
    assert log.create("l")
    assert not log.append("l", 3, "four")
    assert log.compact("l", 0, 3, "all")
    assert log.snapshot(3) == "text"
    log.beat("holder", "1")
    assert log.beats() == {"a": "1"}
    log.remove()
    assert [argv for argv, _ in servers.asked] == [
        ["read", "1"],
        ["read", "0"],
        ["create", "l"],
        ["append", "l", "3"],
        ["compact", "l", "0", "3"],
        ["snapshot", "3"],
        ["beat", "holder", "1"],
        ["beats"],
        ["remove"],
    ]
    assert [stdin for _, stdin in servers.asked if stdin is not None] == ["four", "all"]
    log.close()
    assert servers.closed == 1


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (Answer(77, "", "[errno 1] not permitted"), "state-denied", "grampus site caps prod"),
        (Answer(1, "", "[errno 28] no space"), "state-failed", "[errno 28] no space"),
        (Answer(75, "", "timed out"), "state-unanswered", "does not answer: timed out"),
        (Answer(255), "state-unanswered", "exit code 255"),
        (GrampusError("It did not end.", code="timeout"), "state-unanswered", "no answer in"),
        (GrampusError("No image.", code="other-image"), "other-image", "No image."),
    ],
)
def test_failures(answer: Answer | GrampusError, code: str, said: str) -> None:
    log, _ = log_of(answer)
    with pytest.raises(GrampusError) as refused:
        log.read(0)
    assert refused.value.code == code
    assert said in f"{refused.value.problem} {refused.value.remedy}"
    assert isinstance(refused.value, StateUnansweredError) == (code == "state-unanswered")


def test_the_program_is_told_its_object() -> None:
    assert program_argv("shops", "prod")[3:] == ["shops", "grampus.prod.state"]
