"""Failpoints are what the tests of interrupted work stand on: here they are tested themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from grampus.core.errors import UsageError
from grampus.core.failpoints import VARIABLE, FailpointError, failpoint

CHILD = """
from grampus.core.failpoints import failpoint
print("before", flush=True)
failpoint("db.create/image/after")
print("after", flush=True)
"""


@pytest.mark.parametrize(
    ("setting", "is_reached"),
    [
        ("db.create/image/after=error", True),
        (" db.create/image/after = error ", True),
        ("other=error,db.create/image/after=error", True),
        ("db.create/*=error", True),
        ("*=error", True),
        ("db.create/image=error", False),
        ("db.create/image/afterwards=error", False),
        ("DB.CREATE/image/after=error", False),
        ("=error", False),
        ("other=unknown-action", False),
        ("", False),
        (None, False),
    ],
)
def test_name_that_matches_raises(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, is_reached: bool
) -> None:
    if setting is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, setting)
    if is_reached:
        with pytest.raises(FailpointError, match=r"db\.create/image/after") as caught:
            failpoint("db.create/image/after")
        assert caught.value.code == "failpoint"
    else:
        failpoint("db.create/image/after")


@pytest.mark.parametrize("setting", ["here=explode", "here", "here="])
def test_unknown_action_is_wrong_use(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(UsageError, match="unknown action"):
        failpoint("here")


@pytest.mark.parametrize(
    ("setting", "code", "said"),
    [
        ("db.create/image/after=kill", -signal.SIGKILL, "before\n"),
        ("db.create/*/after=kill", -signal.SIGKILL, "before\n"),
        ("db.delete/*=kill", 0, "before\nafter\n"),
    ],
)
def test_kill_is_as_sudden_as_a_power_cut(setting: str, code: int, said: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, VARIABLE: setting},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (child.returncode, child.stdout) == (code, said)


def test_stop_waits_until_somebody_lets_it_go_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={**os.environ, VARIABLE: "db.create/image/after=stop"},
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.send_signal(signal.SIGCONT)
        assert child.communicate(timeout=30)[0] == "before\nafter\n"
        assert child.returncode == 0
