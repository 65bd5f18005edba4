"""The time that each layer adds to an operation, as a table of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.report.figures import MISSING, format_number
from grampus.report.matrix.findings import FoundCell, FoundTime
from grampus.report.matrix.layer_strips import LAYER_TITLES
from grampus.state.matrix_layers import LAYERS


@dataclass(frozen=True)
class TimeField:
    """A layer's part of an operation: `percent` (0 to 100) is None where it adds nothing."""

    percent: float | None
    text: str
    is_bottleneck: bool


@dataclass(frozen=True)
class TimeRow:
    """One cell; `mean` is the time of an operation, `fields` are in the order of the columns."""

    name: str
    mean: str
    fields: tuple[TimeField, ...]


@dataclass(frozen=True)
class TimeTable:
    """`columns` are the layers that add something to some cell."""

    columns: tuple[str, ...]
    rows: tuple[TimeRow, ...]


def tabulate_times(cells: Sequence[FoundCell]) -> TimeTable | None:
    """A row for each cell whose times are known; None without one, as in runs of old versions."""
    timed = [cell for cell in cells if cell.times]
    layers = [
        layer for layer in LAYERS if any(one.layer == layer for cell in timed for one in cell.times)
    ]
    if not layers:
        return None
    return TimeTable(
        tuple(LAYER_TITLES[layer] for layer in layers),
        tuple(_row(cell, layers) for cell in timed),
    )


def _row(cell: FoundCell, layers: Sequence[str]) -> TimeRow:
    times = {one.layer: one for one in cell.times}
    first = cell.times[0]
    mean = MISSING
    if first.ms is not None and first.share > 0:
        mean = f"{format_number(first.ms / first.share)} ms"
    fields = (_field(times.get(layer), is_bottleneck=layer == cell.bottleneck) for layer in layers)
    return TimeRow(cell.name, mean, tuple(fields))


def _field(time: FoundTime | None, *, is_bottleneck: bool) -> TimeField:
    if time is None:
        return TimeField(None, MISSING, is_bottleneck)
    percent = round(100 * min(max(time.share, 0.0), 1.0), 1)
    return TimeField(percent, f"{percent:.0f}%", is_bottleneck)
