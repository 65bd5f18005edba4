"""What a report shows, decided from a run and its samples, before any HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grampus.core.units import format_bytes
from grampus.report.comparison import (
    ARM_TITLES,
    ARMS,
    RunComparison,
    arm_result,
    compare_workload,
    describe_errors,
    describe_run,
    describe_trust,
    describe_workload,
)
from grampus.report.figures import (
    MISSING,
    finite_values,
    format_clock,
    format_duration,
    format_number,
    format_percent,
    format_times,
    format_utc,
    instant,
    mean,
)
from grampus.report.resources import Grid, ResourceChart, decide_grid, resource_charts
from grampus.report.series import ArmLine, Summary, arm_lines, highest, summarise
from grampus.state.runs import (
    ArmName,
    OltpSample,
    ResourceSample,
    Run,
    Setting,
    WorkloadResult,
)

Samples = Mapping[str, Mapping[ArmName, Sequence[OltpSample]]]  # by workload name, then arm


@dataclass(frozen=True)
class Fact:
    """A name and its value."""

    name: str
    value: str


@dataclass(frozen=True)
class FactGroup:
    """Facts under one heading."""

    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Card:
    """The verdict on one workload. `bar_percent` is 0 to 100, None without a ratio."""

    title: str
    name: str
    share: str
    bar_percent: float | None
    sentence: str


@dataclass(frozen=True)
class ResultRow:
    """One row of the results table; the cells are in the order of RESULT_COLUMNS."""

    label: str
    kind: str  # ceph, local or ratio
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ResultGroup:
    """The rows of one workload."""

    title: str
    name: str
    rows: tuple[ResultRow, ...]


@dataclass(frozen=True)
class SummaryRow:
    """Lowest, mean and highest value of one line of a chart."""

    label: str
    lowest: str
    mean: str
    highest: str


@dataclass(frozen=True)
class PageFigure:
    """A chart on the page: what stands around it, and what says the same without seeing it."""

    id: str
    title: str
    unit: str
    note: str
    alternative: str
    rows: tuple[SummaryRow, ...]


@dataclass(frozen=True)
class WorkloadFigures:
    """The charts of one workload."""

    title: str
    name: str
    figures: tuple[PageFigure, ...]


@dataclass(frozen=True)
class Band:
    """When one arm of one workload ran, in seconds on the clock of the resource charts."""

    number: int
    title: str
    arm: ArmName
    from_s: float
    to_s: float

    @property
    def arm_title(self) -> str:
        return ARM_TITLES[self.arm]

    @property
    def when(self) -> str:
        return f"{format_clock(self.from_s)} to {format_clock(self.to_s)}"


@dataclass(frozen=True)
class RawFile:
    """A file of the archive, relative to the run's directory."""

    path: str
    content: str


@dataclass(frozen=True)
class Page:
    """A whole report. `payload` is what the chart script reads, ready for JSON."""

    run_id: str
    started: str
    facts: tuple[Fact, ...]
    headline: str
    trust: str
    errors: str | None
    cards: tuple[Card, ...]
    warnings: tuple[str, ...]
    results: tuple[ResultGroup, ...]
    workloads: tuple[WorkloadFigures, ...]
    resources: tuple[PageFigure, ...]
    bands: tuple[Band, ...]
    environment: tuple[FactGroup, ...]
    raw_files: tuple[RawFile, ...]
    payload: dict[str, Any]


BAND_WORDS: dict[ArmName, str] = {"ceph": "Ceph", "local": "local"}  # short: bands are narrow
RESULT_COLUMNS = (
    "TPS",
    "QPS",
    "Average ms",
    "p99 ms",
    "Longest ms",
    "Transactions",
    "Errors",
    "TPS variation",
)


def describe_page(
    run: Run, samples: Samples, resources: Sequence[ResourceSample], *, max_points: int
) -> Page:
    """The page of `run`; lines are reduced to about `max_points` points each."""
    zero_s = clock_zero_s(run, resources)
    grid = decide_grid(resources, max_points)
    charts = resource_charts(resources, grid)
    bands = run_bands(run, samples, zero_s)
    payload: dict[str, Any] = {"pairs": [], "resources": []}
    workloads = []
    for index, workload in enumerate(run.workloads):
        figures = []
        for kind in ("tps", "p99"):
            lines = _lines(kind, workload, samples.get(workload.name, {}), max_points)
            figure = _pair_figure(f"{kind}-{index}", kind, lines)
            figures.append(figure)
            payload["pairs"].append(_pair_payload(figure, lines))
        workloads.append(WorkloadFigures(workload.title, workload.name, tuple(figures)))
    figures = []
    for chart in charts:
        figure = _resource_figure(chart, grid)
        figures.append(figure)
        payload["resources"].append(_resource_payload(figure, chart))
    payload["grid"] = _grid_payload(grid, zero_s)
    payload["bands"] = [
        {
            "number": band.number,
            "label": f"{band.number} {BAND_WORDS[band.arm]}",
            "arm": band.arm,
            "from": round(band.from_s, 1),
            "to": round(band.to_s, 1),
        }
        for band in bands
    ]
    return Page(
        run_id=run.run_id,
        started=format_utc(run.started_at_s),
        facts=header_facts(run),
        headline=describe_run(run.workloads),
        trust=describe_trust(run),
        errors=describe_errors(run.workloads),
        cards=tuple(_card(workload) for workload in run.workloads),
        warnings=run.warnings,
        results=tuple(_result_group(workload) for workload in run.workloads),
        workloads=tuple(workloads),
        resources=tuple(figures),
        bands=bands,
        environment=group_facts(run.environment),
        raw_files=raw_files(run, samples, len(resources)),
        payload=payload,
    )


