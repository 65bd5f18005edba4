"""Jobs done again and again: each for itself, until they are stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from grampus.core.errors import GrampusError, RefusedError, SupersededError
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob, failure_of
from grampus.databases.controller.loop import Controller, JobRunner
from tests.fakes.clock import FakeClock

DONE = ControllerEvent("shop", "grew", "It has grown.")
Run = Callable[[str], list[ControllerEvent]]


class CountedStop:
    """Set once it was waited for so many times; time passes meanwhile."""

    def __init__(self, clock: FakeClock, runs: int) -> None:
        self._clock = clock
        self._left = runs
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return self._left == 0

    def set(self) -> None:
        self._left = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        self._clock.sleep(timeout or 0.0)
        self._left -= 1
        return self._left == 0


class Sessions:
    """What jobs are given; it counts those that are open."""

    def __init__(self) -> None:
        self.opened = self.open = 0
        self.error: GrampusError | None = None

    @contextmanager
    def __call__(self) -> Iterator[str]:
        if self.error is not None:
            raise self.error
        self.opened += 1
        self.open += 1
        try:
            yield "session"
        finally:
            self.open -= 1


def run_job(run: Run, runs: int, *, every_s: float = 5.0, sessions: Sessions | None = None):
    """What was told, and the waits, of so many runs of one job."""
    clock, told = FakeClock(), []
    runner = JobRunner(
        DueJob("job", every_s, run),
        sessions or Sessions(),
        clock,
        lambda job, event: told.append((job, event.level, event.text)),
    )
    stop = CountedStop(clock, runs)
    runner.run_until(stop)
    return told, stop.waits


def failing(session: str) -> list[ControllerEvent]:
    raise GrampusError("No answer.", "Look at it.")


def test_a_job_runs_every_so_many_seconds_with_a_session_of_its_own() -> None:
    sessions = Sessions()
    told, waits = run_job(lambda _: [DONE], 3, sessions=sessions)
    assert told == [("job", "done", "It has grown.")] * 3
    assert waits == [5.0] * 3
    assert (sessions.opened, sessions.open) == (3, 0)


def test_the_time_that_a_run_takes_is_not_waited_again() -> None:
    clock = FakeClock()

    def slow(session: str) -> list[ControllerEvent]:
        clock.sleep(3.0)
        return []

    stop = CountedStop(clock, 2)
    JobRunner(DueJob("job", 5.0, slow), Sessions(), clock, lambda *_: None).run_until(stop)
    assert stop.waits == [2.0, 2.0]


def test_a_job_that_fails_is_told_of_once_and_tried_less_often() -> None:
    told, waits = run_job(failing, 8)
    assert told == [("job", "failed", "No answer.")]
    assert waits == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]


def test_when_it_works_again_that_is_told_and_it_is_as_often_as_before() -> None:
    answers: Iterator[Run] = iter([failing, failing, lambda _: [], lambda _: []])
    told, waits = run_job(lambda session: next(answers)(session), 4)
    assert told == [("job", "failed", "No answer."), ("job", "recovered", "Resolved: No answer.")]
    assert waits == [10.0, 20.0, 5.0, 5.0]


def test_what_lasts_is_not_over_because_nobody_could_look() -> None:
    full = ControllerEvent("shop", "disk-full", "It is full.", "failed")
    answers: Iterator[Run] = iter([lambda _: [full], failing, lambda _: [full], lambda _: []])
    told, _ = run_job(lambda session: next(answers)(session), 4)
    assert [(level, text) for _, level, text in told] == [
        ("failed", "It is full."),
        ("failed", "No answer."),
        ("recovered", "Resolved: No answer."),
        ("recovered", "Resolved: It is full."),
    ]


def test_a_lab_that_another_command_holds_is_left_to_it() -> None:
    sessions = Sessions()
    sessions.error = RefusedError("Another command is working on it.", code="busy")
    assert run_job(lambda _: [DONE], 2, sessions=sessions) == ([], [5.0, 5.0])


def test_what_the_system_refuses_ends_no_controller() -> None:
    def full(session: str) -> list[ControllerEvent]:
        raise OSError(28, "No space left on device")

    told, _ = run_job(full, 2)
    assert [level for _, level, _ in told] == ["failed"]
    assert "No space left" in told[0][2]


def test_each_job_has_its_turn_while_another_takes_long() -> None:
    ran, release, stop = threading.Event(), threading.Event(), threading.Event()
    times = 0

    def slow(session: str) -> list[ControllerEvent]:
        assert release.wait(20)
        return []

    def quick(session: str) -> list[ControllerEvent]:
        nonlocal times
        times += 1
        if times == 3:
            ran.set()
        return []

    controller = Controller(
        [DueJob("slow", 0.001, slow), DueJob("quick", 0.001, quick)],
        Sessions(),
        FakeClock(),
        lambda *_: None,
    )
    thread = threading.Thread(target=controller.run, args=(stop,))
    thread.start()
    assert ran.wait(20)
    stop.set()
    thread.join(20)
    assert controller.finish(grace_s=0.0)[:1] == ["slow"]
    release.set()
    assert controller.finish(grace_s=20.0) == []


def test_a_defect_in_one_job_ends_the_controller_and_is_not_swallowed() -> None:
    def defective(session: str) -> list[ControllerEvent]:
        raise KeyError("guard")

    controller = Controller(
        [DueJob("defective", 5.0, defective), DueJob("other", 5.0, lambda _: [])],
        Sessions(),
        FakeClock(),
        lambda *_: None,
    )
    with pytest.raises(KeyError, match="guard"):
        controller.run(threading.Event())
    assert controller.finish() == []


def test_a_controller_that_another_one_has_taken_over_from_ends() -> None:
    sessions = Sessions()
    sessions.error = SupersededError("It is controlled from admin2.")
    controller = Controller(
        [DueJob("job", 5.0, lambda _: [DONE])], sessions, FakeClock(), lambda *_: None
    )
    with pytest.raises(RefusedError, match="admin2"):
        controller.run(threading.Event())
    with pytest.raises(RefusedError, match="admin2"):
        controller.run_once()


def test_once_does_each_job_once() -> None:
    told: list[tuple[str, ControllerEvent]] = []
    jobs = [DueJob("one", 5.0, lambda _: [DONE]), DueJob("two", 5.0, failing)]
    controller = Controller(jobs, Sessions(), FakeClock(), lambda *event: told.append(event))
    events = controller.run_once()
    assert [event.level for event in events] == ["done", "failed"]
    assert [job for job, _ in told] == ["one", "two"]


def test_failures_carry_what_to_do() -> None:
    event = failure_of("shop", GrampusError("No answer.", "Look at it.", code="timeout"))
    assert (event.text, event.remedy, event.details) == (
        "No answer.",
        "Look at it.",
        {"code": "timeout"},
    )
