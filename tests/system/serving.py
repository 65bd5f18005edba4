"""`grampus serve` beside a test, and what it has printed."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.system.command_line import CommandLine
from tests.system.machine import wait_for
from tests.system.watchdog import Watchdog


class Serving:
    """A controller that runs."""

    def __init__(self, command_line: CommandLine, watchdog_s: float | None = None) -> None:
        """`watchdog_s`: one that is silent for so long is killed and replaced."""
        self._command_line = command_line
        self._events: list[dict[str, Any]] = []
        self._watchdog = None if watchdog_s is None else Watchdog(watchdog_s, self.crash)
        self._begin()

    def _begin(self) -> None:
        watched = None if self._watchdog is None else self._watchdog.environment()
        self._process = self._command_line.start("serve", "--format", "json", environment=watched)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # the last one of a process that was killed may be cut off
                self._events.append(json.loads(line))

    def crash(self) -> None:
        """SIGKILL, and another one at once, as a supervisor starts it; its events are added."""
        self._process.kill()
        self._close()
        self._begin()

    def end_for_good(self) -> None:
        """SIGKILL, as its machine is lost: nobody starts another one."""
        if self._watchdog is not None:
            self._watchdog.close()
        self._process.kill()
        self._process.wait(timeout=120)

    def hang(self) -> None:
        """SIGSTOP: it does nothing any more, and does not end."""
        self._process.send_signal(signal.SIGSTOP)

    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def events(self, database: str | None = None) -> list[dict[str, Any]]:
        """What was printed so far, of one database or of all, oldest first."""
        found = list(self._events)
        return found if database is None else [e for e in found if e["database"] == database]

    def kinds(self, database: str) -> list[str]:
        """Of the events about a database."""
        return [event["kind"] for event in self.events(database)]

    def wait_for(self, database: str, kind: str, timeout_s: float) -> dict[str, Any]:
        """The first event of that kind about the database."""
        wait_for(lambda: kind in self.kinds(database), f"the event {kind}", timeout_s)
        return next(event for event in self.events(database) if event["kind"] == kind)

    def end(self) -> None:
        """As an administrator ends it."""
        if self._watchdog is not None:
            self._watchdog.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._close()

    def _close(self) -> None:
        self._process.wait(timeout=120)
        self._reader.join()
        with self._process:  # closes its pipes
            pass


@contextmanager
def serving(command_line: CommandLine, watchdog_s: float | None = None) -> Iterator[Serving]:
    """A controller that has begun, ended afterwards whatever happened."""
    serve = Serving(command_line, watchdog_s)
    try:
        wait_for(lambda: bool(serve.events()), "the controller to begin")
        yield serve
    finally:
        serve.end()
