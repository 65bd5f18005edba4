"""Time that passes only when somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A `Clock`; `naps` are the sleeps, `slept_s` their sum, and `on_sleep` runs after each."""

    def __init__(self, *, on_sleep: Callable[[], object] = lambda: None) -> None:
        self.slept_s = 0.0
        self.naps: list[float] = []
        self.on_sleep = on_sleep

    def now(self) -> datetime:
        return NEW_YEAR + timedelta(seconds=self.slept_s)

    def monotonic_s(self) -> float:
        return self.slept_s

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.naps.append(seconds)
        self.on_sleep()
