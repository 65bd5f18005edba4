"""Throughput over two dimensions of the matrix: a table whose colours show the shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from grampus.report.figures import MISSING
from grampus.report.matrix.factors import (
    LOADS,
    Factor,
    decide_factors,
    describe_values,
    value_in,
)
from grampus.report.matrix.findings import FoundCell, Value
from grampus.report.matrix.words import describe_left_out, format_spread


@dataclass(frozen=True)
class HeatField:
    """One cell of the matrix. `share` is 0 to 100 of the highest; None without a figure, and then
    `reason` says why."""

    text: str
    share: int | None
    reason: str = ""
    is_client_bound: bool = False


@dataclass(frozen=True)
class HeatRow:
    title: str
    fields: tuple[HeatField, ...]


@dataclass(frozen=True)
class HeatMap:
    """`title` says where in the other dimensions it lies; empty without others."""

    title: str
    row_title: str
    column_title: str
    columns: tuple[str, ...]
    rows: tuple[HeatRow, ...]


@dataclass(frozen=True)
class HeatMaps:
    """The maps, and in `note` what their colours mean and what is left out."""

    drawn: tuple[HeatMap, ...] = ()
    note: str = ""


def decide_sides(factors: Sequence[Factor]) -> tuple[Factor, Factor] | None:
    """Rows and columns: a load along the columns if one varies, else what takes most values.

    Loads of different workloads are no throughput of one kind, so that these share a map only
    where nothing else is there for the rows. None when fewer than two factors vary.
    """
    if len(factors) < 2:
        return None

    def rank(factor: Factor) -> tuple[bool, bool, int]:
        is_load = any(name in LOADS for name in factor.names)
        return "workload" not in factor.names, is_load, len(factor.values)

    column = max(factors, key=rank)
    rest = [one for one in factors if one is not column]
    row = max(rest, key=lambda one: ("workload" not in one.names, len(one.values)))
    return row, column


def draw_heat_maps(cells: Sequence[FoundCell], max_maps: int) -> HeatMaps:
    """The maps of all cells with a closed loop: what comes at a rate has no throughput to show."""
    closed = [cell for cell in cells if not cell.is_open]
    factors = decide_factors(closed)
    sides = decide_sides(factors)
    if sides is None or not any(cell.operations_per_s for cell in closed):
        return HeatMaps()
    row, column = sides
    others = [one for one in factors if one not in sides]
    names = [name for one in others for name in one.names]
    maps = []
    for place in product(*(one.values for one in others)):
        inside = [
            cell
            for cell in closed
            if all(value_in(cell, one) == value for one, value in zip(others, place, strict=True))
        ]
        if any(cell.operations_per_s for cell in inside):
            values = [value for one in place for value in one]
            maps.append(_map(describe_values(names, values), inside, row, column))
    by_row = "workload" in row.names
    note = "of its row" if by_row else "of its map"
    said = [f"Operations a second; the deeper a colour, the nearer to the highest {note}."]
    if any(cell.client_bound == "yes" for cell in closed):
        said.append("An asterisk and a dashed edge: the load generator was the limit.")
    if len(closed) < len(cells):
        said.append("Cells with a rate are left out: their throughput is the requested rate.")
    if len(maps) > max_maps:
        said.append(describe_left_out(len(maps) - max_maps, "map"))
    return HeatMaps(tuple(maps[:max_maps]), " ".join(said))


def _map(title: str, cells: Sequence[FoundCell], row: Factor, column: Factor) -> HeatMap:
    found = {(value_in(cell, row), value_in(cell, column)): cell for cell in cells}
    rows = [one for one in row.values if any(key[0] == one for key in found)]
    columns = [one for one in column.values if any(key[1] == one for key in found)]
    by_row = "workload" in row.names
    highest = {
        one: max(
            (
                cell.operations_per_s.mean
                for key, cell in found.items()
                if cell.operations_per_s is not None and (key[0] == one or not by_row)
            ),
            default=0.0,
        )
        for one in rows
    }
    return HeatMap(
        title=title,
        row_title=row.title,
        column_title=column.title,
        columns=tuple(_words(one) for one in columns),
        rows=tuple(
            HeatRow(
                _words(one),
                tuple(_field(found.get((one, other)), highest[one]) for other in columns),
            )
            for one in rows
        ),
    )


def _field(cell: FoundCell | None, highest: float) -> HeatField:
    if cell is None:
        return HeatField("", None)
    if cell.operations_per_s is None:
        return HeatField(MISSING, None, cell.no_figure or "")
    share = round(100 * cell.operations_per_s.mean / highest) if highest > 0 else 0
    is_bound = cell.client_bound == "yes"
    return HeatField(format_spread(cell.operations_per_s), share, is_client_bound=is_bound)


def _words(values: Sequence[Value]) -> str:
    return ", ".join(str(value) for value in values)
