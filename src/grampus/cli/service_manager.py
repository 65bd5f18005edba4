"""What systemd hears of `grampus serve` (sd_notify(3)): that it is ready, works, and ends.

With `WatchdogSec=`, systemd ends and starts a controller from which it hears nothing: one that is
stopped, is in a deadlock, or whose look at the hosts hangs.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from grampus.core.clock import Clock
from grampus.databases.controller.due_jobs import ControllerEvent, DueJob, SessionT

# A look that takes longer hangs: each command and connection in it has a shorter limit.
LOOK_HANGS_AFTER_S = 60.0
_US_PER_S = 1_000_000


class ServiceManager:
    """The socket of systemd; without one, everything here does nothing."""

    def __init__(self, environment: MutableMapping[str, str], clock: Clock) -> None:
        """Takes the variables out of `environment`: commands that we start are not the service."""
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watchdog_us = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "")
        is_ours = pid in ("", str(os.getpid()))
        self._every_s = _interval_s(watchdog_us) if is_ours else None
        self._clock = clock
        self._began_s: float | None = None  # of the look that is at work

    def watch(self, job: DueJob[SessionT]) -> DueJob[SessionT]:
        """The job, whose runs must end for systemd to hear that the controller works."""

        def run(session: SessionT) -> list[ControllerEvent]:
            self._began_s = self._clock.monotonic_s()
            try:
                return job.run(session)
            finally:
                self._began_s = None

        return replace(job, run=run)

    @contextmanager
    def serving(self, status: str, *, is_last: bool = True) -> Iterator[None]:
        """To the end of the block the service is ready, and says so again and again.

        Afterwards it ends, if this `is_last`.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._work, args=(ended,), name="watchdog", daemon=True)
        self._send(f"READY=1\nSTATUS={status}")
        if self._every_s is not None:
            thread.start()
        try:
            yield
        finally:
            if is_last:
                self._send("STOPPING=1")
            ended.set()
            if thread.is_alive():
                thread.join()

    def is_well(self) -> bool:
        """Whether no look hangs."""
        began_s = self._began_s
        return began_s is None or self._clock.monotonic_s() - began_s < LOOK_HANGS_AFTER_S

    # -- inside -------------------------------------------------------------------------------

    def _work(self, ended: threading.Event) -> None:
        while True:
            if self.is_well():
                self._send("WATCHDOG=1")
            if ended.wait(self._every_s):
                return

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # Two forms: a path, or a name in the abstract namespace.
        address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
        # systemd that does not listen decides for itself what to do with a service that is silent.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            sender.send(message.encode())


def _interval_s(watchdog_us: str) -> float | None:
    """A third of what systemd waits; None: it watches nobody."""
    if not watchdog_us.isdecimal() or int(watchdog_us) == 0:
        return None
    return int(watchdog_us) / _US_PER_S / 3
