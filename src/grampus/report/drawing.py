"""Axes and line charts, in the units of the drawing; templates put them on the page as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A chart in its own units: text of 11 of them is still readable on a phone.
CHART_WIDTH = 400
CHART_HEIGHT = 250
PLOT_LEFT, PLOT_RIGHT = 52.0, 390.0
PLOT_TOP, PLOT_BOTTOM = 10.0, 208.0
# Lines that can be told apart by their colour.
MAX_LINES = 6
MAX_TICKS = 7
# From coarse to fine: which multiples of a power of ten are on a logarithmic axis.
_LOG_STEPS = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
)


@dataclass(frozen=True)
class Tick:
    """A line of the grid and what stands beside it."""

    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """Values from `lowest` to `highest` lie from `start` to `end` of the drawing."""

    lowest: float
    highest: float
    start: float
    end: float
    is_logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where `value` lies; what is off the axis lies at its end."""
        inside = min(max(value, self.lowest), self.highest)
        if self.is_logarithmic:
            share = math.log(inside / self.lowest) / math.log(self.highest / self.lowest)
        else:
            share = (inside - self.lowest) / (self.highest - self.lowest)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> tuple[Tick, ...]:
        """Round values, at most MAX_TICKS."""
        values = (
            log_ticks(self.lowest, self.highest)
            if self.is_logarithmic
            else linear_ticks(self.lowest, self.highest)
        )
        return tuple(Tick(self.place(value), format_tick(value)) for value in values)


@dataclass(frozen=True)
class Dot:
    """A point of a line, and what it says when it is pointed at; hollow where it is doubtful."""

    x: float
    y: float
    text: str
    is_hollow: bool = False


@dataclass(frozen=True)
class Whisker:
    """Bounds, where no more is known than that a value lies between them."""

    x: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class ChartLine:
    """One line: `number` (from 0) decides its colour, `path` are its points in order."""

    number: int
    label: str
    path: str
    dots: tuple[Dot, ...]
    whiskers: tuple[Whisker, ...] = ()


@dataclass(frozen=True)
class LineChart:
    """A chart, and in `alternative` what it says to who does not see it."""

    title: str
    x_title: str
    y_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[ChartLine, ...]
    alternative: str


@dataclass(frozen=True)
class Charts:
    """Charts of one kind. `note` says what is not drawn, empty where all is."""

    drawn: tuple[LineChart, ...] = ()
    note: str = ""


def linear_ticks(lowest: float, highest: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from `lowest` to `highest`."""
    step = 10.0 ** math.floor(math.log10((highest - lowest) / MAX_TICKS))
    for factor in (1, 2, 5, 10):
        if (highest - lowest) / (step * factor) < MAX_TICKS:
            step *= factor
            break
    first, last = math.ceil(lowest / step), math.floor(highest / step)
    return [number * step for number in range(first, last + 1)]


def log_ticks(lowest: float, highest: float) -> list[float]:
    """Round values from `lowest` to `highest`, the finest choice of which there are not too many.

    An axis of many decades has only some of the powers of ten.
    """
    exponents = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    chosen: list[float] = []
    for steps in _LOG_STEPS:
        values = [step * 10.0**exponent for exponent in exponents for step in steps]
        inside = [float(f"{value:.6g}") for value in values if lowest <= value <= highest]
        if not chosen and len(inside) > MAX_TICKS:
            # The power 0 is kept: the value 1 is what ratios are seen against.
            every = math.ceil(len(inside) / MAX_TICKS)
            return [value for value in inside if round(math.log10(value)) % every == 0]
        if len(inside) > MAX_TICKS:
            break
        chosen = inside
    return chosen


def format_tick(value: float) -> str:
    """`0.05`, `20`, `12k`, `1.5M`."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10 * size or (unit == "M" and abs(value) >= size):
            return f"{value / size:.6g}{unit}"
    return f"{value:.6g}"


def axis_from_zero(values: Iterable[float], start: float, end: float) -> Axis:
    """A linear axis from 0 with some room above the highest value."""
    return Axis(0.0, max([0.0, *values]) * 1.05 or 1.0, start, end)


def log_axis_of(values: Sequence[float], start: float, end: float) -> Axis:
    """A logarithmic axis with some room on both sides; of values above 0."""
    lowest, highest = min(values, default=1.0), max(values, default=1.0)
    # At least a factor of two, so that noise does not fill the chart.
    room = max(1.15, math.sqrt(2.0 * lowest / highest))
    return Axis(lowest / room, highest * room, start, end, is_logarithmic=True)


def path_of(points: Iterable[tuple[float, float]]) -> str:
    """The points of an SVG polyline."""
    return " ".join(f"{x:g},{y:g}" for x, y in points)
