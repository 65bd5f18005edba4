"""What the report of a run of `paths` shows, decided before any HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grampus.core.units import format_bytes
from grampus.report.figures import (
    MISSING,
    format_duration,
    format_number,
    format_times,
    format_utc,
    instant,
)
from grampus.report.page import Fact, FactGroup, RawFile, group_facts
from grampus.state.runs import (
    PathsComparison,
    PathsMeasure,
    PathsResult,
    PathsRun,
    PathsTarget,
)

RESULT_COLUMNS = (
    "Throughput",
    "Average µs",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "CPU µs an operation",
    "Rounds",
)
LATENCY_SUFFIX = "-latency-avg"
# The drawing of an interval, in its own units; ratios are drawn on a logarithmic axis, so that
# twice and half are as far from 1.
DRAWING_WIDTH = 240
DRAWING_MARGIN = 8
# At least this far to both sides, so that noise does not look like a finding.
LEAST_SPAN = 1.25
HEADINGS = {"more": "Throughput, more is better", "less": "Cost, less is better"}
VERDICTS = {True: "reached", False: "missed", None: "not known"}


@dataclass(frozen=True)
class ArmRow:
    """One arm in the table of a measure; the cells are in the order of RESULT_COLUMNS."""

    name: str
    title: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Drawing:
    """An interval on a line, in units of DRAWING_WIDTH. `one` is where the ratio 1 lies."""

    low: float
    middle: float
    high: float
    one: float


@dataclass(frozen=True)
class RatioRow:
    """One comparison. `side` is better or worse, or either where the interval holds 1."""

    title: str
    ratio: str
    interval: str
    rounds: str
    side: str
    drawing: Drawing
    alternative: str


@dataclass(frozen=True)
class MeasureSection:
    """All that is known of one measure."""

    name: str
    title: str
    rows: tuple[ArmRow, ...]
    flush_rows: tuple[ArmRow, ...]
    throughput: tuple[RatioRow, ...]
    throughput_heading: str
    latency: tuple[RatioRow, ...]


@dataclass(frozen=True)
class TargetRow:
    """One target in one measure."""

    title: str
    measure: str
    arm: str
    limit: str
    value: str
    interval: str
    verdict: str
    note: str


@dataclass(frozen=True)
class UnmeasuredTarget:
    """One target that this run says nothing of, with the measures that it is asked in."""

    title: str
    measures: tuple[str, ...]


@dataclass(frozen=True)
class PathsPage:
    """A whole report."""

    run_id: str
    started: str
    facts: tuple[Fact, ...]
    headline: str
    targets: tuple[TargetRow, ...]  # those that were measured
    unmeasured: tuple[UnmeasuredTarget, ...]
    warnings: tuple[str, ...]
    measures: tuple[MeasureSection, ...]
    arms: tuple[Fact, ...]
    order: tuple[Fact, ...]
    environment: tuple[FactGroup, ...]
    raw_files: tuple[RawFile, ...]


def describe_paths_page(run: PathsRun) -> PathsPage:
    """The page of `run`."""
    started, ended = instant(run.started_at_s), instant(run.ended_at_s)
    took = format_duration(ended - started) if started and ended else MISSING
    return PathsPage(
        run_id=run.run_id,
        started=format_utc(run.started_at_s),
        facts=(
            Fact("Suite", run.suite),
            Fact("Scale", run.scale),
            Fact("Lab", run.lab),
            Fact("Host", run.host),
            Fact("Started", format_utc(run.started_at_s)),
            Fact("Took", took),
            Fact("Rounds", str(run.rounds)),
            Fact("Seed", str(run.seed)),
        ),
        headline=describe_targets(run.targets),
        targets=tuple(_target_row(run, one) for one in run.targets if one.value is not None),
        unmeasured=_unmeasured_targets(run),
        warnings=run.warnings,
        measures=tuple(_measure_section(run, measure) for measure in run.measures),
        arms=tuple(Fact(f"{arm.title} ({arm.name})", arm.detail or MISSING) for arm in run.arms),
        order=tuple(
            Fact(f"Round {number}", ", ".join(blocks))
            for number, blocks in enumerate(run.order, start=1)
        ),
        environment=group_facts(run.environment),
        raw_files=(
            RawFile("run.json", "all figures of all rounds, results and comparisons"),
            RawFile("raw/", "fio's job files and JSON with full histograms, sysbench's output"),
        ),
    )


def describe_targets(targets: Sequence[PathsTarget]) -> str:
    """How many of the targets that were measured were reached, in one sentence."""
    if not targets:
        return "This suite has no targets."
    measured = [target for target in targets if target.value is not None]
    left_out = len(targets) - len(measured)
    if not measured:
        return "None of the suite's targets was measured."
    reached = sum(target.reached is True for target in measured)
    missed = sum(target.reached is False for target in measured)
    unknown = len(measured) - reached - missed
    of = "targets that were measured" if left_out else "targets"
    sentence = f"{reached} of {len(measured)} {of} were reached"
    if missed:
        sentence += f", {missed} missed"
    if unknown:
        sentence += f"; of {unknown} it is not known"
    return f"{sentence}."


def draw_interval(comparison: PathsComparison, lowest: float, highest: float) -> Drawing:
    """Where the interval lies on a logarithmic axis from `lowest` to `highest`, 1 among them."""

    def place(ratio: float) -> float:
        inside = min(max(ratio, lowest), highest)
        share = math.log(inside / lowest) / math.log(highest / lowest)
        return round(DRAWING_MARGIN + share * (DRAWING_WIDTH - 2 * DRAWING_MARGIN), 1)

    return Drawing(
        low=place(comparison.ratio_low),
        middle=place(comparison.ratio),
        high=place(comparison.ratio_high),
        one=place(1.0),
    )


def decide_axis(comparisons: Iterable[PathsComparison]) -> tuple[float, float]:
    """The lowest and highest ratio that the axis must hold; never without some room around 1."""
    ratios = [
        ratio
        for one in comparisons
        for ratio in (one.ratio_low, one.ratio_high)
        if ratio > 0 and math.isfinite(ratio)
    ]
    return min([1 / LEAST_SPAN, *ratios]), max([LEAST_SPAN, *ratios])


def format_throughput(value: float, unit: str) -> str:
    """With its unit: `12,346/s`, `415 MiB/s`, `194 TPS`; of a cost `2.31 writes`, `31 µs`."""
    if unit == "bytes-per-s":
        return f"{format_bytes(value)}/s"
    if unit == "writes-per-operation":
        return f"{format_number(value)} writes"
    if unit == "us-per-operation":
        return f"{format_number(value)} µs"
    return f"{format_number(value)} TPS" if unit == "tps" else f"{format_number(value)}/s"


def _measure_section(run: PathsRun, measure: PathsMeasure) -> MeasureSection:
    results = [one for one in run.results if one.measure == measure.name]
    titles = {arm.name: arm.title for arm in run.arms}
    order = {arm.name: place for place, arm in enumerate(run.arms)}
    results.sort(key=lambda one: order.get(one.arm, len(order)))
    throughput = [one for one in run.comparisons if one.measure == measure.name]
    latency_name = f"{measure.name}{LATENCY_SUFFIX}"
    latency = [one for one in run.comparisons if one.measure == latency_name]
    return MeasureSection(
        name=measure.name,
        title=measure.title,
        rows=tuple(
            ArmRow(one.arm, titles.get(one.arm, one.arm), _result_cells(one, measure.unit))
            for one in results
        ),
        flush_rows=tuple(
            ArmRow(one.arm, titles.get(one.arm, one.arm), _flush_cells(one))
            for one in results
            if one.flush_p50_us is not None
        ),
        throughput=_ratio_rows(throughput, titles),
        throughput_heading=HEADINGS[measure.better],
        latency=_ratio_rows(latency, titles),
    )


def _result_cells(result: PathsResult, unit: str) -> tuple[str, ...]:
    return (
        format_throughput(result.throughput, unit),
        format_number(result.latency_avg_us),
        format_number(result.latency_p50_us),
        format_number(result.latency_p99_us),
        format_number(result.latency_p999_us),
        format_number(result.cpu_us_per_operation),
        str(result.rounds),
    )


def _flush_cells(result: PathsResult) -> tuple[str, ...]:
    return (
        format_number(result.flush_p50_us),
        format_number(result.flush_p99_us),
        format_number(result.flush_p999_us),
    )


def _ratio_rows(
    comparisons: Sequence[PathsComparison], titles: dict[str, str]
) -> tuple[RatioRow, ...]:
    lowest, highest = decide_axis(comparisons)
    rows = []
    for one in comparisons:
        title = f"{titles.get(one.arm, one.arm)} ÷ {titles.get(one.against, one.against)}"
        interval = f"{format_times(one.ratio_low)} to {format_times(one.ratio_high)}"
        rows.append(
            RatioRow(
                title=title,
                ratio=format_times(one.ratio),
                interval=interval,
                rounds=str(one.rounds),
                side=_side(one),
                drawing=draw_interval(one, lowest, highest),
                alternative=f"{title}: {format_times(one.ratio)}, interval {interval}",
            )
        )
    return tuple(rows)


def _side(comparison: PathsComparison) -> str:
    if comparison.ratio_low <= 1 <= comparison.ratio_high:
        return "either"
    is_better = (comparison.ratio > 1) == (comparison.quantity == "throughput")
    return "better" if is_better else "worse"


def _target_row(run: PathsRun, target: PathsTarget) -> TargetRow:
    titles = {arm.name: arm.title for arm in run.arms}
    names = {measure.name: measure.title for measure in run.measures}
    if target.quantity == "ratio":
        is_least = target.at_least is not None
        limit = f"at least {target.at_least:g}" if is_least else f"at most {target.at_most:g}"
        value = format_times(target.value)
        interval = f"{format_times(target.value_low)} to {format_times(target.value_high)}"
    else:
        limit, value = f"at most {target.at_most:g} µs", f"{format_number(target.value)} µs"
        interval = f"{format_number(target.value_low)} to {format_number(target.value_high)} µs"
    return TargetRow(
        title=target.title,
        measure=names.get(target.measure, target.measure),
        arm=titles.get(target.arm, target.arm),
        limit=limit,
        value=value,
        interval=interval,
        verdict=VERDICTS[target.reached],
        note=target.note,
    )


def _unmeasured_targets(run: PathsRun) -> tuple[UnmeasuredTarget, ...]:
    """One for each title: a run of some of the ways leaves most targets out, measure by measure."""
    names = {measure.name: measure.title for measure in run.measures}
    measures_by_title: dict[str, list[str]] = {}
    for target in run.targets:
        if target.value is None:
            measures = measures_by_title.setdefault(target.title, [])
            measures.append(names.get(target.measure, target.measure))
    return tuple(
        UnmeasuredTarget(title, tuple(measures)) for title, measures in measures_by_title.items()
    )
