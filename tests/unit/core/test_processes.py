from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from grampus.core.processes import (
    OperationProcess,
    decide_actor,
    find_start,
    observe_actor,
    observe_own_process,
    parse_process,
)
from tests.unit.waiting_process import waiting_process

NOBODY = 2**32 - 1


@pytest.mark.parametrize(
    ("login_uid", "environment", "uid", "actor"),
    [
        (NOBODY, {}, 0, "root"),
        (NOBODY, {"SUDO_USER": "anna"}, 0, "anna"),
        (NOBODY, {"SUDO_USER": ""}, 0, "root"),
        (0, {"SUDO_USER": "anna"}, 0, "root"),
        (NOBODY, {}, 2**31 - 7, "2147483641"),
    ],
)
def test_who_asked(login_uid: int, environment: dict[str, str], uid: int, actor: str) -> None:
    assert decide_actor(login_uid, environment, uid) == actor


def test_somebody_runs_this() -> None:
    assert observe_actor()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    yield from waiting_process()


def test_a_process_is_alive_until_it_ends(child: subprocess.Popen[bytes]) -> None:
    own = observe_own_process()
    assert own.is_alive()
    started = find_start(child.pid)
    assert started is not None
    process = replace(own, pid=child.pid, started=started)
    assert process.is_alive()
    assert process.request_end()
    assert child.wait(30) == -signal.SIGTERM
    assert not process.is_alive()
    assert not process.request_end()


@pytest.mark.parametrize("other", [{"started": 1}, {"boot": "an earlier one"}])
def test_another_process_of_that_number_is_left_alone(
    child: subprocess.Popen[bytes], other: dict[str, Any]
) -> None:
    process = replace(observe_own_process(), pid=child.pid, started=find_start(child.pid) or 0)
    changed = replace(process, **other)
    assert not changed.is_alive()
    assert not changed.request_end()
    assert process.is_alive()


def test_a_process_is_journaled_with_its_command() -> None:
    process = OperationProcess(observe_own_process(), "db backup create", "a1b2")
    assert parse_process(process.render()) == process
    assert parse_process("") is None
