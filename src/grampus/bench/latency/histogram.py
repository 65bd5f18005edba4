"""How many operations took how long, merged without loss.

A driver does not always say which bucket an operation belongs to: sysbench's buckets are wider
than ours, rados bench prints the lowest and the highest latency and nothing in between. So
operations are counted by the *range* of buckets in which they are known to lie. Merging adds
counts and nothing else, and a percentile is the pair of bounds that holds wherever in their
ranges the operations were: the k-th of all lower ends, and the k-th of all upper ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from grampus.bench.latency.buckets import bucket_of, highest_of, lowest_of, width_of
from grampus.bench.latency.percentile import FINE, Percentile, describe_latency

# What reports show, as far as there are operations enough (`supported`).
PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
# So many operations must lie beyond a percentile: with fewer it is little but the longest of them,
# and its interval by order statistics spans half of the tail.
MIN_BEYOND = 10
_Z = 1.96  # two-sided, 5%
NS_PER_US = 1_000


class HistogramError(ValueError):
    """What a driver said of its latencies does not fit together."""


@dataclass(frozen=True)
class Span:
    """Where one latency is known to lie, ends included."""

    low_ns: int
    high_ns: int

    def __post_init__(self) -> None:
        if not 0 <= self.low_ns <= self.high_ns:
            raise HistogramError(f"no latency lies between {self.low_ns} and {self.high_ns} ns")


@dataclass(frozen=True)
class Resolution:
    """How finely the latencies are known.

    `relative_error` is that of a point drawn for any operation that is known to FINE or better;
    `coarse_operations` are the others, for which only bounds are known. `note` says it in words.
    """

    relative_error: float
    coarse_operations: int
    note: str


@dataclass(frozen=True)
class LatencyHistogram:
    """Operations by the range of buckets (first, last) in which each one's latency lies.

    `total_ns` is the sum of all latencies as the driver said it; None where a driver did not.
    `fastest` and `slowest` are None of an empty histogram, and of no other. `sources` names the
    drivers. Raises HistogramError when the parts contradict each other.
    """

    ranges: Mapping[tuple[int, int], int] = field(default_factory=dict)
    total_ns: int | None = 0
    fastest: Span | None = None
    slowest: Span | None = None
    sources: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.ranges:
            if self.total_ns or self.fastest is not None or self.slowest is not None:
                raise HistogramError("a histogram without operations has no latencies")
            return
        if self.fastest is None or self.slowest is None:
            raise HistogramError("the lowest or the highest latency is missing")
        if any(first > last or count < 1 for (first, last), count in self.ranges.items()):
            raise HistogramError("a bucket has no operation, or ends before it begins")
        if self.total_ns is not None and self.total_ns < 0:
            raise HistogramError("the sum of the latencies is below zero")
        _check_extremes(self.ranges, self.fastest, self.slowest)

    @property
    def operations(self) -> int:
        return sum(self.ranges.values())

    @property
    def average_us(self) -> float | None:
        """The mean, from the sum that drivers said; None without operations or sum."""
        if self.total_ns is None or not self.ranges:
            return None
        return self.total_ns / self.operations / NS_PER_US

    @property
    def resolution(self) -> Resolution:
        """How finely the latencies are known: as finely as the coarsest that were merged."""
        return _describe_resolution(self)

    def percentile(self, percent: float) -> Percentile | None:
        """The lowest latency that at least `percent` % of the operations did not exceed.

        None of an empty histogram. 100 is the highest latency. Raises ValueError unless `percent`
        is above 0 and at most 100.
        """
        if not 0 < percent <= 100:
            raise ValueError(f"there is no {percent:g}th percentile")
        if self.fastest is None or self.slowest is None:
            return None
        # From the decimal number as it is written: in binary 99.9 / 100 * 1000 is above 999.
        rank = math.ceil(Fraction(str(percent)) * self.operations / 100)
        return self._between(percent, rank, rank, self.fastest, self.slowest)

    def supported(self, percents: Sequence[float] = PERCENTS) -> tuple[float, ...]:
        """Those of `percents` beyond which MIN_BEYOND operations lie."""
        return tuple(one for one in percents if self.beyond(one) >= MIN_BEYOND)

    def beyond(self, percent: float) -> float:
        """How many operations are expected to be slower than the percentile."""
        return float((100 - Fraction(str(percent))) * self.operations / 100)

    def sampled(self, percent: float) -> Percentile | None:
        """The interval of the percentile, 95%, by the number of operations alone.

        From the ranks that the percentile of what was sampled takes (binomial, by its normal
        approximation: David and Nagaraja 2003, 7.1). Operations of one moment are slow together,
        so the true interval may be wider. None of an empty histogram.
        """
        if self.fastest is None or self.slowest is None:
            return None
        count, share = self.operations, percent / 100
        around = _Z * math.sqrt(count * share * (1 - share))
        first = max(1, math.floor(count * share - around))
        last = min(count, math.ceil(count * share + around))
        return self._between(percent, first, last, self.fastest, self.slowest)

    def _between(
        self, percent: float, first: int, last: int, fastest: Span, slowest: Span
    ) -> Percentile:
        """The latencies from that of the rank `first` to that of the rank `last`."""
        low_ns = max(
            lowest_of(_ranked([(low, count) for (low, _), count in self.ranges.items()], first)),
            fastest.low_ns,
        )
        limit_ns = highest_of(
            _ranked([(high, count) for (_, high), count in self.ranges.items()], last)
        )
        high_ns = slowest.high_ns if limit_ns is None else min(limit_ns, slowest.high_ns)
        if first == self.operations:
            low_ns = max(low_ns, slowest.low_ns)
        if last == 1:
            high_ns = min(high_ns, fastest.high_ns)
        return Percentile(percent, low_ns=low_ns, high_ns=high_ns)


def histogram_of(
    ranges_ns: Iterable[tuple[int, int | None, int]],
    *,
    total_ns: int | None,
    fastest: Span | None,
    slowest: Span | None,
    source: str,
) -> LatencyHistogram:
    """A histogram from what a driver printed: lower end, upper end (None: no limit), operations.

    Raises HistogramError when it contradicts itself.
    """
    ranges: dict[tuple[int, int], int] = {}
    for low_ns, high_ns, count in ranges_ns:
        if slowest is None:
            raise HistogramError("the highest latency is missing")
        upper_ns = max(slowest.high_ns, low_ns) if high_ns is None else high_ns
        buckets = (bucket_of(low_ns), bucket_of(upper_ns))
        ranges[buckets] = ranges.get(buckets, 0) + count
    return LatencyHistogram(ranges, total_ns, fastest, slowest, frozenset({source}))


def histogram_of_latencies(latencies_ns: Iterable[int], *, source: str) -> LatencyHistogram:
    """A histogram of latencies that are known one by one."""
    known = list(latencies_ns)
    if not known:
        return LatencyHistogram(sources=frozenset({source}))
    fastest_ns, slowest_ns = min(known), max(known)
    return histogram_of(
        [(one, one, 1) for one in known],
        total_ns=sum(known),
        fastest=Span(fastest_ns, fastest_ns),
        slowest=Span(slowest_ns, slowest_ns),
        source=source,
    )


def merge_histograms(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """All operations of `histograms` in one; in whatever order and grouping, the same one."""
    merged = list(histograms)
    ranges: dict[tuple[int, int], int] = {}
    for histogram in merged:
        for buckets, count in histogram.ranges.items():
            ranges[buckets] = ranges.get(buckets, 0) + count
    totals = [histogram.total_ns for histogram in merged]
    known_totals = [total for total in totals if total is not None]
    fastest = [one.fastest for one in merged if one.fastest is not None]
    slowest = [one.slowest for one in merged if one.slowest is not None]
    return LatencyHistogram(
        ranges,
        sum(known_totals) if len(known_totals) == len(totals) else None,
        # The lowest of several is at least the lowest lower end, and at most the lowest upper.
        Span(min(s.low_ns for s in fastest), min(s.high_ns for s in fastest)) if fastest else None,
        Span(max(s.low_ns for s in slowest), max(s.high_ns for s in slowest)) if slowest else None,
        frozenset[str]().union(*(histogram.sources for histogram in merged)),
    )


def _ranked(ends: Iterable[tuple[int, int]], rank: int) -> int:
    """The bucket of the `rank`-th operation, of (bucket, operations) in any order."""
    seen = 0
    for bucket, count in sorted(ends):
        seen += count
        if seen >= rank:
            return bucket
    raise AssertionError("the counts add up to the operations")


def _check_extremes(ranges: Mapping[tuple[int, int], int], fastest: Span, slowest: Span) -> None:
    """Refuse a lowest or highest latency that the counts exclude.

    With it every percentile's lower bound is at most its upper one.
    """
    lowest_end_ns = highest_of(min(last for _, last in ranges))
    highest_end_ns = highest_of(max(last for _, last in ranges))
    lower_ends_ns = [lowest_of(first) for first, _ in ranges]
    if (
        (lowest_end_ns is not None and fastest.low_ns > lowest_end_ns)
        or fastest.high_ns < min(lower_ends_ns)
        or slowest.high_ns < max(lower_ends_ns)
        or (highest_end_ns is not None and slowest.low_ns > highest_end_ns)
        or fastest.low_ns > slowest.high_ns
    ):
        raise HistogramError("its lowest or highest latency is not in its histogram")


def _describe_resolution(histogram: LatencyHistogram) -> Resolution:
    widths = {buckets: width_of(buckets) for buckets in histogram.ranges}
    coarse = [buckets for buckets, width in widths.items() if width > FINE]
    error = max((width for width in widths.values() if width <= FINE), default=0.0)
    names = " and ".join(sorted(histogram.sources)) or "nothing"
    if histogram.slowest is None:
        return Resolution(0.0, 0, "There are no latencies.")
    # Rounded up: the note must not claim more than holds.
    fine_words = f"Latencies are exact to {math.ceil(1000 * error) / 10:.1f} % (from {names})."
    if not coarse:
        return Resolution(error, 0, fine_words)
    operations = sum(histogram.ranges[buckets] for buckets in coarse)
    low_ns = min(lowest_of(first) for first, _ in coarse)
    high_ns = max(highest_of(last) or histogram.slowest.high_ns for _, last in coarse)
    bounds = f"{describe_latency(low_ns)} and {describe_latency(high_ns)}"
    coarse_words = (
        f"Of {operations} of {histogram.operations} operations (from {names}) it is only known "
        f"that their latencies lie between {bounds}."
    )
    return Resolution(
        error,
        operations,
        coarse_words if operations == histogram.operations else f"{coarse_words} {fine_words}",
    )
