"""Percentiles of the latencies, from the median to p99.99, on a scale that opens the tail."""

from __future__ import annotations

import math
from collections.abc import Sequence

from grampus.report.drawing import (
    MAX_LINES,
    PLOT_BOTTOM,
    PLOT_LEFT,
    PLOT_RIGHT,
    PLOT_TOP,
    Axis,
    ChartLine,
    Charts,
    Dot,
    LineChart,
    Tick,
    Whisker,
    log_axis_of,
    path_of,
)
from grampus.report.figures import format_number
from grampus.report.matrix.factors import arm_names, describe_cell, varied_names
from grampus.report.matrix.findings import FoundCell, FoundPercentile, Value
from grampus.report.matrix.words import describe_left_out, loop_words, parts_of

_ROOM = 12.0


def shown_percentiles(cell: FoundCell) -> tuple[FoundPercentile, ...]:
    """Those that it has, on a scale without a zero."""
    if cell.latency is None:
        return ()
    return tuple(one for one in cell.latency.percentiles if one.low_us > 0)


def place_percent(percent: float) -> float:
    """How many nines: 90 is 1, 99 is 2, and each further nine is as far again."""
    return -math.log10(1 - percent / 100)


def draw_percentile_plots(cells: Sequence[FoundCell], max_charts: int) -> Charts:
    """Charts of some cells each: those of one workload and loop, arms beside each other."""
    groups: dict[tuple[bool, str], list[FoundCell]] = {}
    for cell in cells:
        if shown_percentiles(cell):
            key = (cell.is_open, str(cell.point.get("workload", "")))
            groups.setdefault(key, []).append(cell)
    parts = [part for group in groups.values() for part in _parts_of(group)]
    left_out = sum(len(part) for part in parts[max_charts:])
    return Charts(
        tuple(_chart(part, varied_names(cells)) for part in parts[:max_charts]),
        describe_left_out(left_out, "cell"),
    )


def _parts_of(cells: Sequence[FoundCell]) -> list[list[FoundCell]]:
    """`cells` by charts: cells that only their arm tells apart are in one, if they fit."""
    names = [name for name in varied_names(cells) if name not in arm_names(cells)]
    places: dict[tuple[Value, ...], list[FoundCell]] = {}
    for cell in cells:
        places.setdefault(tuple(cell.point.get(name, "") for name in names), []).append(cell)
    parts: list[list[FoundCell]] = []
    for beside in places.values():
        if parts and len(parts[-1]) + len(beside) <= MAX_LINES:
            parts[-1] += beside
        else:
            parts += [list(part) for part in parts_of(beside, MAX_LINES)]
    return parts


def _chart(cells: Sequence[FoundCell], varied: Sequence[str]) -> LineChart:
    shown = [(cell, shown_percentiles(cell)) for cell in cells]
    percents = sorted({one.percent for _, found in shown for one in found})
    across = Axis(
        place_percent(percents[0]),
        max(place_percent(percents[-1]), place_percent(percents[0]) + 1),
        PLOT_LEFT + _ROOM,
        PLOT_RIGHT - _ROOM,
    )
    ends_us = [end for _, found in shown for one in found for end in (one.low_us, one.high_us)]
    up = log_axis_of([end_us / 1000 for end_us in ends_us], PLOT_BOTTOM, PLOT_TOP)
    apart = varied_names(cells)
    lines = tuple(
        _line(number, _label(cell, apart), found, across, up)
        for number, (cell, found) in enumerate(shown)
    )
    named = dict.fromkeys(("workload", *varied))
    place = describe_cell(cells[0], [name for name in named if name not in apart])
    title = f"{place} ({loop_words(is_open=cells[0].is_open)})"
    said = [
        text
        for line in lines
        for text in [*(dot.text for dot in line.dots[-1:]), *(w.text for w in line.whiskers[-1:])]
    ]
    return LineChart(
        title=title,
        x_title="percentile",
        y_title="ms",
        x_ticks=tuple(Tick(across.place(place_percent(one)), f"p{one:g}") for one in percents),
        y_ticks=up.ticks(),
        lines=lines,
        alternative=f"{title}, the highest percentiles: {'; '.join(said)}",
    )


def _label(cell: FoundCell, names: Sequence[str]) -> str:
    """A client-bound cell says so: its latencies are in part those of the load generator."""
    bound = ", client-bound" if cell.client_bound == "yes" else ""
    return f"{describe_cell(cell, names)}{bound}"


def _line(
    number: int, label: str, found: Sequence[FoundPercentile], across: Axis, up: Axis
) -> ChartLine:
    dots, whiskers = [], []
    for one in found:
        x = across.place(place_percent(one.percent))
        if one.latency_us is not None:
            text = f"{label}, p{one.percent:g}: {format_number(one.latency_us / 1000)} ms"
            dots.append(Dot(x, up.place(one.latency_us / 1000), text))
        else:
            low_ms, high_ms = one.low_us / 1000, one.high_us / 1000
            text = (
                f"{label}, p{one.percent:g}: between {format_number(low_ms)} and "
                f"{format_number(high_ms)} ms"
            )
            whiskers.append(Whisker(x, up.place(low_ms), up.place(high_ms), text))
    path = path_of((dot.x, dot.y) for dot in dots)
    return ChartLine(number, label, path, tuple(dots), tuple(whiskers))
