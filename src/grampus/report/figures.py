"""Figures as text: counts, times, ratios, instants. A figure that is missing reads as a dash."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

MISSING = "\N{EN DASH}"
YEAR_10000_S = 253_402_300_800


def finite(value: float | None) -> float | None:
    """`value`, or None when it is missing, NaN or infinite."""
    return None if value is None or not math.isfinite(value) else float(value)


def instant(at_s: float | None) -> float | None:
    """A Unix time, or None when it is missing, negative or beyond the year 9999."""
    number = finite(at_s)
    return number if number is not None and 0 <= number < YEAR_10000_S else None


def finite_values(values: Iterable[float | None]) -> list[float]:
    """The values that are there and finite, in order."""
    return [value for value in values if value is not None and math.isfinite(value)]


def mean(values: Iterable[float | None]) -> float | None:
    """The arithmetic mean of the finite values, or None when there is none."""
    kept = finite_values(values)
    return finite(sum(kept) / len(kept)) if kept else None


def format_number(value: float | None) -> str:
    """Three significant digits, and the whole part in full: `0.0123`, `4.57`, `12,346`."""
    number = finite(value)
    if number is None:
        return MISSING
    if number == 0:
        return "0"
    # Rounding may carry into the next power of ten (9.996 -> 10.0), so round before counting.
    rounded = float(f"{number:.3g}")
    magnitude = math.floor(math.log10(abs(rounded)))
    decimals = max(0, 2 - magnitude)
    if decimals > 6:
        return f"{number:.2e}"
    return f"{number:,.{decimals}f}"


def format_percent(share: float | None) -> str:
    """A share (1 is all) in percent: `23%`, `4.6%`, `0.21%`, `less than 0.01%`."""
    number = finite(share)
    if number is None:
        return MISSING
    percent = number * 100
    if percent == 0:
        return "0%"
    if 0 < percent < 0.01:
        return "less than 0.01%"
    if abs(percent) < 0.995:
        return f"{percent:.2f}%"
    return f"{percent:.1f}%" if abs(percent) < 9.95 else f"{percent:,.0f}%"


def format_times(ratio: float | None) -> str:
    """A ratio as a factor, without a unit: `0.23`, `1.03`, `4.1`, `118`."""
    number = finite(ratio)
    if number is None:
        return MISSING
    if 0 < number < 0.0995:
        return (
            f"{number:.{1 - math.floor(math.log10(number))}f}" if number >= 1e-6 else "below 1e-6"
        )
    if abs(number) < 1.995:
        return f"{number:.2f}"
    return f"{number:.1f}" if abs(number) < 9.95 else f"{number:,.0f}"


def format_duration(seconds: float | None) -> str:
    """`850 ms`, `12.5 s`, `42 s`, `3 min 20 s`, `2 h 5 min`; a negative duration is missing."""
    number = finite(seconds)
    if number is None or number < 0:
        return MISSING
    if number == 0:
        return "0 s"
    if number < 0.9995:
        return f"{number * 1000:.0f} ms"
    if number < 59.95:
        return f"{number:.1f}".removesuffix(".0") + " s"
    whole = round(number)
    minutes, rest_s = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    hours, minutes = divmod(round(number / 60), 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def format_clock(seconds: float | None) -> str:
    """Seconds since a start as `m:ss` or `h:mm:ss`."""
    number = finite(seconds)
    if number is None:
        return MISSING
    sign = "-" if round(number) < 0 else ""
    minutes, rest_s = divmod(abs(round(number)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02}:{rest_s:02}" if hours else f"{sign}{minutes}:{rest_s:02}"


def format_utc(at_s: float | None) -> str:
    """A Unix time as `2026-03-01 14:05:09 UTC`; zero and impossible times are missing."""
    number = instant(at_s)
    if not number:
        return MISSING
    return datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def join_words(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    listed = list(words)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"
