"""Tests for a trend and for a step in values that depend on those before them.

`steadiness` says which they are, where they come from, and why they were chosen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from grampus.bench.statistics.figures import ranks

MIN_POINTS = 10
MAX_CORRELATION = 0.95


@dataclass(frozen=True)
class Trend:
    """A straight trend: `p` by Mann and Kendall, `drift` along the slope of Theil and Sen.

    `drift` is how far the second half differs from the first, `half_width` half the width of its
    interval (infinite where that has no end), both as a share of the median.
    """

    p: float
    drift: float
    half_width: float


@dataclass(frozen=True)
class StepChange:
    """One change of level by Pettitt: its p, how far into the series (a share), how high.

    `height` is the difference of the medians after and before it, as a share of the median.
    """

    p: float
    place: float
    height: float


def find_trend(points: Sequence[float], *, level: float) -> Trend:
    """The trend of at least MIN_POINTS values whose median is above 0; takes all pairs of them.

    `level` is the chance of error of the interval. Raises ValueError for fewer or another median.
    """
    middle = _require_points(points)
    count = len(points)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    slopes = sorted((points[j] - points[i]) / (j - i) for i, j in pairs)
    slope = median(slopes)
    residuals = [value - slope * place for place, value in enumerate(points)]
    deviation = math.sqrt(_score_variance(points) * inflation(residuals))
    score = sum((value > 0) - (value < 0) for value in slopes)
    # The correction for continuity keeps a score of 1 from counting.
    p = math.erfc((abs(score) - 1) / deviation / math.sqrt(2)) if score and deviation else 1.0
    spread = NormalDist().inv_cdf(1 - level / 2) * deviation
    lower = math.floor((len(slopes) - spread) / 2)
    upper = math.ceil((len(slopes) + spread) / 2)
    # From the middle of one half to that of the other.
    distance = count / 2 / middle
    if lower < 0 or upper >= len(slopes):
        return Trend(p, slope * distance, math.inf)
    return Trend(p, slope * distance, (slopes[upper] - slopes[lower]) / 2 * distance)


def find_step(points: Sequence[float]) -> StepChange:
    """The most likely step in at least MIN_POINTS values whose median is above 0.

    Raises ValueError for fewer, or for another median.
    """
    middle = _require_points(points)
    count = len(points)
    total, furthest, split = 0.0, 0.0, 1
    for place, rank in enumerate(ranks(points)[:-1], start=1):
        total += 2 * rank - (count + 1)
        if abs(total) > furthest:
            furthest, split = abs(total), place
    if furthest == 0:
        return StepChange(1.0, 0.5, 0.0)
    before, after = points[:split], points[split:]
    low, high = median(before), median(after)
    residuals = [value - low for value in before] + [value - high for value in after]
    p = 2 * math.exp(-6 * furthest**2 / (count**3 + count**2) / inflation(residuals))
    return StepChange(min(1.0, p), split / count, (high - low) / middle)


def _require_points(points: Sequence[float]) -> float:
    middle = median(points) if points else 0.0
    if len(points) < MIN_POINTS or middle <= 0:
        raise ValueError(f"{len(points)} values with the median {middle} have no trend")
    return middle


def _score_variance(points: Sequence[float]) -> float:
    """Of Mann and Kendall's score, for independent values, some of which may be equal."""
    count = len(points)
    ties: dict[float, int] = {}
    for value in points:
        ties[value] = ties.get(value, 0) + 1
    tied = sum(size * (size - 1) * (2 * size + 5) for size in ties.values())
    return (count * (count - 1) * (2 * count + 5) - tied) / 18


def inflation(residuals: Sequence[float]) -> float:
    """By how much dependence multiplies the variance of a mean, and so of a sum of ranks."""
    count = len(residuals)
    middle = (count + 1) / 2
    deviations = [rank - middle for rank in ranks(residuals)]
    variance = math.fsum(one * one for one in deviations)
    if variance == 0:
        return 1.0
    found = math.fsum(one * two for one, two in itertools.pairwise(deviations)) / variance
    # What is found is about c - (2 + 4 c) / n on average, once a line has been taken out.
    correlation = min(MAX_CORRELATION, max(0.0, (count * found + 2) / (count - 4)))
    return 1 + 2 * math.fsum((1 - lag / count) * correlation**lag for lag in range(1, count))
