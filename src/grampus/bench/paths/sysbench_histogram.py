"""sysbench 1.0's latency histogram, so that rounds can be merged."""

from __future__ import annotations

import re

# "       0.665 |****                                     12": milliseconds and a count.
_BUCKET = re.compile(r"^\s*(\d+\.\d+) \|\**\s+(\d+)\s*$", re.MULTILINE)


def parse_histogram(text: str) -> dict[int, int]:
    """Transactions by latency in nanoseconds, from a run with `--histogram=on`; empty without.

    Each bucket is 1.8 % wider than the one before.
    """
    return {
        round(float(milliseconds) * 1_000_000): int(count)
        for milliseconds, count in _BUCKET.findall(text)
    }
