"""Time: behind a port, so that waiting can be tested without waiting, and as people read it."""

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
            waited = format_duration(timeout_s)
            raise GrampusError(
                f"Gave up waiting for {what} after {waited}.", remedy, code="timeout"
            )
        clock.sleep(interval_s)


def format_moment(moment: datetime) -> str:
    """`2026-11-27 18:40:10 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_duration(duration_s: float) -> str:
    """How long something takes or has lasted: `250 ms`, `1.5 s`, `45 s`, `12 min`, `3 d 4 h`.

    From two minutes on in its two biggest units. A negative one is of another clock: `0 s`.
    """
    if duration_s <= 0:
        return "0 s"
    if round(duration_s * 1000) < 1000:
        return f"{duration_s * 1000:.0f} ms"
    if round(duration_s) < 10:
        return f"{duration_s:.1f}".removesuffix(".0") + " s"
    if duration_s < 120:
        return f"{duration_s:.0f} s"
    minutes = int(duration_s) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h")] if days else [(hours, "h"), (minutes, "min")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