def header_facts(run: Run) -> tuple[Fact, ...]:
    """What was run, when and for how long."""
    started, ended = instant(run.started_at_s), instant(run.ended_at_s)
    return (
        Fact("Suite", run.suite),
        Fact("Database", f"{run.database} ({run.flavour})"),
        Fact("Lab or site", run.lab),
        Fact("Started", format_utc(run.started_at_s)),
        Fact("Took", format_duration(ended - started) if started and ended else MISSING),
        Fact("Client threads", f"{run.threads:,}"),
        Fact(
            "Warm-up and measuring",
            f"{format_duration(run.warmup_s)} and {format_duration(run.measure_s)}",
        ),
        Fact("Data set", format_bytes(run.dataset_bytes)),
        Fact("Buffer pool", format_bytes(run.buffer_pool_bytes)),
    )


def group_facts(environment: Iterable[Setting]) -> tuple[FactGroup, ...]:
    """The environment by group, groups and facts in the order in which they were recorded."""
    groups: dict[str, list[Fact]] = {}
    for setting in environment:
        groups.setdefault(setting.group, []).append(Fact(setting.name, setting.value or MISSING))
    return tuple(FactGroup(title, tuple(facts)) for title, facts in groups.items())


def raw_files(run: Run, samples: Samples, resource_count: int) -> tuple[RawFile, ...]:
    """Where the figures come from, relative to the run's directory in the archive."""
    found = [RawFile("run.json", "settings and results of the run")]
    for workload in run.workloads:
        for arm in ARMS:
            count = len(samples.get(workload.name, {}).get(arm, ()))
            found.append(
                RawFile(
                    f"samples/{workload.name}.{arm}.jsonl",
                    f"{count:,} samples, one a second" if count else "no samples were kept",
                )
            )
    content = f"{resource_count:,} samples of resource use" if resource_count else "no samples"
    found.append(RawFile("resources.jsonl", content))
    found.append(RawFile("raw/", "what the drivers printed, unchanged"))
    return tuple(found)


def clock_zero_s(run: Run, resources: Sequence[ResourceSample]) -> float:
    """The Unix time that the resource charts count from: the run's start, if it is known."""
    started = instant(run.started_at_s)
    if started:
        return started
    return min(finite_values(instant(sample.at_s) for sample in resources), default=0.0)


def run_bands(run: Run, samples: Samples, zero_s: float) -> tuple[Band, ...]:
    """When each arm ran, warm-up included, in order of time; an arm without sane times has none."""
    bands = []
    for number, workload in enumerate(run.workloads, start=1):
        for arm in ARMS:
            result = arm_result(workload, arm)
            started, ended = instant(result.started_at_s), instant(result.ended_at_s)
            if not started or not ended or started >= ended:
                continue
            kept = samples.get(workload.name, {}).get(arm, ())
            first = min([started, *(at for at in (instant(s.at_s) for s in kept) if at)])
            bands.append(Band(number, workload.title, arm, first - zero_s, ended - zero_s))
    return tuple(sorted(bands, key=lambda band: band.from_s))


def _card(workload: WorkloadResult) -> Card:
    ratio = compare_workload(workload).tps
    return Card(
        title=workload.title,
        name=workload.name,
        share=format_percent(ratio),
        bar_percent=None if ratio is None else round(min(100.0, ratio * 100), 2),
        sentence=describe_workload(workload),
    )


def _result_group(workload: WorkloadResult) -> ResultGroup:
    comparison = compare_workload(workload)
    rows = [ResultRow(ARM_TITLES[arm], arm, _result_cells(workload, arm)) for arm in ARMS]
    rows.append(ResultRow("Ceph ÷ local disk", "ratio", _ratio_cells(comparison)))
    return ResultGroup(workload.title, workload.name, tuple(rows))


