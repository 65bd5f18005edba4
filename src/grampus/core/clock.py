"""Time behind a port, so that waiting can be tested without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from grampus.core.errors import GrampusError


class Clock(Protocol):
    """Wall-clock time, monotonic time and sleeping."""

    def now(self) -> datetime:
        """The time now, with its zone (UTC)."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def wait_until(
    clock: Clock,
    condition: Callable[[], bool],
    *,
    what: str,
    remedy: str = "",
    timeout_s: float,
    interval_s: float = 0.1,
) -> None:
    """Poll `condition` every `interval_s` seconds until it holds.

    `what` completes the sentence "Gave up waiting for ...". Raises GrampusError with code
    `timeout` when `timeout_s` seconds have passed.
    """
    deadline_s = clock.monotonic_s() + timeout_s
    while not condition():
        if clock.monotonic_s() >= deadline_s:
            raise GrampusError(
                f"Gave up waiting for {what} after {timeout_s:g} s.", remedy, code="timeout"
            )
        clock.sleep(interval_s)
