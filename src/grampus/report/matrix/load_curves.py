"""Throughput against latency as the load grows; never an open and a closed loop in one chart."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.report.drawing import (
    MAX_LINES,
    PLOT_BOTTOM,
    PLOT_LEFT,
    PLOT_RIGHT,
    PLOT_TOP,
    ChartLine,
    Charts,
    Dot,
    LineChart,
    axis_from_zero,
    log_axis_of,
    path_of,
)
from grampus.report.figures import format_number
from grampus.report.matrix.factors import (
    LOADS,
    arm_names,
    describe_cell,
    describe_values,
    ordered_values,
    varied_names,
)
from grampus.report.matrix.findings import FoundCell, Value
from grampus.report.matrix.words import describe_left_out, is_database, loop_words, parts_of

_PERCENT = 99.0
LoadPoint = tuple[Value, float, float, bool]  # load, operations a second, ms, client-bound
LoadPoints = list[LoadPoint]


def decide_load(cells: Sequence[FoundCell]) -> str | None:
    """The load dimension that takes most values; None when none takes two."""
    values = {name: len({cell.point.get(name) for cell in cells}) for name in LOADS}
    most = max(values.values())
    return next(name for name in LOADS if values[name] == most) if most > 1 else None


def draw_load_curves(cells: Sequence[FoundCell], max_charts: int) -> Charts:
    """A chart for each loop, workload and place in the matrix; a line for each arm (or cell)."""
    drawable = [cell for cell in cells if _point(cell, "threads") is not None]
    charts: list[LineChart] = []
    for is_open in (False, True):
        group = [cell for cell in drawable if cell.is_open is is_open]
        load = decide_load(group) if group else None
        if load is not None:
            charts += _charts_of(group, load)
    note = describe_left_out(len(charts) - max_charts, "chart")
    return Charts(tuple(charts[:max_charts]), note)


def _charts_of(cells: Sequence[FoundCell], load: str) -> list[LineChart]:
    others = [name for name in varied_names(cells) if name != load]
    along = [name for name in arm_names(cells) if name in others]
    apart = [name for name in others if along and name not in along]
    if "workload" in others and "workload" not in apart:
        apart = ["workload", *apart]
    inside = [name for name in others if name not in apart]
    charts: list[LineChart] = []
    for place, group in _grouped(cells, apart):
        lines = [
            (describe_values(inside, key) or "all cells", points)
            for key, members in _grouped(group, inside)
            if len(points := _points(members, load)) > 1
        ]
        for part in parts_of(lines, MAX_LINES):
            charts.append(_chart(describe_values(apart, place), load, group[0], part))
    return charts


def _grouped(
    cells: Sequence[FoundCell], names: Sequence[str]
) -> list[tuple[tuple[Value, ...], list[FoundCell]]]:
    groups: dict[tuple[Value, ...], list[FoundCell]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.point.get(name, "") for name in names), []).append(cell)
    return [(key, groups[key]) for key in ordered_values(groups)]


def _points(cells: Sequence[FoundCell], load: str) -> LoadPoints:
    found = [point for cell in cells if (point := _point(cell, load)) is not None]
    order = ordered_values([(point[0],) for point in found])
    return sorted(found, key=lambda point: order.index((point[0],)))


def _point(cell: FoundCell, load: str) -> LoadPoint | None:
    """None where a figure is missing, or only bounds of the percentile are known."""
    if cell.operations_per_s is None or cell.latency is None or load not in cell.point:
        return None
    percentile = cell.latency.percentile(_PERCENT)
    if percentile is None or not percentile.latency_us:
        return None
    is_bound = cell.client_bound == "yes"
    return cell.point[load], cell.operations_per_s.mean, percentile.latency_us / 1000, is_bound


def _chart(
    place: str, load: str, sample: FoundCell, lines: Sequence[tuple[str, LoadPoints]]
) -> LineChart:
    points = [point for _, found in lines for point in found]
    across = axis_from_zero([point[1] for point in points], PLOT_LEFT, PLOT_RIGHT)
    up = log_axis_of([point[2] for point in points], PLOT_BOTTOM, PLOT_TOP)
    unit = "transactions/s" if is_database(sample) else "operations/s"
    title = f"{place or describe_cell(sample, ['workload'])}, along {load}"
    drawn, said = [], []
    for number, (label, found) in enumerate(lines):
        dots = tuple(
            Dot(
                across.place(rate),
                up.place(latency_ms),
                f"{label}, {load} {value}: {format_number(rate)} {unit}, "
                f"p99 {format_number(latency_ms)} ms{', client-bound' if is_bound else ''}",
                is_bound,
            )
            for value, rate, latency_ms, is_bound in found
        )
        drawn.append(ChartLine(number, label, path_of((dot.x, dot.y) for dot in dots), dots))
        said += [dot.text for dot in (dots[0], dots[-1])]
    return LineChart(
        title=f"{title} ({loop_words(is_open=sample.is_open)})",
        x_title=unit,
        y_title="p99, ms",
        x_ticks=across.ticks(),
        y_ticks=up.ticks(),
        lines=tuple(drawn),
        alternative=f"{title}, first and last points: {'; '.join(said)}",
    )
