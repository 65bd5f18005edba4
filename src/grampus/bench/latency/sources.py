"""Histograms from what sysbench, fio, rados bench and rbd bench print of latencies.

Each says what the driver knows and no more: sysbench and fio print buckets, rados bench the
lowest, the mean and the highest latency, rbd bench no latency at all.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from grampus.bench.latency.histogram import HistogramError, LatencyHistogram, Span, histogram_of

NS_PER_MS = 1_000_000
NS_PER_S = 10**9

# sysbench 1.0.20 (sb_histogram.c): 1024 buckets, evenly spaced in the logarithm from 0.001 ms to
# 100 s; a latency goes to the nearest, and the first and last take what is beyond.
_SYSBENCH_BUCKETS = 1024
_SYSBENCH_STEP = math.log(100_000 / 0.001) / (_SYSBENCH_BUCKETS - 1)
_SYSBENCH_MIDDLES_MS = [0.001 * math.exp(i * _SYSBENCH_STEP) for i in range(_SYSBENCH_BUCKETS)]
# It prints three decimals of the middle of a bucket, and two of the summary's latencies.
_SYSBENCH_HALF_DIGIT_MS = 0.0005
_SYSBENCH_LINE = re.compile(r"^ *(\d+\.\d{3}) \|\** +(\d+) *$", re.MULTILINE)
_SYSBENCH_SUMMARY_ERROR_NS = NS_PER_MS // 200

# fio 3.x (stat.h): 64 buckets a doubling, printed by their middle. The last begins here and takes
# what is beyond.
_FIO_SUB_BUCKET_BITS = 6
_FIO_TOP_NS = 127 << 27

# rados bench prints six digits as text, microseconds in JSON; this is more than half of either.
_RADOS_ERROR_NS = 500
_RADOS_RELATIVE_ERROR = 0.5e-5


def histogram_from_sysbench(
    text: str, *, min_ms: float, max_ms: float, sum_ms: float
) -> LatencyHistogram:
    """The histogram of a run with `--histogram=on`, and the summary's latencies of that run.

    Lines that print the same value (below 0.055 ms) are neighbouring buckets, and each is taken
    for any of those that it may be. Raises HistogramError when a line is none of sysbench's.
    """
    lines = [(float(value), int(count)) for value, count in _SYSBENCH_LINE.findall(text)]
    ranges: list[tuple[int, int | None, int]] = []
    for printed_ms, same in groupby(lines, key=lambda line: line[0]):
        counts = [count for _, count in same]
        first = bisect_left(_SYSBENCH_MIDDLES_MS, printed_ms - 1.001 * _SYSBENCH_HALF_DIGIT_MS)
        end = bisect_left(_SYSBENCH_MIDDLES_MS, printed_ms + 1.001 * _SYSBENCH_HALF_DIGIT_MS)
        spare = end - first - len(counts)
        if spare < 0:
            raise HistogramError(f"{printed_ms:.3f} ms is not a bucket of sysbench 1.0.20")
        for position, count in enumerate(counts):
            lowest = first + position
            ranges.append((*_sysbench_bounds_ns(lowest, lowest + spare), count))
    if not ranges:
        raise HistogramError("sysbench printed no histogram")
    return histogram_of(
        ranges,
        total_ns=round(sum_ms * NS_PER_MS),
        fastest=_around(round(min_ms * NS_PER_MS), _SYSBENCH_SUMMARY_ERROR_NS),
        slowest=_around(round(max_ms * NS_PER_MS), _SYSBENCH_SUMMARY_ERROR_NS),
        source="sysbench",
    )


def histogram_from_fio(latency: Mapping[str, Any]) -> LatencyHistogram:
    """The histogram in one `lat_ns` or `clat_ns` of fio's JSON+ (keys N, min, max, mean, bins).

    Empty when no I/O was counted. Raises HistogramError without bins, or when they do not hold N
    operations; KeyError, ValueError and TypeError when it is not what fio prints.
    """
    operations = int(latency.get("N", 0))
    bins = {int(middle): int(count) for middle, count in latency.get("bins", {}).items()}
    if sum(bins.values()) != operations:
        raise HistogramError(
            f"fio counted {operations} latencies and {sum(bins.values())} in its bins "
            "(json+ prints bins, json does not)"
        )
    if not operations:
        return LatencyHistogram(sources=frozenset({"fio"}))
    fastest_ns, slowest_ns = int(latency["min"]), int(latency["max"])
    return histogram_of(
        [(*_fio_bounds_ns(middle), count) for middle, count in bins.items() if count],
        total_ns=round(float(latency["mean"]) * operations),
        fastest=Span(fastest_ns, fastest_ns),
        slowest=Span(slowest_ns, slowest_ns),
        source="fio",
    )


def histogram_from_rados_bench(
    operations: int, *, min_s: float, max_s: float, average_s: float
) -> LatencyHistogram:
    """What rados bench says of latencies: each lies between the lowest and the highest.

    Percentiles of it are these bounds. Raises HistogramError when there were no operations.
    """
    fastest, slowest = _from_seconds(min_s), _from_seconds(max_s)
    return histogram_of(
        [(fastest.low_ns, slowest.high_ns, operations)],
        total_ns=round(average_s * operations * NS_PER_S),
        fastest=fastest,
        slowest=slowest,
        source="rados bench",
    )


def histogram_from_rbd_bench(operations: int, *, elapsed_s: float) -> LatencyHistogram:
    """rbd bench measures no latency: an operation took no longer than the run, and that is all.

    Percentiles of it are these bounds; there is no mean. Raises HistogramError when there were no
    operations.
    """
    whole = Span(0, math.ceil(elapsed_s * NS_PER_S))
    return histogram_of(
        [(whole.low_ns, whole.high_ns, operations)],
        total_ns=None,
        fastest=whole,
        slowest=whole,
        source="rbd bench",
    )


def _sysbench_bounds_ns(first: int, last: int) -> tuple[int, int | None]:
    """The latencies that go to one of the buckets `first` to `last`."""
    half = math.exp(_SYSBENCH_STEP / 2)
    low_ms = _SYSBENCH_MIDDLES_MS[first] / half if first else 0.0
    if last == _SYSBENCH_BUCKETS - 1:
        return math.floor(low_ms * NS_PER_MS), None
    return (
        math.floor(low_ms * NS_PER_MS),
        math.ceil(_SYSBENCH_MIDDLES_MS[last] * half * NS_PER_MS),
    )


def _fio_bounds_ns(middle_ns: int) -> tuple[int, int | None]:
    """The latencies of the bucket with this middle."""
    shift = max(middle_ns.bit_length() - 1 - _FIO_SUB_BUCKET_BITS, 0)
    low_ns = middle_ns >> shift << shift
    return low_ns, (None if low_ns >= _FIO_TOP_NS else low_ns + (1 << shift) - 1)


def _from_seconds(latency_s: float) -> Span:
    latency_ns = round(latency_s * NS_PER_S)
    return _around(latency_ns, max(_RADOS_ERROR_NS, math.ceil(latency_ns * _RADOS_RELATIVE_ERROR)))


def _around(latency_ns: int, error_ns: int) -> Span:
    return Span(max(latency_ns - error_ns, 0), latency_ns + error_ns)
