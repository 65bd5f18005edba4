"""A percentile of latencies, as what it is: the bounds between which it lies, and no number.

The mean of two percentiles is the percentile of nothing. So there is no arithmetic here, and no
attribute that would be a number: who wants the percentile of several clients or rounds merges
their histograms. A type checker refuses `p + q`, `p / 2`, `float(p)` and `mean([p, q])`, and
Python raises TypeError.
"""

from __future__ import annotations

from typing import TypedDict

NS_PER_US = 1_000
# Beyond it there is nothing to draw as a point: what is known are the bounds.
FINE = 0.02


class PercentileDocument(TypedDict):
    """How a percentile is archived and drawn. `latency_us` is None when only bounds are known."""

    percent: float
    latency_us: float | None
    low_us: float
    high_us: float


class Percentile:
    """The latency that `percent` % of the operations did not exceed lies within the bounds."""

    __slots__ = ("_high_ns", "_low_ns", "_percent")

    def __init__(self, percent: float, *, low_ns: int, high_ns: int) -> None:
        if not 0 <= low_ns <= high_ns:
            raise ValueError(f"a percentile cannot lie between {low_ns} and {high_ns} ns")
        self._percent = percent
        self._low_ns = low_ns
        self._high_ns = high_ns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Percentile) and self.to_document() == other.to_document()

    def __hash__(self) -> int:
        return hash((self._percent, self._low_ns, self._high_ns))

    def __repr__(self) -> str:
        return f"<p{self._percent:g}: {self.describe()}>"

    @property
    def is_fine(self) -> bool:
        """The bounds are so narrow that the middle is at most 2 % off."""
        return self._high_ns - self._low_ns <= 2 * FINE * self._low_ns

    def to_document(self) -> PercentileDocument:
        """For the archive and for charts: the middle if it is fine, and the bounds always."""
        middle_us = (self._low_ns + self._high_ns) / 2 / NS_PER_US
        return {
            "percent": self._percent,
            "latency_us": middle_us if self.is_fine else None,
            "low_us": self._low_ns / NS_PER_US,
            "high_us": self._high_ns / NS_PER_US,
        }

    def describe(self) -> str:
        """In words: `1.84 ms`, or `between 0.6 ms and 56 ms` where no more is known."""
        if self.is_fine:
            return describe_latency((self._low_ns + self._high_ns) / 2)
        return f"between {describe_latency(self._low_ns)} and {describe_latency(self._high_ns)}"


def describe_latency(latency_ns: float) -> str:
    """A latency with three digits and the unit that suits it: `312 us`, `1.84 ms`, `2.5 s`."""
    for unit, unit_ns in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if latency_ns >= 0.9995 * unit_ns:
            value = latency_ns / unit_ns
            return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"
    return f"{latency_ns:.0f} ns"
