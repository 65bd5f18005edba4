"""Medians and intervals against values worked out by hand."""

from __future__ import annotations

import pytest

from grampus.bench.paths.intervals import median_interval


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0], 3.0), ([1.0, 2.0], 1.5), ([9.0, 1.0, 5.0], 5.0), ([4.0, 1.0, 2.0, 3.0], 2.5)],
)
def test_median(values: list[float], expected: float) -> None:
    assert median_interval(values).median == expected


@pytest.mark.parametrize(
    ("count", "low", "high", "confidence"),
    [
        # Lowest to highest: 1 - 2 / 2**n.
        (1, 1, 1, 0.0),
        (2, 1, 2, 0.5),
        (5, 1, 5, 0.9375),
        (6, 1, 6, 0.96875),
        (8, 1, 8, 1 - 2 / 256),
        # Second lowest to second highest: 1 - 2 (1 + 9) / 512.
        (9, 2, 8, 1 - 20 / 512),
        (10, 2, 9, 1 - 22 / 1024),
        # And the third: out of 4096, 1 + 12 + 66 lie outside on each side.
        (12, 3, 10, 1 - 158 / 4096),
    ],
)
def test_the_interval_lies_between_order_statistics(
    count: int, low: int, high: int, confidence: float
) -> None:
    values = [float(value) for value in range(count, 0, -1)]
    interval = median_interval(values)
    assert (interval.low, interval.high, interval.count) == (low, high, count)
    assert interval.confidence == pytest.approx(confidence)
    assert interval.low <= interval.median <= interval.high
