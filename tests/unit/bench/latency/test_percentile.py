"""How percentiles are told."""

from __future__ import annotations

import pytest

from grampus.bench.latency.percentile import Percentile, describe_latency


@pytest.mark.parametrize(
    ("latency_ns", "words"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 us"),
        (312_400, "312 us"),
        (999_600, "1 ms"),
        (1_836_000, "1.84 ms"),
        (99_960_000, "100 ms"),
        (2_500_000_000, "2.5 s"),
        (3_600_000_000_000, "3600 s"),
    ],
)
def test_latencies_have_three_digits(latency_ns: float, words: str) -> None:
    assert describe_latency(latency_ns) == words


def test_a_fine_one_is_a_point_and_a_coarse_one_is_not() -> None:
    fine = Percentile(99.0, low_ns=1_000_000, high_ns=1_020_000)
    coarse = Percentile(99.0, low_ns=1_000_000, high_ns=3_000_000)
    assert (fine.describe(), coarse.describe()) == ("1.01 ms", "between 1 ms and 3 ms")
    assert fine.to_document() == {
        "percent": 99.0,
        "latency_us": 1010.0,
        "low_us": 1000.0,
        "high_us": 1020.0,
    }
    assert coarse.to_document()["latency_us"] is None
    assert repr(coarse) == "<p99: between 1 ms and 3 ms>"


def test_equal_ones_are_equal() -> None:
    assert Percentile(99.0, low_ns=1, high_ns=2) == Percentile(99.0, low_ns=1, high_ns=2)
    assert Percentile(99.0, low_ns=1, high_ns=2) != Percentile(99.9, low_ns=1, high_ns=2)
    assert len({Percentile(50.0, low_ns=1, high_ns=2), Percentile(50.0, low_ns=1, high_ns=2)}) == 1


@pytest.mark.parametrize(("low_ns", "high_ns"), [(-1, 5), (6, 5)])
def test_bounds_are_in_order(low_ns: int, high_ns: int) -> None:
    with pytest.raises(ValueError, match="cannot lie between"):
        Percentile(99.0, low_ns=low_ns, high_ns=high_ns)
