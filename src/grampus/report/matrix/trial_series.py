"""What each trial did second by second: a small drawing for each cell, its rounds in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.report.drawing import Axis, axis_from_zero
from grampus.report.figures import finite_values, format_number
from grampus.report.matrix.findings import FoundCell
from grampus.state.matrix_runs import Figures, Trial

SERIES_WIDTH = 220
SERIES_HEIGHT = 48


@dataclass(frozen=True)
class RoundLine:
    """The points of one round as an SVG polyline."""

    round: int
    path: str


@dataclass(frozen=True)
class CellSeries:
    """The rounds of one cell; `warmup_width` is None where no second was left out as warm-up."""

    name: str
    lines: tuple[RoundLine, ...]
    warmup_width: float | None
    caption: str
    alternative: str


def warmup_seconds(figures: Figures) -> int:
    """How many of the first seconds the figures leave out."""
    return max(0, len(figures.seconds) - round(figures.measured_s))


def thin_out(values: Sequence[float], max_points: int) -> list[tuple[float, float]]:
    """At most `max_points` points (middle second, mean), each of as many seconds as the others."""
    width = max(1, math.ceil(len(values) / max_points))
    points = []
    for at in range(0, len(values), width):
        part = values[at : at + width]
        points.append((at + len(part) / 2, math.fsum(part) / len(part)))
    return points


def draw_series(
    cells: Sequence[FoundCell], trials: Sequence[Trial], max_points: int
) -> tuple[CellSeries, ...]:
    """A drawing for each cell of which some round has seconds; of two trials of a round, the
    later."""
    last = {(trial.cell_id, trial.round): trial for trial in trials}
    rounds: dict[str, list[tuple[int, Figures]]] = {}
    for (cell_id, number), trial in sorted(last.items()):
        if trial.figures is not None and trial.figures.seconds:
            rounds.setdefault(cell_id, []).append((number, trial.figures))
    return tuple(
        _cell_series(cell.name, rounds[cell.cell_id], max_points)
        for cell in cells
        if cell.cell_id in rounds
    )


def _cell_series(name: str, rounds: Sequence[tuple[int, Figures]], max_points: int) -> CellSeries:
    thinned = [
        (number, thin_out(finite_values(s.operations for s in figures.seconds), max_points))
        for number, figures in rounds
    ]
    longest_s = max(len(figures.seconds) for _, figures in rounds)
    warmup_s = max(warmup_seconds(figures) for _, figures in rounds)
    values = [value for _, points in thinned for _, value in points]
    across = Axis(0.0, float(longest_s), 0.0, float(SERIES_WIDTH))
    up = axis_from_zero(values, float(SERIES_HEIGHT), 0.0)
    lowest, highest = min(values, default=None), max(values, default=None)
    caption = f"{format_number(lowest)} to {format_number(highest)}/s over {longest_s} s"
    if warmup_s:
        caption += f", the first {warmup_s} s warm-up"
    how_many = "1 round" if len(rounds) == 1 else f"{len(rounds)} rounds"
    return CellSeries(
        name=name,
        lines=tuple(
            RoundLine(
                number,
                # Whole units are about a pixel across, and fewer bytes.
                " ".join(f"{across.place(x):.0f},{up.place(y):.1f}" for x, y in points),
            )
            for number, points in thinned
        ),
        warmup_width=across.place(float(warmup_s)) if warmup_s else None,
        caption=caption,
        alternative=f"{name}, {how_many}: {caption}",
    )
