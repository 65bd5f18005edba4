"""Latency histograms: merged, never averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LatencyHistogram:
    """How many operations took how long. `counts` is keyed by nanoseconds.

    `total_ns` is the exact sum where it is known, so that an average does not suffer from the
    width of the buckets.
    """

    counts: Mapping[int, int] = field(default_factory=dict)
    total_ns: float = 0.0

    @property
    def operations(self) -> int:
        return sum(self.counts.values())

    @property
    def average_us(self) -> float | None:
        """The mean, or None of an empty histogram."""
        operations = self.operations
        return self.total_ns / operations / 1000 if operations else None

    def percentile_us(self, percent: float) -> float | None:
        """The lowest latency that at least `percent` % of the operations did not exceed.

        The value is its bucket's, so it is as exact as the buckets are narrow (fio's: 0.8 %).
        """
        operations = self.operations
        if not operations:
            return None
        needed = percent / 100 * operations
        seen = 0
        for latency_ns in sorted(self.counts):
            seen += self.counts[latency_ns]
            # A little below: 99.9 / 100 * 1000 is 999.0000000000001.
            if seen >= needed - 1e-9 * operations:
                return latency_ns / 1000
        raise AssertionError("the counts add up to the operations")


def merge_histograms(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """All operations of `histograms` in one."""
    counts: dict[int, int] = {}
    total_ns = 0.0
    for histogram in histograms:
        total_ns += histogram.total_ns
        for latency_ns, count in histogram.counts.items():
            counts[latency_ns] = counts.get(latency_ns, 0) + count
    return LatencyHistogram(counts, total_ns)
