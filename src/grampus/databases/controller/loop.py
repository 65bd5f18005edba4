"""The controller's loop: each job in a thread of its own, again and again until it is stopped.

A job that takes long (a backup) holds up no other (the guard against full disks).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, Protocol

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, SupersededError
from grampus.databases.controller.decide_telling import Key, decide_news, decide_wait_s, key_of
from grampus.databases.controller.due_jobs import (
    ControllerEvent,
    DueJob,
    SessionT,
    failure_of,
)

# A job that was at work when the controller was stopped gets so long to end; what it was at is
# journaled, so the next command ends it.
STOP_GRACE_S = 20.0
Tell = Callable[[str, ControllerEvent], None]  # the job's name, and what it met


class StopSignal(Protocol):
    """A `threading.Event`."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class JobRunner(Generic[SessionT]):
    """One job, and what is remembered of its last run."""

    def __init__(
        self,
        job: DueJob[SessionT],
        open_session: Callable[[], AbstractContextManager[SessionT]],
        clock: Clock,
        tell: Tell,
    ) -> None:
        self.name = job.name
        self._job = job
        self._open_session = open_session
        self._clock = clock
        self._tell = tell
        self._failures = 0
        self._lasting: dict[Key, ControllerEvent] = {}

    def run_once(self) -> list[ControllerEvent]:
        """One run: all that it met, of which the news is told.

        When another command has the lab to itself (`lab up`), the run is left out. Raises
        SupersededError when another machine controls the site.
        """
        try:
            with self._open_session() as session:
                events = self._job.run(session)
        except SupersededError:
            raise
        except (GrampusError, OSError) as error:
            if isinstance(error, GrampusError) and error.code == "busy":
                return []
            self._failures += 1
            failure = failure_of("", error)
            # Of what lasts nothing new is known.
            kept = [known for key, known in self._lasting.items() if key != key_of(failure)]
            events = [*kept, failure]
        else:
            self._failures = 0
        news = decide_news(self._lasting, events)
        self._lasting = news.lasting
        for event in news.told:
            self._tell(self.name, event)
        return events

    def run_until(self, stop: StopSignal) -> None:
        """Runs, begun every so many seconds, until `stop` is set."""
        while not stop.is_set():
            began_s = self._clock.monotonic_s()
            self.run_once()
            wait_s = decide_wait_s(self._job.every_s, self._failures)
            left_s = began_s + wait_s - self._clock.monotonic_s()
            if stop.wait(max(0.0, left_s)):
                return


class Controller(Generic[SessionT]):
    """Every job, each in a thread."""

    def __init__(
        self,
        jobs: Sequence[DueJob[SessionT]],
        open_session: Callable[[], AbstractContextManager[SessionT]],
        clock: Clock,
        tell: Tell,
    ) -> None:
        self._runners = [JobRunner(job, open_session, clock, tell) for job in jobs]
        self._threads: list[threading.Thread] = []
        self._clock = clock
        self._defects: list[Exception] = []

    def run_once(self) -> list[ControllerEvent]:
        """Each job once, one after the other: all that they met."""
        return [event for runner in self._runners for event in runner.run_once()]

    def run(self, stop: StopSignal) -> None:
        """All jobs until `stop` is set. Raises what a job raised that is no GrampusError, or what
        says that the controller is superseded."""
        for runner in self._runners:
            thread = threading.Thread(
                target=self._serve, args=(runner, stop), name=runner.name, daemon=True
            )
            self._threads.append(thread)
            thread.start()
        stop.wait()
        if self._defects:
            raise self._defects[0]

    def finish(self, grace_s: float = STOP_GRACE_S) -> list[str]:
        """Wait for jobs at work after the stop; the names of those that still are."""
        deadline_s = self._clock.monotonic_s() + grace_s
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - self._clock.monotonic_s()))
        return [thread.name for thread in self._threads if thread.is_alive()]

    def _serve(self, runner: JobRunner[SessionT], stop: StopSignal) -> None:
        try:
            runner.run_until(stop)
        except Exception as error:  # noqa: BLE001 - a thread's end; `run` raises it again
            # A guard that has silently gone is worse than a controller that ends.
            self._defects.append(error)
            stop.set()
