"""Resource samples of many subjects, brought onto one grid of times and grouped into charts."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.report.figures import finite, finite_values, instant, mean
from grampus.state.runs import ResourceSample

ChartStyle = Literal["stacked", "lines"]
SubjectKind = Literal["daemon", "volume", "machine"]
TimedValues = Sequence[tuple[float, float]]  # (Unix time, value)
PickReading = Callable[[ResourceSample], float | None]

# More series than this cannot be told apart by eye; the rest is summed or left out, and counted.
MAX_SERIES = 16
# A sample stands for the time since the one before it, unless that is longer than this many
# typical intervals: then nobody looked meanwhile, and the time is shown as a hole.
GAP_INTERVALS = 3.0
# Other daemons than OSDs enter the I/O charts only above this share of the chart's peak.
NEGLIGIBLE_SHARE = 0.01
MEGABYTE = 1e6
GIBIBYTE = 1024**3
_FAMILY = re.compile(r"[a-z]+")
_DIGITS = re.compile(r"([0-9]{1,18})")


@dataclass(frozen=True)
class Grid:
    """`bins` equal bins of `step_s` seconds from `start_s` (Unix time)."""

    start_s: float
    step_s: float
    bins: int


@dataclass(frozen=True)
class Subject:
    """Who used a resource."""

    kind: SubjectKind
    name: str

    @property
    def family(self) -> str:
        """Subjects of one family get colours of one hue: `osd` for `osd-0@h1`."""
        if self.kind != "daemon":
            return self.kind
        match = _FAMILY.match(self.name)
        return match.group() if match else "other"


@dataclass(frozen=True)
class Series:
    """One line or layer of a chart, a value a bin of the grid; None is a hole."""

    label: str
    family: str
    y: tuple[float | None, ...]
    overlay: bool = False  # a line over a stack, and not part of it


@dataclass(frozen=True)
class ResourceChart:
    """A chart over the whole run. `left_out` counts the subjects that are not drawn."""

    key: str
    title: str
    unit: str
    style: ChartStyle
    series: tuple[Series, ...]
    left_out: int = 0


def decide_grid(samples: Sequence[ResourceSample], max_bins: int) -> Grid | None:
    """A grid over all samples, as fine as they are but of at most `max_bins` bins."""
    times = [[at for at, _ in points] for points in _points(samples, lambda _: 0.0).values()]
    if not times:
        return None
    interval_s = typical_interval_s(times)
    start_s = min(at_s[0] for at_s in times) - interval_s
    end_s = max(at_s[-1] for at_s in times)
    bins = max(1, min(max_bins, round((end_s - start_s) / interval_s)))
    return Grid(start_s, (end_s - start_s) / bins, bins)


def typical_interval_s(times: Iterable[Sequence[float]]) -> float:
    """The median step in the ascending series `times`; 1 s when there is no step at all."""
    steps = [
        later - earlier
        for at_s in times
        for earlier, later in itertools.pairwise(at_s)
        if later > earlier
    ]
    return statistics.median(steps) if steps else 1.0


def _points(samples: Sequence[ResourceSample], pick: PickReading) -> dict[Subject, TimedValues]:
    points: defaultdict[Subject, list[tuple[float, float]]] = defaultdict(list)
    for sample in samples:
        value = finite(pick(sample))
        at_s = instant(sample.at_s)
        if value is not None and at_s is not None:
            points[Subject(sample.kind, sample.name)].append((at_s, value))
    return {subject: sorted(found) for subject, found in points.items()}


def resample(points: TimedValues, grid: Grid) -> tuple[float | None, ...]:
    """The time-weighted mean in each bin of `grid` of the ascending `points`.

    A point is the mean over the time since the point before it (schema of ResourceSample), so
    the series is a step function, and its mean over a bin is exact. The first point, and one
    after a hole (GAP_INTERVALS), stands for one typical interval.
    """
    interval_s = typical_interval_s([[at for at, _ in points]])
    weighted = [0.0] * grid.bins
    covered_s = [0.0] * grid.bins
    before: float | None = None
    for at, value in points:
        known = before is not None and at - before <= GAP_INTERVALS * interval_s
        since = before if known and before is not None else at - interval_s
        before = at
        first = max(0, math.floor((since - grid.start_s) / grid.step_s))
        last = min(grid.bins - 1, math.floor((at - grid.start_s) / grid.step_s))
        for index in range(first, last + 1):
            bin_start = grid.start_s + index * grid.step_s
            overlap_s = min(at, bin_start + grid.step_s) - max(since, bin_start)
            if overlap_s > 0:
                weighted[index] += overlap_s * value
                covered_s[index] += overlap_s
    # A sliver of a neighbouring interval (clock jitter) must not stand for a whole bin.
    return tuple(
        finite(float(f"{total / seconds:.4g}")) if seconds >= 0.1 * grid.step_s else None
        for total, seconds in zip(weighted, covered_s, strict=True)
    )


def sum_series(parts: Sequence[Sequence[float | None]]) -> tuple[float | None, ...]:
    """The sum bin by bin; a hole counts as nothing, and holes in all parts stay a hole."""
    return tuple(
        finite(sum(kept)) if (kept := finite_values(column)) else None
        for column in zip(*parts, strict=True)
    )


def stacked_chart(
    samples: Sequence[ResourceSample],
    grid: Grid,
    *,
    key: str,
    title: str,
    unit: str,
    pick: PickReading,
) -> ResourceChart | None:
    """Daemons stacked by family, the machine as a line above; None without any figure."""
    found = _resampled(samples, pick, grid)
    layers = {subject: y for subject, y in found.items() if subject.kind == "daemon"}
    overlays = [
        Series("Whole machine" if subject.name == "machine" else subject.name, "machine", y, True)
        for subject, y in found.items()
        if subject.kind == "machine"
    ]
    kept, rest = _largest(layers, MAX_SERIES)
    series = [Series(subject.name, subject.family, y) for subject, y in kept.items()]
    if rest:
        series.append(Series(f"{len(rest)} others", "other", sum_series(list(rest.values()))))
    series.extend(overlays[:1])
    if not series:
        return None
    return ResourceChart(key, title, unit, "stacked", tuple(series))


def io_chart(
    samples: Sequence[ResourceSample],
    grid: Grid,
    *,
    key: str,
    title: str,
    unit: str,
    pick: PickReading,
) -> ResourceChart | None:
    """Lines of volumes, OSDs and every other daemon that does I/O worth seeing; None without."""
    found = {
        subject: y
        for subject, y in _resampled(samples, pick, grid).items()
        if subject.kind != "machine"
    }
    if not found:
        return None
    peak = max(_peak(y) for y in found.values())
    worth = {
        subject: y
        for subject, y in found.items()
        if subject.kind == "volume" or subject.family == "osd" or _peak(y) > NEGLIGIBLE_SHARE * peak
    }
    kept, rest = _largest(worth or found, MAX_SERIES)
    series = tuple(
        Series(
            f"volume {subject.name}" if subject.kind == "volume" else subject.name,
            subject.family,
            y,
        )
        for subject, y in kept.items()
    )
    left_out = len(rest) + len(found) - len(worth or found)
    return ResourceChart(key, title, unit, "lines", series, left_out)


def _resampled(
    samples: Sequence[ResourceSample], pick: PickReading, grid: Grid
) -> dict[Subject, tuple[float | None, ...]]:
    """Every subject's values on the grid, by kind, family and name."""
    order = {"volume": 0, "daemon": 1, "machine": 2}
    points = _points(samples, pick)
    subjects = sorted(points, key=lambda s: (order[s.kind], s.family, natural_key(s.name)))
    return {subject: resample(points[subject], grid) for subject in subjects}


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts `osd-2` before `osd-10`."""
    return tuple(
        (int(part), "") if _DIGITS.fullmatch(part) else (10**18, part)
        for part in _DIGITS.split(name)
        if part
    )


def _peak(values: Sequence[float | None]) -> float:
    return max(finite_values(values), default=0.0)


def _largest(
    series: Mapping[Subject, tuple[float | None, ...]], limit: int
) -> tuple[dict[Subject, tuple[float | None, ...]], dict[Subject, tuple[float | None, ...]]]:
    """The `limit` series with the highest means, and the rest; both in the given order."""
    ranked = sorted(series, key=lambda subject: mean(series[subject]) or 0.0, reverse=True)
    chosen = set(ranked[:limit])
    kept = {subject: y for subject, y in series.items() if subject in chosen}
    rest = {subject: y for subject, y in series.items() if subject not in chosen}
    return kept, rest


def resource_charts(
    samples: Sequence[ResourceSample], grid: Grid | None
) -> tuple[ResourceChart, ...]:
    """All charts that the samples have figures for."""
    if grid is None:
        return ()
    charts = (
        stacked_chart(
            samples,
            grid,
            key="cpu",
            title="CPU use by daemon",
            unit="cores",
            pick=lambda sample: sample.cpu_cores,
        ),
        stacked_chart(
            samples,
            grid,
            key="memory",
            title="Memory by daemon",
            unit="GiB",
            pick=lambda sample: _scaled(sample.memory_bytes, GIBIBYTE),
        ),
        io_chart(
            samples,
            grid,
            key="read-iops",
            title="Read operations",
            unit="IOPS",
            pick=lambda sample: sample.read_iops,
        ),
        io_chart(
            samples,
            grid,
            key="write-iops",
            title="Write operations",
            unit="IOPS",
            pick=lambda sample: sample.write_iops,
        ),
        io_chart(
            samples,
            grid,
            key="read-rate",
            title="Read throughput",
            unit="MB/s",
            pick=lambda sample: _scaled(sample.read_bytes_per_s, MEGABYTE),
        ),
        io_chart(
            samples,
            grid,
            key="write-rate",
            title="Write throughput",
            unit="MB/s",
            pick=lambda sample: _scaled(sample.write_bytes_per_s, MEGABYTE),
        ),
    )
    return tuple(chart for chart in charts if chart is not None)


def _scaled(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor
