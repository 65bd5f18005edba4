"""The source's figures, and ours in the same quantities, each with its ratio to the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grampus.report.figures import MISSING, format_number
from grampus.report.matrix.findings import FoundCell, FoundSpread, SourceFigure
from grampus.report.matrix.words import format_ratio

_SHOWN_CELLS = 60
_BOUNDS = {
    "exactly": "",
    "about": "about ",
    "up-to": "up to ",
    "at-least": "at least ",
    "below": "below ",
    "above": "above ",
}
_UNITS = {
    "times": "times",
    "fraction": "(fraction)",
    "count": "",
    "mb-per-s": "MB/s",
    "iops-per-gb": "IOPS a GB",
}


@dataclass(frozen=True)
class PublishedRow:
    """A published figure."""

    quantity: str
    labels: str
    value: str
    of_first: str
    remark: str


@dataclass(frozen=True)
class OurRow:
    """A cell's figure of the quantity."""

    name: str
    value: str
    of_first: str
    is_client_bound: bool


@dataclass(frozen=True)
class OurTable:
    """Ours of one quantity; `left_out` cells are in the table of cells alone."""

    title: str
    rows: tuple[OurRow, ...]
    left_out: int


Read = Callable[[FoundCell], float | None]


def _mean(spread: FoundSpread | None) -> float | None:
    return None if spread is None else spread.mean


def _average_ms(cell: FoundCell) -> float | None:
    if cell.latency is None or cell.latency.average_us is None:
        return None
    return cell.latency.average_us / 1000


def _percentile_ms(percent: float) -> Read:
    def read(cell: FoundCell) -> float | None:
        found = None if cell.latency is None else cell.latency.percentile(percent)
        return None if found is None or found.latency_us is None else found.latency_us / 1000

    return read


def _transactions(cell: FoundCell) -> float | None:
    return _mean(cell.operations_per_s) if cell.queries_per_s is not None else None


# What a source calls it, or the unit that it has it in; and where ours is.
_OURS: Mapping[str, tuple[str, Read]] = {
    "tps": ("Transactions a second", _transactions),
    "qps": ("Queries a second", lambda cell: _mean(cell.queries_per_s)),
    "iops": ("I/O operations a second", lambda cell: _mean(cell.iops)),
    "iops-per-gb": ("IOPS a GB", lambda cell: _mean(cell.iops_per_gb)),
    "mb-per-s": ("MB a second", lambda cell: _mean(cell.mb_per_s)),
    "latency-avg": ("Average latency, ms", _average_ms),
    "latency-p99": ("99th percentile, ms", _percentile_ms(99.0)),
    "latency-p9999": ("99.99th percentile, ms", _percentile_ms(99.99)),
}


def published_rows(figures: Sequence[SourceFigure]) -> tuple[PublishedRow, ...]:
    """The source's figures, in its order."""
    return tuple(
        PublishedRow(
            quantity=one.quantity.replace("-", " "),
            labels=", ".join(f"{name} {label}" for name, label in one.labels.items()),
            value=_published_value(one),
            of_first=format_ratio(one.of_first),
            remark="; ".join(part for part in (one.shown_in, one.remark) if part),
        )
        for one in figures
    )


def our_tables(figures: Sequence[SourceFigure], cells: Sequence[FoundCell]) -> tuple[OurTable, ...]:
    """A table for each quantity that the source has figures of, and we have too.

    A source that has only ratios of its own has our throughput beside it, whose ratios tell.
    """
    wanted = dict.fromkeys(
        key for one in figures if (key := _key_of(one)) is not None and key in _OURS
    )
    tables = tuple(_our_table(*_OURS[key], cells) for key in wanted)
    tables = tuple(table for table in tables if table.rows)
    if tables or not figures:
        return tables
    throughput = _our_table("Operations a second", lambda cell: _mean(cell.operations_per_s), cells)
    return (throughput,) if throughput.rows else ()


def _key_of(figure: SourceFigure) -> str | None:
    if figure.quantity in _OURS:
        return figure.quantity
    for name in ("latency-avg", "latency-p9999", "latency-p99"):
        if figure.quantity.endswith(name):
            return name
    return figure.unit if figure.unit in _OURS else None


def _our_table(title: str, read: Read, cells: Sequence[FoundCell]) -> OurTable:
    found = [(cell, value) for cell in cells if (value := read(cell)) is not None]
    first = found[0][1] if found else None
    rows = tuple(
        OurRow(
            cell.name,
            format_number(value),
            MISSING if not first or not at else format_ratio(value / first),
            cell.client_bound == "yes",
        )
        for at, (cell, value) in enumerate(found[:_SHOWN_CELLS])
    )
    return OurTable(title, rows, max(0, len(found) - _SHOWN_CELLS))


def _published_value(figure: SourceFigure) -> str:
    if figure.value is None:
        return "only drawn"
    unit = _UNITS.get(figure.unit, figure.unit)
    return f"{_BOUNDS.get(figure.bound, '')}{figure.value:,.10g} {unit}".rstrip()
