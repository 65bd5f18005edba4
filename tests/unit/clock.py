"""A clock for tests: time passes only when somebody sleeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Begins with the year 2026; `slept_s` is how long it was slept in all."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.slept_s)

    def monotonic_s(self) -> float:
        return self.slept_s

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