def _result_cells(workload: WorkloadResult, arm: ArmName) -> tuple[str, ...]:
    result = arm_result(workload, arm)
    return (
        format_number(result.tps),
        format_number(result.qps),
        format_number(result.latency_avg_ms),
        format_number(result.shown_p99_ms),
        format_number(result.latency_max_ms),
        f"{result.transactions:,}",
        f"{result.errors:,}",
        format_percent(result.tps_cov),
    )


def _ratio_cells(comparison: RunComparison) -> tuple[str, ...]:
    ratios = (
        comparison.tps,
        comparison.qps,
        comparison.latency_avg,
        comparison.latency_p99,
        comparison.latency_max,
    )
    return (*(format_times(ratio) for ratio in ratios), "", "", "")


def _lines(
    kind: str,
    workload: WorkloadResult,
    samples: Mapping[ArmName, Sequence[OltpSample]],
    max_points: int,
) -> tuple[ArmLine, ...]:
    started = {arm: arm_result(workload, arm).started_at_s for arm in ARMS}
    ordered = {arm: samples[arm] for arm in ARMS if arm in samples}
    if kind == "tps":
        return arm_lines(ordered, started, lambda sample: sample.tps, mean, max_points)
    return arm_lines(ordered, started, lambda sample: sample.latency_p99_ms, highest, max_points)


def _pair_figure(figure_id: str, kind: str, lines: Sequence[ArmLine]) -> PageFigure:
    throughput = kind == "tps"
    title = "Throughput over time" if throughput else "p99 latency over time"
    unit = "transactions/s" if throughput else "ms"
    merged = max((line.seconds_a_point for line in lines), default=1)
    value = "mean" if throughput else "highest"
    note = f"One point is the {value} of up to {merged} samples." if merged > 1 else ""
    rows = tuple(_summary_row(ARM_TITLES[line.arm], summarise(line.y)) for line in lines)
    return PageFigure(figure_id, title, unit, note, _alternative(title, unit, rows), rows)


def _resource_figure(chart: ResourceChart, grid: Grid | None) -> PageFigure:
    rows = tuple(_summary_row(series.label, summarise(series.y)) for series in chart.series)
    notes = []
    if grid is not None:
        notes.append(f"One point is the mean over {format_duration(round(grid.step_s, 1))}.")
    if chart.style == "stacked":
        notes.append("Layers are stacked: the upper edge is the sum.")
    if chart.left_out == 1:
        notes.append("One daemon or volume with less use is not drawn.")
    elif chart.left_out:
        notes.append(f"{chart.left_out} daemons or volumes with less use are not drawn.")
    alternative = _alternative(f"{chart.title} over the run", chart.unit, rows)
    figure_id = f"resource-{chart.key}"
    return PageFigure(figure_id, chart.title, chart.unit, " ".join(notes), alternative, rows)


def _summary_row(label: str, summary: Summary) -> SummaryRow:
    return SummaryRow(
        label,
        format_number(summary.lowest),
        format_number(summary.mean),
        format_number(summary.highest),
    )


def _alternative(title: str, unit: str, rows: Sequence[SummaryRow]) -> str:
    if not rows:
        return f"{title}: no samples were kept."
    parts = "; ".join(f"{row.label} {row.lowest} to {row.highest}" for row in rows)
    return f"{title}, in {unit}: {parts}."


def _pair_payload(figure: PageFigure, lines: Sequence[ArmLine]) -> dict[str, Any]:
    return {
        "id": figure.id,
        "unit": figure.unit,
        "lines": [
            {
                "arm": line.arm,
                "label": ARM_TITLES[line.arm],
                "x": _compact(line.x_s),
                "y": _compact(line.y),
                "warmup": line.warmup_s,
            }
            for line in lines
        ],
    }


def _resource_payload(figure: PageFigure, chart: ResourceChart) -> dict[str, Any]:
    return {
        "id": figure.id,
        "unit": figure.unit,
        "stacked": chart.style == "stacked",
        "series": [
            {
                "label": series.label,
                "family": series.family,
                "overlay": series.overlay,
                "y": _compact(series.y),
            }
            for series in chart.series
        ],
    }


def _grid_payload(grid: Grid | None, zero_s: float) -> dict[str, float] | None:
    """The middle of the first bin, the step and the number of bins, in seconds since `zero_s`."""
    if grid is None:
        return None
    first_s = grid.start_s + grid.step_s / 2 - zero_s
    return {"first": round(first_s, 2), "step": round(grid.step_s, 4), "bins": grid.bins}


def _compact(values: Sequence[float | None]) -> list[float | int | None]:
    """Whole numbers without `.0`: a tenth of the report's size."""
    return [int(v) if v is not None and v == int(v) else v for v in values]
