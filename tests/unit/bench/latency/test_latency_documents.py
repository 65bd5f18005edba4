"""The JSON form: what is written can be read, and what is wrong is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grampus.bench.latency.buckets import TOP_BUCKET
from grampus.bench.latency.histogram import (
    LatencyHistogram,
    histogram_of_latencies,
    merge_histograms,
)
from grampus.bench.latency.histogram_documents import parse_histogram, render_histogram
from grampus.bench.latency.sources import histogram_from_rbd_bench
from grampus.core.errors import GrampusError

KNOWN = histogram_of_latencies([1_000, 1_000, 2_000_000, 5 * 10**12], source="known")


@pytest.mark.parametrize(
    "histogram",
    [
        LatencyHistogram(),
        KNOWN,
        merge_histograms([KNOWN, histogram_from_rbd_bench(5, elapsed_s=2)]),
    ],
)
def test_what_is_written_is_read_again(histogram: LatencyHistogram) -> None:
    text = json.dumps(render_histogram(histogram))
    assert parse_histogram(json.loads(text)) == histogram


def test_the_form_of_version_1() -> None:
    histogram = histogram_of_latencies([1_000, 1_001, 1_004], source="known")
    assert render_histogram(histogram) == {
        "format": "grampus-latency",
        "version": 1,
        "operations": 3,
        "total_ns": 3005,
        "fastest_ns": [1000, 1000],
        "slowest_ns": [1004, 1004],
        "sources": ["known"],
        "ranges": [[1, 0, 2], [2, 0, 1]],
    }


def test_a_histogram_of_many_operations_is_small() -> None:
    spread = histogram_of_latencies(range(100_000, 50_000_000, 500), source="known")
    assert spread.operations == 99_800
    assert len(json.dumps(render_histogram(spread))) < 32_000


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": 2}, "version"),
        ({"format": "other"}, "format"),
        ({"operations": 5}, "as many operations"),
        ({"ranges": [[1, 0, -2]]}, "ranges"),
        ({"ranges": [[1, 0, 0]]}, "no operation"),
        ({"ranges": [[1, 0, 1], [0, 0, 1]]}, "twice"),
        ({"ranges": [[TOP_BUCKET, 1, 1]]}, "beyond the last bucket"),
        ({"ranges": [[1, 0, 1.5]]}, "ranges"),
        ({"slowest_ns": [9, 1]}, "between 9 and 1"),
        ({"slowest_ns": None}, "is missing"),
        ({"p99": 12.5}, "p99"),
    ],
)
def test_what_is_wrong_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(GrampusError) as caught:
        parse_histogram(render_histogram(KNOWN) | changed)
    assert caught.value.code == "latency-document"
    assert words in caught.value.problem
