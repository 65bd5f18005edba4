"""Drivers' ways to print latencies, done again for samples that a test knows one by one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any


def exact_percentile_ns(latencies_ns: Sequence[int], percent: str) -> int:
    """The lowest latency that at least `percent` % of them did not exceed, by its definition."""
    rank = math.ceil(Fraction(percent) / 100 * len(latencies_ns))
    return sorted(latencies_ns)[max(rank, 1) - 1]


def sysbench_histogram(latencies_ns: Sequence[int]) -> str:
    """sysbench's histogram: the nearest of 1024 buckets, each shown by its middle."""
    step = math.log(1e8) / 1023
    indexes = [
        min(max(math.floor(math.log(max(ns, 1) / 1000) / step + 0.5), 0), 1023)
        for ns in latencies_ns
    ]
    counts = Counter(indexes)
    most = max(counts.values(), default=1)
    lines = ["Latency histogram (values are in milliseconds)"]
    lines.append("       value  ------------- distribution ------------- count")
    for index, count in sorted(counts.items()):
        stars = "*" * math.floor(count * 40 / most + 0.5)
        lines.append(f"{0.001 * math.exp(index * step):12.3f} |{stars:<40} {count}")
    return "\n".join(lines) + "\n"


def fio_latency(latencies_ns: Sequence[int]) -> dict[str, Any]:
    """fio's `lat_ns`: bins by their middle, 64 to each doubling, the last one for all above."""
    bins: Counter[int] = Counter()
    for ns in latencies_ns:
        shift = max(ns.bit_length() - 7, 0)
        low = min(ns >> shift << shift, 127 << 27)
        shift = max(low.bit_length() - 7, 0)
        bins[low + (1 << shift) // 2 if shift else low] += 1
    return {
        "min": min(latencies_ns, default=0),
        "max": max(latencies_ns, default=0),
        "mean": sum(latencies_ns) / len(latencies_ns) if latencies_ns else 0.0,
        "N": len(latencies_ns),
        "bins": {str(middle): count for middle, count in bins.items()},
    }
