"""A clock that moves only when someone sleeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts at midnight; `naps` are the sleeps that were asked for."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic_s())

    def monotonic_s(self) -> float:
        return sum(self.naps)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
