"""From the figures of all rounds to results, comparisons and differences. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grampus.bench.latency.histogram import LatencyHistogram, merge_histograms
from grampus.bench.paths.intervals import median_interval
from grampus.bench.paths.load import Figure
from grampus.state.runs import (
    PathsComparison,
    PathsDifference,
    PathsResult,
    PathsSample,
    QuantityName,
)

LATENCY_SUFFIX = "-latency-avg"
# Which arms are held against which, for whatever they have both measured.
COMPARED: tuple[tuple[str, str], ...] = (
    ("volumed-uring-raw", "rbd"),
    ("volumed-classic-raw", "rbd"),
    ("qsd-raw", "rbd"),
    ("volumed-uring-raw", "qsd-raw"),
    ("volumed-classic-raw", "qsd-raw"),
    ("volumed-uring-raw", "volumed-classic-raw"),
    ("volumed-uring-xfs", "rbd"),
    ("volumed-classic-xfs", "rbd"),
    ("qsd-xfs", "rbd"),
    ("volumed-uring-xfs", "qsd-xfs"),
    ("volumed-classic-xfs", "qsd-xfs"),
    ("volumed-uring-xfs", "volumed-classic-xfs"),
    ("memory-uring", "memory-classic"),
    ("journal", "direct"),
    ("cache", "direct"),
    ("journal-one-device", "direct"),
    ("journal", "journal-one-device"),
    ("direct", "qsd-xfs"),
    ("journal", "qsd-xfs"),
    ("cache", "qsd-xfs"),
    ("direct", "local"),
    ("journal", "local"),
    ("cache", "local"),
)


@dataclass(frozen=True)
class RoundFigure:
    """A figure, and where it belongs."""

    round: int
    arm: str
    figure: Figure


def describe_samples(figures: Sequence[RoundFigure]) -> tuple[PathsSample, ...]:
    """The figures as they are archived, in the order in which they were measured."""
    return tuple(
        PathsSample(
            round=one.round,
            arm=one.arm,
            measure=one.figure.measure,
            started_at_s=one.figure.started_at_s,
            measured_s=one.figure.measured_s,
            operations=one.figure.operations,
            throughput=one.figure.throughput,
            latency_avg_us=one.figure.latency_avg_us,
            cpu_us_per_operation=one.figure.cpu_us_per_operation,
        )
        for one in figures
    )


def decide_results(figures: Sequence[RoundFigure]) -> tuple[PathsResult, ...]:
    """One result for each arm and measure that has a figure, in order of first appearance."""
    grouped: dict[tuple[str, str], list[Figure]] = {}
    for one in figures:
        grouped.setdefault((one.arm, one.figure.measure), []).append(one.figure)
    return tuple(_result(arm, measure, rounds) for (arm, measure), rounds in grouped.items())


def decide_comparisons(
    figures: Sequence[RoundFigure], *, latency_bound: Sequence[str], costs: Sequence[str] = ()
) -> tuple[PathsComparison, ...]:
    """The ratios of throughput, and for the measures `latency_bound` of average latency too.

    Of the measures `costs` it is what an operation costs.
    """
    throughputs = _by_round(figures, lambda figure: figure.throughput)
    latencies = _by_round(figures, lambda figure: figure.latency_avg_us)
    comparisons = []
    for measure in _measures(figures):
        quantity: QuantityName = "cost" if measure in costs else "throughput"
        kinds: list[tuple[QuantityName, str, _Values]] = [(quantity, "", throughputs)]
        if measure in latency_bound:
            kinds.append(("latency-avg", LATENCY_SUFFIX, latencies))
        for arm, against in COMPARED:
            for quantity, suffix, values in kinds:
                ratios = [
                    ours / theirs
                    for ours, theirs in _pairs(values, measure, arm, against)
                    if theirs
                ]
                if not ratios:
                    continue
                interval = median_interval(ratios)
                comparisons.append(
                    PathsComparison(
                        measure=f"{measure}{suffix}",
                        arm=arm,
                        against=against,
                        quantity=quantity,
                        ratio=interval.median,
                        ratio_low=interval.low,
                        ratio_high=interval.high,
                        rounds=interval.count,
                        confidence=interval.confidence,
                    )
                )
    return tuple(comparisons)


def decide_differences(
    figures: Sequence[RoundFigure], *, latency_bound: Sequence[str]
) -> tuple[PathsDifference, ...]:
    """How much longer an operation takes on one arm than on the other, on average, in us."""
    latencies = _by_round(figures, lambda figure: figure.latency_avg_us)
    differences = []
    for measure in _measures(figures):
        if measure not in latency_bound:
            continue
        for arm, against in COMPARED:
            added = [ours - theirs for ours, theirs in _pairs(latencies, measure, arm, against)]
            if not added:
                continue
            interval = median_interval(added)
            differences.append(
                PathsDifference(
                    measure=measure,
                    arm=arm,
                    against=against,
                    difference_us=interval.median,
                    difference_low_us=interval.low,
                    difference_high_us=interval.high,
                    rounds=interval.count,
                    confidence=interval.confidence,
                )
            )
    return tuple(differences)


_Values = dict[tuple[str, str], dict[int, float]]  # by arm and measure, then by round


def _by_round(figures: Sequence[RoundFigure], value: Callable[[Figure], float | None]) -> _Values:
    values: _Values = {}
    for one in figures:
        found = value(one.figure)
        if found is not None:
            values.setdefault((one.arm, one.figure.measure), {})[one.round] = found
    return values


def _pairs(values: _Values, measure: str, arm: str, against: str) -> list[tuple[float, float]]:
    ours, theirs = values.get((arm, measure), {}), values.get((against, measure), {})
    return [(ours[number], theirs[number]) for number in sorted(ours) if number in theirs]


def _measures(figures: Sequence[RoundFigure]) -> list[str]:
    return list(dict.fromkeys(one.figure.measure for one in figures))


def _result(arm: str, measure: str, rounds: Sequence[Figure]) -> PathsResult:
    latency = merge_histograms(figure.latency for figure in rounds)
    flush = merge_histograms(figure.flush for figure in rounds)
    operations = sum(figure.operations for figure in rounds)
    waited_us = [
        figure.latency_avg_us * figure.operations
        for figure in rounds
        if figure.latency_avg_us is not None
    ]
    cpu = [used for figure in rounds if (used := figure.cpu_us_per_operation) is not None]
    return PathsResult(
        arm=arm,
        measure=measure,
        rounds=len(rounds),
        operations=operations,
        throughput=statistics.median([figure.throughput for figure in rounds]),
        latency_avg_us=sum(waited_us) / operations if waited_us and operations else None,
        latency_p50_us=_percentile_us(latency, 50),
        latency_p99_us=_percentile_us(latency, 99),
        latency_p999_us=_percentile_us(latency, 99.9),
        flush_p50_us=_percentile_us(flush, 50),
        flush_p99_us=_percentile_us(flush, 99),
        flush_p999_us=_percentile_us(flush, 99.9),
        cpu_us_per_operation=statistics.median(cpu) if cpu else None,
    )


def _percentile_us(histogram: LatencyHistogram, percent: float) -> float | None:
    """None where too few operations are slower than it, or only bounds are known."""
    if not histogram.supported((percent,)):
        return None
    percentile = histogram.percentile(percent)
    return None if percentile is None else percentile.to_document()["latency_us"]
