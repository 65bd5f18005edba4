"""`grampus serve --hook`: a program of the user's that gets each event of the controller.

One event after the other, in their order. A program that fails or hangs costs its event alone: the
controller neither waits for it nor runs it again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from grampus.cli.event_documents import render_controller_event
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.loop import Tell
from grampus.hosts.process import require_program, run_command

HOOK_TIMEOUT_S = 30.0
# Of events; more of them are left out. A program that always hangs is behind by two a minute.
MOST_WAITING = 1000
# What the last events of a controller get before it ends.
END_GRACE_S = 10.0
_JOB = "hook"


class EventHook:
    """Runs the program for each event, in a thread of its own."""

    def __init__(
        self, program: str, tell: Tell, clock: Clock, *, timeout_s: float = HOOK_TIMEOUT_S
    ) -> None:
        """`tell` shows events, also that the program fails.

        Raises GrampusError with code `program-missing`.
        """
        require_program(program)
        self._program = program
        self._tell = tell
        self._clock = clock
        self._timeout_s = timeout_s
        self._waiting: queue.Queue[tuple[str, ControllerEvent] | None] = queue.Queue(MOST_WAITING)
        self._left_out = 0
        self._counting = threading.Lock()  # jobs tell in threads of their own
        self._problem: ControllerEvent | None = None  # that was told, and lasts

    def tell(self, job: str, event: ControllerEvent) -> None:
        """Show an event, and give it to the program soon."""
        self._tell(job, event)
        try:
            self._waiting.put_nowait((job, event))
        except queue.Full:
            with self._counting:
                self._left_out += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """To the end of the block, and a moment longer for what waits then."""
        thread = threading.Thread(target=self._work, name=_JOB, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with suppress(queue.Full):
                self._waiting.put_nowait(None)
            thread.join(END_GRACE_S)

    # -- inside -------------------------------------------------------------------------------

    def _work(self) -> None:
        while (found := self._waiting.get()) is not None:
            job, event = found
            self._note(self._run(job, event))

    def _run(self, job: str, event: ControllerEvent) -> ControllerEvent | None:
        """Run the program; what to tell of a failure."""
        try:
            run_command(
                [self._program],
                stdin=render_controller_event(job, event, self._clock.now()) + "\n",
                timeout_s=self._timeout_s,
                env={
                    "GRAMPUS_EVENT_DATABASE": event.database,
                    "GRAMPUS_EVENT_KIND": event.kind,
                    "GRAMPUS_EVENT_LEVEL": event.level,
                },
            )
        except GrampusError as error:
            return _failed(f"The hook {self._program} failed: {error.problem}")
        with self._counting:
            left_out, self._left_out = self._left_out, 0
        if left_out:
            return _failed(
                f"The hook {self._program} is too slow: {left_out} events were not given to it."
            )
        return None

    def _note(self, problem: ControllerEvent | None) -> None:
        """Tell of a failure when it begins, when it reads otherwise, and when it is over."""
        before, self._problem = self._problem, problem
        if problem is not None and (before is None or before.text != problem.text):
            self._tell(_JOB, problem)
        elif before is not None and problem is None:
            self._tell(_JOB, replace(before, level="recovered", text=f"Resolved: {before.text}"))


def _failed(text: str) -> ControllerEvent:
    remedy = "Run the program by hand with an event from `grampus serve --format json`."
    return ControllerEvent("", "hook-failed", text, "failed", remedy=remedy)
