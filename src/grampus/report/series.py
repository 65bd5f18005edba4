"""Second-by-second samples of a workload as lines of a chart, both arms on one axis."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grampus.report.figures import finite, finite_values, instant, mean
from grampus.state.runs import ArmName, OltpSample

PickFigure = Callable[[OltpSample], float]
Reduce = Callable[[Sequence[float | None]], float | None]

# A hole wider than this many typical steps is drawn as a hole.
GAP_STEPS = 2.5


@dataclass(frozen=True)
class ArmLine:
    """One arm in one chart. `x_s` is seconds since the arm's first sample; y None is a hole."""

    arm: ArmName
    x_s: tuple[float, ...]
    y: tuple[float | None, ...]
    seconds_a_point: int  # how many samples one point stands for
    warmup_s: float | None  # where the measuring time began, on x; None when there was none


@dataclass(frozen=True)
class Summary:
    """The lowest, mean and highest value of a line; None when it has no value."""

    lowest: float | None
    mean: float | None
    highest: float | None


def highest(values: Sequence[float | None]) -> float | None:
    """The highest finite value, or None."""
    return max(finite_values(values), default=None)


def summarise(values: Sequence[float | None]) -> Summary:
    """Lowest, mean and highest of the finite values."""
    kept = finite_values(values)
    return Summary(min(kept, default=None), mean(kept), max(kept, default=None))


def offsets_s(at_s: Sequence[float]) -> list[float]:
    """Seconds since the first of the ascending `at_s`.

    Whole seconds where that keeps all apart: then both arms share their points, and the
    chart's cursor reads both at once. Tenths otherwise.
    """
    if not at_s:
        return []
    exact = [at - at_s[0] for at in at_s]
    whole = [float(round(offset)) for offset in exact]
    return whole if len(set(whole)) == len(whole) else [round(offset, 1) for offset in exact]


def warmup_end_s(samples: Sequence[OltpSample], started_at_s: float) -> float | None:
    """Seconds from the first sample to the start of measuring; None when it is not after it."""
    times = finite_values(instant(sample.at_s) for sample in samples)
    started = instant(started_at_s)
    if not times or started is None:
        return None
    offset_s = started - min(times)
    # A start after the last sample can only be a wrong clock: nothing sensible to shade.
    return round(offset_s, 1) if 0 < offset_s <= max(times) - min(times) else None


def arm_line(
    arm: ArmName,
    samples: Sequence[OltpSample],
    started_at_s: float,
    pick: PickFigure,
    reduce: Reduce,
    max_points: int,
) -> ArmLine | None:
    """The line of one arm with at most about `max_points` points, or None without samples.

    `reduce` makes one value of several when there are more samples than points: the mean
    for rates, the highest for percentiles, which must not be averaged.
    """
    usable = sorted((s for s in samples if instant(s.at_s) is not None), key=lambda s: s.at_s)
    if not usable:
        return None
    size = max(1, math.ceil(len(usable) / max(1, max_points)))
    x_s = offsets_s([sample.at_s for sample in usable])
    points = [
        (x_s[start], reduce([finite(pick(sample)) for sample in usable[start : start + size]]))
        for start in range(0, len(usable), size)
    ]
    with_gaps = insert_gaps(points)
    return ArmLine(
        arm=arm,
        x_s=tuple(x for x, _ in with_gaps),
        y=tuple(None if y is None else float(f"{y:.5g}") for _, y in with_gaps),
        seconds_a_point=size,
        warmup_s=warmup_end_s(usable, started_at_s),
    )


def insert_gaps(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """The points with a hole (None) put between neighbours that lie too far apart."""
    steps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(points)]
    positive = [step for step in steps if step > 0]
    if not positive:
        return list(points)
    widest = GAP_STEPS * statistics.median(positive)
    filled: list[tuple[float, float | None]] = []
    for index, point in enumerate(points):
        if index and steps[index - 1] > widest:
            filled.append((round((points[index - 1][0] + point[0]) / 2, 2), None))
        filled.append(point)
    return filled


def arm_lines(
    samples: Mapping[ArmName, Sequence[OltpSample]],
    started_at_s: Mapping[ArmName, float],
    pick: PickFigure,
    reduce: Reduce,
    max_points: int,
) -> tuple[ArmLine, ...]:
    """The lines of the arms that have samples, in the order of `samples`."""
    lines = (
        arm_line(arm, kept, started_at_s[arm], pick, reduce, max_points)
        for arm, kept in samples.items()
    )
    return tuple(line for line in lines if line is not None)
