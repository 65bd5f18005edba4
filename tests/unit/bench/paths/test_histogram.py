"""Percentiles come from merged histograms."""

from __future__ import annotations

import pytest

from grampus.bench.paths.histogram import LatencyHistogram, merge_histograms
from grampus.bench.paths.sysbench_histogram import parse_histogram


@pytest.mark.parametrize(
    ("counts", "percent", "expected_us"),
    [
        ({}, 50, None),
        ({5000: 1}, 99.9, 5.0),
        ({1000: 1, 2000: 1}, 50, 1.0),
        ({1000: 1, 2000: 2}, 50, 2.0),
        ({1000: 99, 9000: 1}, 99, 1.0),
        ({1000: 98, 9000: 2}, 99, 9.0),
        # 99.9 % of 1000 are 999, though 99.9 / 100 * 1000 is a little more in binary.
        ({1000: 999, 9000: 1}, 99.9, 1.0),
        ({9000: 1, 1000: 998, 5000: 1}, 99.9, 5.0),
    ],
)
def test_percentile(counts: dict[int, int], percent: float, expected_us: float | None) -> None:
    assert LatencyHistogram(counts).percentile_us(percent) == expected_us


def test_merging_is_not_averaging() -> None:
    calm = LatencyHistogram({1000: 900}, 900_000.0)
    stormy = LatencyHistogram({1000: 50, 100_000: 50}, 5_050_000.0)
    merged = merge_histograms([calm, stormy])
    assert merged.operations == 1000
    assert merged.average_us == pytest.approx(5.95)
    # The mean of the two 99th percentiles would be 50.5 us.
    assert merged.percentile_us(99) == 100.0
    assert merged.percentile_us(94) == 1.0


def test_an_empty_histogram_has_no_average() -> None:
    assert LatencyHistogram().average_us is None
    assert merge_histograms([]).percentile_us(50) is None


def test_sysbench_histogram() -> None:
    text = """Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
      27.659 |*****                                    1
       0.665 |                                         12
     108.685 |****************************************  7

SQL statistics:
    queries:                             32760  (8160.41 per sec.)
"""
    assert parse_histogram(text) == {27_659_000: 1, 665_000: 12, 108_685_000: 7}
    assert parse_histogram("no histogram here") == {}
