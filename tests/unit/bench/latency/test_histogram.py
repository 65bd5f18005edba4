"""Percentiles of merged histograms against exact ones of samples that are known one by one."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grampus.bench.latency.buckets import RELATIVE_ERROR
from grampus.bench.latency.histogram import (
    HistogramError,
    LatencyHistogram,
    Span,
    histogram_of,
    histogram_of_latencies,
    merge_histograms,
)
from grampus.bench.latency.percentile import Percentile
from grampus.bench.latency.sources import (
    histogram_from_fio,
    histogram_from_rados_bench,
    histogram_from_rbd_bench,
    histogram_from_sysbench,
)

from .printed import exact_percentile_ns, fio_latency, sysbench_histogram

PERCENTS = ("0.01", "1", "50", "75", "90", "95", "99", "99.9", "99.99", "100")
RANDOM = random.Random(20261122)  # noqa: S311
US, MS, S = 10**3, 10**6, 10**9
SAMPLES: dict[str, list[int]] = {
    "one": [1_234_567],
    "two": [900 * US, 7 * MS],
    "all the same": [250 * US] * 1000,
    "uniform": [RANDOM.randint(100 * US, 90 * MS) for _ in range(5000)],
    "log-normal, as databases have": [
        round(RANDOM.lognormvariate(0, 1.2) * 2 * MS) for _ in range(20_000)
    ],
    "two humps": [
        round(RANDOM.gauss(80 * US, 4 * US) if n % 10 else RANDOM.gauss(30 * MS, 2 * MS))
        for n in range(10_000)
    ],
    "a stall of seconds": [300 * US] * 9_990 + [4 * S] * 10,
    "rank on an edge": [1 * MS] * 999 + [9 * MS],
    "the whole range": [10**n for n in range(3, 13)],
    "below 0.055 ms, where sysbench prints one value for several buckets": [
        RANDOM.randint(1 * US, 60 * US) for _ in range(3000)
    ],
}


def known(latencies: Sequence[int]) -> LatencyHistogram:
    return histogram_of_latencies(latencies, source="known")


def sysbench(latencies: Sequence[int]) -> LatencyHistogram:
    return histogram_from_sysbench(
        sysbench_histogram(latencies),
        min_ms=round(min(latencies) / MS, 2),
        max_ms=round(max(latencies) / MS, 2),
        sum_ms=round(sum(latencies) / MS, 2),
    )


def fio(latencies: Sequence[int]) -> LatencyHistogram:
    return histogram_from_fio(fio_latency(latencies))


def rados(latencies: Sequence[int]) -> LatencyHistogram:
    return histogram_from_rados_bench(
        len(latencies),
        min_s=float(f"{min(latencies) / S:.6f}"),
        max_s=float(f"{max(latencies) / S:.6g}"),
        average_s=statistics.fmean(latencies) / S,
    )


def rbd(latencies: Sequence[int]) -> LatencyHistogram:
    return histogram_from_rbd_bench(len(latencies), elapsed_s=max(latencies) / S)


# The largest error of a point, as a share of the exact percentile; None: only bounds are known.
SOURCES: dict[str, tuple[Callable[[Sequence[int]], LatencyHistogram], float | None]] = {
    "known": (known, RELATIVE_ERROR),
    "sysbench": (sysbench, 0.014),
    "fio": (fio, 0.008),
    "rados": (rados, None),
    "rbd": (rbd, None),
}


def assert_holds(
    histogram: LatencyHistogram, latencies: Sequence[int], error: float | None
) -> None:
    for percent in PERCENTS:
        exact_us = exact_percentile_ns(latencies, percent) / US
        found = histogram.percentile(float(percent))
        assert found is not None
        document = found.to_document()
        assert document["low_us"] <= exact_us <= document["high_us"], percent
        if error is not None and document["latency_us"] is not None:
            # Half a nanosecond: a middle may lie between two.
            assert abs(document["latency_us"] - exact_us) <= error * exact_us + 0.0005, percent


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", SAMPLES)
def test_percentiles_hold_the_exact_ones(name: str, source: str) -> None:
    build, error = SOURCES[source]
    assert_holds(build(SAMPLES[name]), SAMPLES[name], error)


def test_what_is_beyond_a_drivers_buckets_is_bounded_by_the_highest_latency() -> None:
    latencies = [2 * MS] * 98 + [150 * S, 400 * S]
    for build in (sysbench, fio):
        p99 = build(latencies).percentile(99)
        assert p99 is not None
        document = p99.to_document()
        assert document["latency_us"] is None
        assert document["low_us"] <= 150 * S / US <= document["high_us"]
        assert document["high_us"] == pytest.approx(400 * S / US)


@pytest.mark.parametrize("sources", list(itertools.combinations(SOURCES, 2)))
def test_merged_percentiles_hold_the_exact_ones_of_all_samples(sources: tuple[str, str]) -> None:
    first, second = SAMPLES["two humps"], SAMPLES["log-normal, as databases have"]
    errors = [SOURCES[source][1] for source in sources]
    merged = merge_histograms(
        SOURCES[source][0](latencies)
        for source, latencies in zip(sources, (first, second), strict=True)
    )
    worst = None if None in errors else max(error for error in errors if error is not None)
    assert_holds(merged, [*first, *second], worst)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.integers(1, 200 * S), min_size=1, max_size=40), min_size=1, max_size=5),
    st.data(),
)
def test_any_samples_from_any_drivers_merge_to_bounds_that_hold(
    parts: list[list[int]], data: st.DataObject
) -> None:
    names = st.sampled_from(["known", "sysbench", "fio", "rados", "rbd"])
    merged = merge_histograms(SOURCES[data.draw(names)][0](part) for part in parts)
    assert_holds(merged, list(itertools.chain(*parts)), None)


def test_merging_is_exact_in_any_order_and_grouping() -> None:
    a, b, c = known(SAMPLES["uniform"]), sysbench(SAMPLES["two humps"]), rados(SAMPLES["two"])
    flat = merge_histograms([a, b, c])
    assert merge_histograms([merge_histograms([a, b]), c]) == flat
    assert merge_histograms([a, merge_histograms([c, b])]) == flat
    for order in itertools.permutations([a, b, c]):
        assert merge_histograms(order) == flat
    assert merge_histograms([flat, LatencyHistogram()]) == flat
    assert flat.operations == a.operations + b.operations + c.operations
    assert flat.total_ns == (a.total_ns or 0) + (b.total_ns or 0) + (c.total_ns or 0)


def test_merging_is_not_averaging() -> None:
    calm, stormy = known([1 * MS] * 900), known([1 * MS] * 50 + [100 * MS] * 50)
    merged = merge_histograms([calm, stormy])
    p99, p94 = merged.percentile(99), merged.percentile(94)
    assert p99 is not None
    assert p94 is not None
    # The mean of the two 99th percentiles would be 50.5 ms.
    assert p99.to_document()["latency_us"] == pytest.approx(100_000, rel=RELATIVE_ERROR)
    assert p94.to_document()["latency_us"] == pytest.approx(1_000, rel=RELATIVE_ERROR)
    assert merged.average_us == pytest.approx(5950)


def test_a_mean_is_not_made_up() -> None:
    with_mean, without = known([1 * MS, 3 * MS]), rbd([5 * MS])
    assert with_mean.average_us == 2000
    assert without.average_us is None
    assert merge_histograms([with_mean, without]).average_us is None
    assert LatencyHistogram().average_us is None
    assert LatencyHistogram().percentile(50) is None


@pytest.mark.parametrize(
    ("histogram", "coarse", "words"),
    [
        (LatencyHistogram(), 0, "There are no latencies."),
        (known([1 * MS, 2 * MS]), 0, "Latencies are exact to 0.2 % (from known)."),
        (sysbench([1 * MS, 2 * MS]), 0, "Latencies are exact to 1.1 % (from sysbench)."),
        (
            rados([600 * US, 56 * MS]),
            2,
            "Of 2 of 2 operations (from rados bench) it is only known that their latencies lie "
            "between 598 us and 56.1 ms.",
        ),
        (
            merge_histograms([fio([1 * MS] * 8), rbd([2 * S] * 3)]),
            3,
            "Of 3 of 11 operations (from fio and rbd bench) it is only known that their latencies "
            "lie between 0 ns and 2 s.",
        ),
    ],
)
def test_the_resolution_is_that_of_the_coarsest(
    histogram: LatencyHistogram, coarse: int, words: str
) -> None:
    resolution = histogram.resolution
    assert resolution.coarse_operations == coarse
    assert words in resolution.note


def test_a_coarse_part_widens_the_bounds_and_leaves_no_point() -> None:
    fine = known([1 * MS] * 90)
    p95 = merge_histograms([fine, rados([500 * US, 80 * MS] * 5)]).percentile(95)
    assert p95 is not None
    assert p95.to_document()["latency_us"] is None
    assert p95.describe().startswith("between 999 us and 80")


@pytest.mark.parametrize("percent", [0, -1, 100.1])
def test_there_is_no_such_percentile(percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        known([1]).percentile(percent)


@pytest.mark.parametrize(
    ("ranges", "fastest", "slowest", "words"),
    [
        ([(1000, 2000, 1)], None, Span(1500, 1500), "is missing"),
        ([(1000, 2000, 0)], Span(1500, 1500), Span(1500, 1500), "no operation"),
        ([(1000, 2000, 1)], Span(5000, 5000), Span(6000, 6000), "not in its histogram"),
        ([(1000, 2000, 1), (9000, 9000, 1)], Span(1, 1), Span(9000, 9000), "not in its"),
        ([(1000, 2000, 1), (9000, 9000, 1)], Span(1000, 1000), Span(5000, 5000), "not in its"),
        ([(1000, 9000, 1)], Span(6000, 6000), Span(2000, 2000), "not in its histogram"),
    ],
)
def test_what_contradicts_itself_is_refused(
    ranges: list[tuple[int, int | None, int]], fastest: Span | None, slowest: Span, words: str
) -> None:
    with pytest.raises(HistogramError, match=words):
        histogram_of(ranges, total_ns=1, fastest=fastest, slowest=slowest, source="test")


def p99_of(latencies: Sequence[int]) -> Percentile:
    found = known(latencies).percentile(99)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "average",
    [
        lambda p, q: (p + q) / 2,
        lambda p, q: p / 2,
        lambda p, q: 0.5 * p,
        lambda p, q: sum([p, q]),
        lambda p, q: statistics.mean([p, q]),
        lambda p, q: statistics.fmean([p, q]),
        lambda p, q: float(p),
        lambda p, q: p < q,
    ],
)
def test_percentiles_cannot_be_averaged(
    average: Callable[[Percentile, Percentile], object],
) -> None:
    with pytest.raises(TypeError):
        average(p99_of([1 * MS]), p99_of([2 * MS]))
