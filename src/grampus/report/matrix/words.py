"""How cells and their figures are put into words on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from grampus.core.units import format_digits
from grampus.report.figures import MISSING, finite, format_number
from grampus.report.matrix.findings import FoundCell, FoundPercentile, FoundSpread

ItemT = TypeVar("ItemT")


def is_database(cell: FoundCell) -> bool:
    """Whether its operations are transactions."""
    return cell.queries_per_s is not None


def loop_words(*, is_open: bool) -> str:
    return "open loop" if is_open else "closed loop"


def parts_of(items: Sequence[ItemT], size: int) -> list[Sequence[ItemT]]:
    """`items` in parts of at most `size`, in order."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def format_ratio(ratio: float | None) -> str:
    """Three digits, as in the sentences beside it: `0.986`, `33.2`, `1,250`, `1.4e-06`."""
    number = finite(ratio)
    if number is None:
        return MISSING
    is_long = number != 0 and not 1e-4 <= abs(number) < 1e4
    return f"{number:.1e}" if is_long else format_digits(number)


def describe_left_out(count: int, what: str) -> str:
    """How many are not drawn, as a sentence; empty where all is."""
    if count <= 0:
        return ""
    if count == 1:
        return f"1 more {what} is not drawn; the table has its figures."
    return f"{count} more {what}s are not drawn; the table has their figures."


def format_spread(spread: FoundSpread | None) -> str:
    return MISSING if spread is None else format_number(spread.mean)


def format_range(spread: FoundSpread | None) -> str:
    """The lowest and the highest round; a dash without any."""
    if spread is None:
        return MISSING
    return f"{format_number(spread.low)} to {format_number(spread.high)}"


def format_highest(percentile: FoundPercentile | None) -> str:
    """`p99.9: 1.84 (1.70 to 2.01)`, in milliseconds, with its interval where it is known."""
    if percentile is None:
        return MISSING
    said = f"p{percentile.percent:g}: {format_percentile(percentile)}"
    low_us, high_us = percentile.interval_low_us, percentile.interval_high_us
    if low_us is None or high_us is None:
        return said
    return f"{said} ({format_number(low_us / 1000)} to {format_number(high_us / 1000)})"


def format_percentile(percentile: FoundPercentile | None) -> str:
    """In milliseconds: `1.84`, or `0.600 to 56.0` where only bounds are known."""
    if percentile is None:
        return MISSING
    if percentile.latency_us is not None:
        return format_number(percentile.latency_us / 1000)
    low_ms, high_ms = percentile.low_us / 1000, percentile.high_us / 1000
    return f"{format_number(low_ms)} to {format_number(high_ms)}"
