"""The layout of the buckets: no gap, no overlap, and the stated error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grampus.bench.latency.buckets import (
    HIGHEST_NS,
    LOWEST_NS,
    RELATIVE_ERROR,
    TOP_BUCKET,
    bucket_of,
    highest_of,
    lowest_of,
    width_of,
)


def test_the_buckets_follow_one_another_without_gap() -> None:
    for bucket in range(TOP_BUCKET):
        highest = highest_of(bucket)
        assert highest is not None
        assert lowest_of(bucket) <= highest
        assert lowest_of(bucket + 1) == highest + 1
        assert bucket_of(lowest_of(bucket)) == bucket_of(highest) == bucket
    assert highest_of(TOP_BUCKET) is None


def test_every_bucket_between_1_us_and_1_h_keeps_the_stated_error() -> None:
    assert RELATIVE_ERROR < 0.002
    assert max(width_of((b, b)) for b in range(1, TOP_BUCKET)) <= RELATIVE_ERROR
    assert width_of((0, 0)) == width_of((TOP_BUCKET, TOP_BUCKET)) == float("inf")


@pytest.mark.parametrize(
    ("latency_ns", "bucket"),
    [
        (0, 0),
        (LOWEST_NS - 1, 0),
        (LOWEST_NS, 1),
        (LOWEST_NS + 2, 2),
        (HIGHEST_NS, TOP_BUCKET - 1),
        (10 * HIGHEST_NS, TOP_BUCKET),
    ],
)
def test_the_ends_of_the_range(latency_ns: int, bucket: int) -> None:
    assert bucket_of(latency_ns) == bucket


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(LOWEST_NS, HIGHEST_NS))
def test_the_middle_of_a_bucket_is_within_the_stated_error(latency_ns: int) -> None:
    bucket = bucket_of(latency_ns)
    lowest, highest = lowest_of(bucket), highest_of(bucket)
    assert highest is not None
    assert lowest <= latency_ns <= highest
    assert abs((lowest + highest) / 2 - latency_ns) <= RELATIVE_ERROR * latency_ns
