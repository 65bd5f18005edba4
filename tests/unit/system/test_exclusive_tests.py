from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.exclusive_tests import lock_of_test
from tests.system.machine import wait_for


class Lane:
    """Holds the lock of one test, in a thread, until it may leave."""

    def __init__(self, directory: Path, *, alone: bool) -> None:
        self._directory = directory
        self._alone = alone
        self._may_leave = threading.Event()
        self.is_in = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with lock_of_test(self._directory, alone=self._alone):
            self.is_in.set()
            self._may_leave.wait(timeout=30)

    def leave(self) -> None:
        self._may_leave.set()
        self._thread.join(timeout=30)


@pytest.fixture
def enter(tmp_path: Path) -> Callable[..., Lane]:
    return lambda *, alone: Lane(tmp_path / "locks", alone=alone)


def test_ordinary_tests_run_beside_each_other(enter: Callable[..., Lane]) -> None:
    lanes = [enter(alone=False), enter(alone=False)]
    wait_for(lambda: all(lane.is_in.is_set() for lane in lanes), "both")
    for lane in lanes:
        lane.leave()


@pytest.mark.parametrize("first", [True, False])
def test_one_that_is_alone_has_nothing_beside_it(enter: Callable[..., Lane], first: bool) -> None:
    one = enter(alone=first)
    wait_for(one.is_in.is_set, "the first")
    other = enter(alone=not first)
    assert not other.is_in.wait(timeout=0.3)
    one.leave()
    wait_for(other.is_in.is_set, "the other")
    other.leave()


def test_one_that_is_to_be_alone_is_next(enter: Callable[..., Lane]) -> None:
    runs = enter(alone=False)
    wait_for(runs.is_in.is_set, "the first")
    waits = enter(alone=True)
    assert not waits.is_in.wait(timeout=0.3)
    comes = enter(alone=False)
    assert not comes.is_in.wait(timeout=0.3), "or the other would wait for ever"
    runs.leave()
    wait_for(waits.is_in.is_set, "the exclusive one")
    assert not comes.is_in.is_set()
    waits.leave()
    wait_for(comes.is_in.is_set, "the last")
    comes.leave()
