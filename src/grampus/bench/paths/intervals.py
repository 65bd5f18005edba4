"""Medians and their intervals, without any assumption about how the values are distributed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WANTED_CONFIDENCE = 0.95
# Below this the widest interval there is, from lowest to highest, holds the median with less
# than 94 %: 1 - 2 / 2**5.
MIN_ROUNDS = 5


@dataclass(frozen=True)
class MedianInterval:
    """The median of some values, and an interval that holds the true one with `confidence`."""

    median: float
    low: float
    high: float
    confidence: float
    count: int


def median_interval(values: Sequence[float]) -> MedianInterval:
    """The exact interval between order statistics; `values` must not be empty.

    Between the k-th lowest and the k-th highest of n independent values lies the true median with
    probability 1 - 2 * sum(C(n, i) for i < k) / 2**n, whatever the distribution (sign test). The
    largest k that keeps 95 % is taken; with fewer than six values k is 1 and the confidence, which
    is part of the answer, is lower.
    """
    ordered = sorted(values)
    count = len(ordered)
    rank = 1
    while 2 * (rank + 1) <= count and _confidence(count, rank + 1) >= WANTED_CONFIDENCE:
        rank += 1
    return MedianInterval(
        median=statistics.median(ordered),
        low=ordered[rank - 1],
        high=ordered[count - rank],
        confidence=_confidence(count, rank),
        count=count,
    )


def _confidence(count: int, rank: int) -> float:
    outside = sum(math.comb(count, below) for below in range(rank))
    return 1 - outside / math.pow(2, count - 1)
