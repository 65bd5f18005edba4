"""Locks between processes: the other holder here is a child of its own."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.state.home import Home
from grampus.state.locks import describe_lock, hold_lock
from tests.fakes.clock import FakeClock

# Takes the lock, says so, and keeps it until its stdin ends.
HOLDER = """
import sys
from pathlib import Path
from grampus.core.clock import SystemClock
from grampus.state.home import Home
from grampus.state.locks import describe_lock, hold_lock
with hold_lock(Home(Path(sys.argv[1])), sys.argv[2], SystemClock(), shared=sys.argv[3] == "shared"):
    print("held", flush=True)
    sys.stdin.read()
"""
NAME = "lab.default"


@contextmanager
def other_process(home: Home, name: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.root), name, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def is_free(home: Home, name: str, *, shared: bool = False) -> bool:
    try:
        with hold_lock(home, name, FakeClock(), shared=shared, timeout_s=0):
            return True
    except RefusedError:
        return False


@pytest.mark.parametrize(
    ("theirs", "ours", "free"),
    [
        ("exclusive", "exclusive", False),
        ("exclusive", "shared", False),
        ("shared", "exclusive", False),
        ("shared", "shared", True),
    ],
)
def test_who_may_hold_it_beside_whom(home: Home, theirs: str, ours: str, free: bool) -> None:
    with other_process(home, NAME, theirs):
        assert is_free(home, NAME, shared=ours == "shared") is free
        assert is_free(home, "lab.other", shared=ours == "shared")
    assert is_free(home, NAME)


@pytest.mark.parametrize("kind", ["exclusive", "shared"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_death_of_its_holder_frees_it(home: Home, kind: str, number: signal.Signals) -> None:
    with other_process(home, NAME, kind) as child:
        assert not is_free(home, NAME)
        child.send_signal(number)
        assert child.wait() == -number
        assert is_free(home, NAME)


def test_busy_is_refused_in_words_after_the_time_given(home: Home) -> None:
    clock = FakeClock()
    with (
        other_process(home, NAME, "exclusive"),
        pytest.raises(RefusedError) as caught,
        hold_lock(home, NAME, clock, timeout_s=2),
    ):
        pytest.fail("held twice")
    assert caught.value.code == "busy"
    assert caught.value.exit_code == 4
    assert (
        caught.value.problem == "Another grampus command is working on the lab or site 'default'."
    )
    assert clock.slept_s == pytest.approx(2, abs=0.11)


def test_it_is_taken_as_soon_as_it_is_free(home: Home) -> None:
    clock = FakeClock()
    with other_process(home, NAME, "exclusive") as child:

        def end_the_holder() -> None:
            child.kill()
            child.wait()

        clock.on_sleep = end_the_holder
        with hold_lock(home, NAME, clock, timeout_s=60):
            assert not is_free(home, NAME)
    assert clock.slept_s < 1


def test_it_is_freed_when_the_block_fails(home: Home) -> None:
    def fail_inside() -> None:
        with hold_lock(home, NAME, FakeClock()):
            assert not is_free(home, NAME)
            raise GrampusError("It failed inside.")

    with pytest.raises(GrampusError, match="inside"):
        fail_inside()
    assert is_free(home, NAME)


def test_child_processes_do_not_inherit_it(home: Home) -> None:
    with hold_lock(home, NAME, FakeClock()):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert is_free(home, NAME)
    finally:
        child.kill()
        child.wait()


def test_nobody_else_may_touch_its_file(home: Home) -> None:
    with hold_lock(home, NAME, FakeClock()):
        (file,) = home.locks_dir.iterdir()
    assert file.name == "lab.default.lock"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("root", ["/dev/null/home", "/proc/none-such"])
def test_home_that_cannot_be_used_is_explained(root: str) -> None:
    with (
        pytest.raises(GrampusError, match="cannot be used") as caught,
        hold_lock(Home(Path(root)), NAME, FakeClock()),
    ):
        pytest.fail("held")
    assert caught.value.code == "home-unusable"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lab.default", "the lab or site 'default'"),
        ("volume.default.shop", "the volume 'shop'"),
        ("db.default.shop", "the database 'shop'"),
        ("db.default.shop.backup", "the database 'shop'"),
        ("bench", "bench"),
        ("serve.default", "serve default"),
    ],
)
def test_a_lock_is_told_in_words(name: str, said: str) -> None:
    assert describe_lock(name) == said
