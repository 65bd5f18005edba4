"""What drivers print of latencies, and what of it is refused."""

from __future__ import annotations

import pytest

from grampus.bench.latency.histogram import HistogramError
from grampus.bench.latency.sources import (
    histogram_from_fio,
    histogram_from_rados_bench,
    histogram_from_rbd_bench,
    histogram_from_sysbench,
)

from .printed import sysbench_histogram

SYSBENCH_TWICE = """       value  ------------- distribution ------------- count
       0.026 |**************************************** 83026
       0.026 |*                                        1912
       0.665 |                                         12
"""


def test_lines_of_sysbench_with_the_same_value_are_all_counted() -> None:
    histogram = histogram_from_sysbench(SYSBENCH_TWICE, min_ms=0.03, max_ms=0.67, sum_ms=2.0)
    assert histogram.operations == 83026 + 1912 + 12
    # Two buckets are printed as 0.026, and two lines: each is one of them.
    assert len(histogram.ranges) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no histogram"),
        (SYSBENCH_TWICE.replace(".", ","), "no histogram"),
        (SYSBENCH_TWICE.replace("0.665", "0.670"), "0.670 ms is not a bucket"),
        (SYSBENCH_TWICE.replace("0.665 ", "200000.000 "), "is not a bucket"),
        (sysbench_histogram([40_000_000]), "not in its histogram"),
    ],
)
def test_what_is_not_sysbenchs_histogram_is_refused(text: str, words: str) -> None:
    with pytest.raises(HistogramError, match=words):
        histogram_from_sysbench(text, min_ms=0.03, max_ms=0.67, sum_ms=2.0)


@pytest.mark.parametrize(
    ("middle", "first_ns", "last_ns"),
    [("63", 63, 63), ("322", 320, 323), ("1032", 1024, 1039), ("468992", 466944, 471039)],
)
def test_fios_bins_are_known_by_their_middle(middle: str, first_ns: int, last_ns: int) -> None:
    for latency_ns in (first_ns, last_ns):
        histogram = histogram_from_fio(
            {"N": 1, "min": latency_ns, "max": latency_ns, "mean": 1.0, "bins": {middle: 1}}
        )
        assert histogram.operations == 1
    beyond = last_ns + max(last_ns // 8, 1000)
    with pytest.raises(HistogramError, match="not in its histogram"):
        histogram_from_fio({"N": 1, "min": beyond, "max": beyond, "mean": 1.0, "bins": {middle: 1}})


def test_fio_without_bins_is_refused_and_without_io_is_empty() -> None:
    with pytest.raises(HistogramError, match="json does not"):
        histogram_from_fio({"N": 3, "min": 1, "max": 2, "mean": 1.5})
    assert histogram_from_fio({"N": 0, "min": 0, "max": 0, "mean": 0.0}).operations == 0


def test_rados_bench_knows_the_ends_and_the_mean() -> None:
    histogram = histogram_from_rados_bench(330, min_s=0.0211, max_s=0.5123, average_s=0.1485)
    found = [histogram.percentile(percent) for percent in (0.01, 50, 100)]
    assert [one.describe() for one in found if one is not None] == [
        "21.1 ms",
        "between 21.1 ms and 512 ms",
        "512 ms",
    ]
    assert histogram.average_us == pytest.approx(148_500)


def test_rbd_bench_knows_nothing_but_how_long_it_ran() -> None:
    histogram = histogram_from_rbd_bench(8192, elapsed_s=3.43)
    p99 = histogram.percentile(99)
    assert p99 is not None
    assert p99.describe() == "between 0 ns and 3.43 s"


@pytest.mark.parametrize(
    "build",
    [
        lambda: histogram_from_rados_bench(0, min_s=9999, max_s=0, average_s=0),
        lambda: histogram_from_rbd_bench(0, elapsed_s=3),
    ],
)
def test_no_operations_are_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(HistogramError):
        build()
