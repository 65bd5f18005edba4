"""Events of the controller, delivered to a receiver of the user's: a program or a web address.

One event after the other, in their order, in a thread of its own. A receiver that fails or hangs
costs its event alone: the controller neither waits for it nor delivers the event again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from grampus.cli.event_documents import render_controller_event
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent
from grampus.databases.controller.loop import Tell

# Of events; more of them are left out. A receiver that always hangs is behind by two a minute.
MOST_WAITING = 1000
# What the last events of a controller get before it ends.
END_GRACE_S = 10.0


class Receiver(Protocol):
    """Who gets the events."""

    @property
    def job(self) -> str:
        """The job in events about the receiver; their kind is `JOB-failed`."""

    @property
    def subject(self) -> str:
        """The receiver as sentences begin with it. It holds no secret."""

    @property
    def remedy(self) -> str:
        """What its user can do when it fails, as a sentence."""

    def deliver(self, event: ControllerEvent, document: str) -> None:
        """Take one event; `document` is its JSON. Raises GrampusError."""


class EventDelivery:
    """Delivers each event to one receiver."""

    def __init__(self, receiver: Receiver, tell: Tell, clock: Clock) -> None:
        """`tell` shows events, also that the receiver fails."""
        self._receiver = receiver
        self._tell = tell
        self._clock = clock
        self._waiting: queue.Queue[tuple[str, ControllerEvent] | None] = queue.Queue(MOST_WAITING)
        self._left_out = 0
        self._counting = threading.Lock()  # jobs tell in threads of their own
        self._problem: ControllerEvent | None = None  # that was told, and lasts

    def tell(self, job: str, event: ControllerEvent) -> None:
        """Show an event, and deliver it soon."""
        self._tell(job, event)
        try:
            self._waiting.put_nowait((job, event))
        except queue.Full:
            with self._counting:
                self._left_out += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """To the end of the block, and a moment longer for what waits then."""
        thread = threading.Thread(target=self._work, name=self._receiver.job, daemon=True)
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
            self._note(self._deliver(job, event))

    def _deliver(self, job: str, event: ControllerEvent) -> ControllerEvent | None:
        """Deliver one; what to tell of a failure."""
        document = render_controller_event(job, event, self._clock.now())
        try:
            self._receiver.deliver(event, document)
        except GrampusError as error:
            return self._failed(f"{self._receiver.subject} failed: {error.problem}")
        with self._counting:
            left_out, self._left_out = self._left_out, 0
        if left_out:
            return self._failed(
                f"{self._receiver.subject} is too slow: {left_out} events were not delivered."
            )
        return None

    def _failed(self, text: str) -> ControllerEvent:
        kind = f"{self._receiver.job}-failed"
        return ControllerEvent("", kind, text, "failed", remedy=self._receiver.remedy)

    def _note(self, problem: ControllerEvent | None) -> None:
        """Tell of a failure when it begins, when it reads otherwise, and when it is over."""
        before, self._problem = self._problem, problem
        if problem is not None and (before is None or before.text != problem.text):
            self._tell(self._receiver.job, problem)
        elif before is not None and problem is None:
            recovered = replace(before, level="recovered", text=f"Resolved: {before.text}")
            self._tell(self._receiver.job, recovered)
