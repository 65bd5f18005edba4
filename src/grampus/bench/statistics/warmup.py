"""How many seconds at the beginning of a series are warm-up: MSER-5.

MSER-5 (White 1997; White, Cobb and Spratt 2000) leaves out as many batches of five seconds as make
the squared standard error of the mean of the rest smallest. It needs no parameter that somebody
would have to tune, and comparisons of truncation rules put it first or near it (Hoad, Robinson and
Davies 2010). Welch's moving average wants an eye; the rules that look for the first value beyond
some limit leave out too little of a slow warm-up. Two known weaknesses are met here:

- A stall is an outlier that MSER would gladly cut off together with all that came before it. So
  batches are clipped to the spread of the second half, and nothing is left out when the series does
  not begin unlike what is kept: a warm-up begins at the first second. Where there is a warm-up, a
  stall of five seconds behind it is still cut off with it in half of the cases; narrower clipping
  overlooks warm-ups.
- Near the end few batches are left, whose error may be small by chance. So at most half is left
  out, and at most what the caller allows; a minimum at that bound means that the warm-up was not
  seen to end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from grampus.bench.statistics.distributions import t_critical
from grampus.bench.statistics.figures import require_figures

BATCH_S = 5
# Batches that are needed to tell anything: those of half a minute.
MIN_BATCHES = 6
MAX_SHARE = 0.5
# The median deviation times this is the standard deviation of normal values.
MAD_TO_SIGMA = 1.4826
CLIP_SIGMAS = 3.0
# The chance that noise alone makes the first five seconds unlike the rest.
UNLIKE_LEVEL = 0.01
# A warm-up that changes less than this is not worth leaving anything out.
SMALLEST_UNLIKE = 0.02


@dataclass(frozen=True)
class WarmUp:
    """What to leave out; `ended` is false when the bound was reached before the warm-up's end."""

    leave_out_s: int
    ended: bool


def decide_warm_up(per_second: Sequence[float], *, max_leave_out_s: int | None = None) -> WarmUp:
    """The warm-up of a series of one figure a second.

    Leaves out a multiple of five seconds, at most half of the series and `max_leave_out_s`. A
    series of under 30 s is too short to tell: nothing is left out. Raises GrampusError for a figure
    that is not finite or negative.
    """
    require_figures(per_second, "The series")
    count = len(per_second) // BATCH_S
    if count < MIN_BATCHES:
        return WarmUp(0, ended=True)
    raw = _batch_means(per_second, count)
    means = _clipped(raw, per_second)
    bound = int(count * MAX_SHARE)
    if max_leave_out_s is not None:
        bound = min(bound, max_leave_out_s // BATCH_S)
    cut = min(range(bound + 1), key=lambda left_out: _squared_error(means[left_out:]))
    if cut == 0 or not _is_unlike(raw[0], means[cut:]):
        return WarmUp(0, ended=True)
    return WarmUp(cut * BATCH_S, ended=cut < bound)


def _batch_means(per_second: Sequence[float], count: int) -> list[float]:
    return [math.fsum(per_second[i * BATCH_S : (i + 1) * BATCH_S]) / BATCH_S for i in range(count)]


def _clipped(means: Sequence[float], per_second: Sequence[float]) -> list[float]:
    """The batches within the spread of those of the second half.

    Three batches say little of their spread: that of their seconds, were they independent, is the
    least that it can be.
    """
    level, of_batches = _level_and_spread(means[len(means) // 2 :])
    _, of_seconds = _level_and_spread(per_second[len(per_second) // 2 :])
    width = CLIP_SIGMAS * max(of_batches, of_seconds / math.sqrt(BATCH_S))
    # A series that hardly ever changes has no spread to be clipped to.
    return [min(max(value, level - width), level + width) for value in means] if width else [*means]


def _level_and_spread(values: Sequence[float]) -> tuple[float, float]:
    level = median(values)
    return level, MAD_TO_SIGMA * median([abs(value - level) for value in values])


def _squared_error(means: Sequence[float]) -> float:
    """The statistic of MSER: the sum of squares over the square of their number."""
    mean = math.fsum(means) / len(means)
    return math.fsum((value - mean) ** 2 for value in means) / len(means) ** 2


def _is_unlike(first: float, kept: Sequence[float]) -> bool:
    """Whether the first batch lies outside the prediction interval of those that are kept.

    Their deviation comes from the differences of neighbours (von Neumann 1941): a warm-up that goes
    on in what is kept would make the other one as large as itself.
    """
    count = len(kept)
    level = math.fsum(kept) / count
    squares = math.fsum((two - one) ** 2 for one, two in itertools.pairwise(kept))
    deviation = math.sqrt(squares / (count - 1) / 2)
    limit = t_critical(UNLIKE_LEVEL, count - 1) * deviation * math.sqrt(1 + 1 / count)
    return abs(first - level) > max(limit, SMALLEST_UNLIKE * level)
