"""The buckets that all latencies are counted in: fixed, so that histograms merge exactly.

Each doubling from 1 us to 1 h has 256 buckets of the same width, so a bucket is at most 1/256 of
its lower end wide, and its middle at most 0.2 % away from what is in it. Bucket 0 holds what is
below 1 us, the last one what is above 1 h. The layout is that of HdrHistogram and of fio, whose
64 buckets a doubling each cover whole ones of these.
"""

from __future__ import annotations

from collections.abc import Sequence

SUB_BUCKETS = 256
LOWEST_NS = 1_000
HIGHEST_NS = 3_600 * 10**9
# How far the middle of a bucket between 1 us and 1 h can be from a latency in it, at most.
RELATIVE_ERROR = 1 / (2 * SUB_BUCKETS)


def _position(latency_ns: int) -> int:
    """Counts buckets from 0 ns on; one of them for each nanosecond at first."""
    shift = max(latency_ns.bit_length() - SUB_BUCKETS.bit_length(), 0)
    return shift * SUB_BUCKETS + (latency_ns >> shift)


_FIRST = _position(LOWEST_NS) - 1
TOP_BUCKET = _position(HIGHEST_NS) - _FIRST + 1


def bucket_of(latency_ns: int) -> int:
    """The bucket of a latency, 0 to TOP_BUCKET."""
    if latency_ns < LOWEST_NS:
        return 0
    if latency_ns > HIGHEST_NS:
        return TOP_BUCKET
    return _position(latency_ns) - _FIRST


def lowest_of(bucket: int) -> int:
    """The lowest latency, in ns, that is counted in the bucket."""
    if bucket == 0:
        return 0
    if bucket == TOP_BUCKET:
        return HIGHEST_NS + 1
    position = bucket + _FIRST
    shift = max(position // SUB_BUCKETS - 1, 0)
    return (position - shift * SUB_BUCKETS) << shift


def highest_of(bucket: int) -> int | None:
    """The highest latency, in ns, that is counted in the bucket; None: there is no limit."""
    return None if bucket == TOP_BUCKET else lowest_of(bucket + 1) - 1


def width_of(buckets: Sequence[int]) -> float:
    """How far the middle of a range (first, last bucket) can be from a latency in it.

    As a share of that latency; infinite for a range that has no lower or no upper limit.
    """
    first, last = buckets
    lowest_ns, highest_ns = lowest_of(first), highest_of(last)
    if highest_ns is None or lowest_ns == 0:
        return float("inf")
    return (highest_ns - lowest_ns) / (2 * lowest_ns)
