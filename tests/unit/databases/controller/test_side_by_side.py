"""Subjects worked on at once: none waits for one that hangs, and none is begun twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from grampus.databases.controller.side_by_side import SideBySide

SHORT_S, LONG_S = 0.01, 20.0


class Work:
    """Counts who is at it; subjects in `hanging` wait until they are let go."""

    def __init__(self, *hanging: str) -> None:
        self.release = threading.Event()
        self.begun: Counter[str] = Counter()
        self.open_sessions = self.opened = self.at_once = self.most_at_once = 0
        self._hanging = hanging
        self._lock = threading.Lock()

    @contextmanager
    def session(self) -> Iterator[str]:
        with self._lock:
            self.opened += 1
            self.open_sessions += 1
        yield f"session {self.opened}"
        with self._lock:
            self.open_sessions -= 1

    def __call__(self, session: str, subject: str) -> str:
        with self._lock:
            assert self.open_sessions > 0
            self.begun[subject] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        if subject in self._hanging:
            assert self.release.wait(LONG_S)
        with self._lock:
            self.at_once -= 1
        return f"{subject} in {session}"


def lanes(*subjects: str) -> dict[str, str]:
    """`a1` is in the lane `a`."""
    return {subject: subject[0] for subject in subjects}


def test_what_is_wanted_is_done_at_once_in_one_session() -> None:
    work = Work()
    side = SideBySide[str, str](work.session, most=4)
    for number in (1, 2):
        done = side.run(lanes("a1", "a2", "b1"), work, patience_s=None)
        assert done == {name: f"{name} in session {number}" for name in ("a1", "a2", "b1")}
        assert (work.opened, work.open_sessions) == (number, 0)
    assert side.run({}, work, patience_s=None) == {}
    assert work.opened == 2


def test_one_that_hangs_holds_up_no_other_and_is_not_begun_twice() -> None:
    work = Work("a1")
    side = SideBySide[str, str](work.session, most=2)
    done: Counter[str] = Counter()
    while done["a2"] < 3:
        done.update(side.run(lanes("a1", "a2"), work, patience_s=SHORT_S).keys())
    assert (work.begun["a1"], done["a1"], work.open_sessions) == (1, 0, 1)
    work.release.set()
    assert "a1" in side.run(lanes("a1", "a2"), work, patience_s=None)
    assert work.open_sessions == 0


def test_a_lane_that_hangs_altogether_holds_up_no_other_lane() -> None:
    """The place of some databases is silent; those of another go on."""
    work = Work("a1", "a2", "a3")
    side = SideBySide[str, str](work.session, most=2)
    wanted = lanes("a1", "a2", "a3", "b1")
    done: Counter[str] = Counter()
    while done["b1"] < 3:
        done.update(side.run(wanted, work, patience_s=SHORT_S).keys())
    assert work.begun == {"a1": 1, "a2": 1, "b1": work.begun["b1"]}  # a3 waits for its turn
    work.release.set()
    assert {"a1", "a2", "a3"} <= set(side.run(wanted, work, patience_s=None))
    assert work.open_sessions == 0


def test_at_most_so_many_of_a_lane_are_at_work() -> None:
    work = Work()
    side = SideBySide[str, str](work.session, most=3)
    names = [f"a{number}" for number in range(20)]
    assert set(side.run(lanes(*names), work, patience_s=None)) == set(names)
    assert work.most_at_once <= 3


def test_what_is_wanted_no_more_loses_its_turn() -> None:
    work = Work("a1")
    side = SideBySide[str, str](work.session, most=1)
    side.run(lanes("a1", "a2"), work, patience_s=SHORT_S)
    side.run(lanes("a1"), work, patience_s=SHORT_S)
    work.release.set()
    assert set(side.run(lanes("a1"), work, patience_s=None)) == {"a1"}
    assert (work.begun["a2"], work.open_sessions) == (0, 0)


def test_a_defect_is_raised_and_takes_nothing_of_the_others_along() -> None:
    def work(session: str, subject: str) -> str:
        if subject == "a1":
            raise KeyError("defect")
        return session

    side = SideBySide[str, str](Work().session, most=2)
    with pytest.raises(KeyError, match="defect"):
        side.run(lanes("a1", "a2"), work, patience_s=None)
    assert set(side.run({}, work, patience_s=None)) == {"a2"}


def test_an_interrupt_ends_each_as_ctrl_c_ends_the_main_thread() -> None:
    """What is at work tidies up, what waits outside Python is woken, and nothing is begun anew."""
    # Of C alone: an interrupt in a Condition's own code would leave it locked for the others.
    at_work, gate, undone = SimpleQueue[str](), threading.Lock(), list[str]()
    assert gate.acquire()
    work = Work()

    def wait_and_undo(session: str, subject: str) -> str:
        work(session, subject)
        try:
            at_work.put(subject)
            assert gate.acquire(timeout=LONG_S)  # as for a command, which only its end ends
            return "not interrupted"
        except KeyboardInterrupt:
            undone.append(subject)
            gate.release()
            raise

    side = SideBySide[str, str](work.session, most=2)
    side.run(lanes("a1", "a2", "a3", "b1"), wait_and_undo, patience_s=SHORT_S)
    assert {at_work.get(timeout=LONG_S) for _ in range(3)} == {"a1", "a2", "b1"}
    side.interrupt(gate.release)
    assert sorted(undone) == ["a1", "a2", "b1"]
    assert (work.begun["a3"], work.open_sessions) == (0, 0), "it had not begun"
    assert side.run({}, wait_and_undo, patience_s=None) == {}
    assert side.run(lanes("a4"), wait_and_undo, patience_s=None) == {}, "nothing is begun any more"
