"""Whether a series of one figure a second was in a steady state, and how much longer to measure.

A mean says something about what comes next only when the series has no trend, no change of level,
and holds enough of its stalls (checkpoints, compactions) that one more or less does not matter.

- **Trend**: the test of Mann (1945) and Kendall, with the slope of Theil and Sen (1968) and its
  interval. Ranks, because throughput has stalls and bursts that would decide a regression.
- **Change of level**: the test of Pettitt (1979), the same for one step at an unknown second.
- Seconds depend on those before them, which makes both call nearly everything a trend. Their
  variance is multiplied by what a first-order autoregression would make of it (Bayley and
  Hammersley 1946; for Mann-Kendall: Yue and Wang 2004), with the autocorrelation of the ranks of
  what the trend, or the step, leaves over (as Hamed and Rao 1998 do), corrected for its bias in a
  short series (Kendall 1954): `rank_tests`. Refused: prewhitening, which takes a part of the trend
  away with the noise; unit-root tests (KPSS), which need hundreds of points and ask for something
  else; limits for the coefficient of variation of windows, which know neither direction nor chance.
- A significant trend of 1% harms nobody, and a series that is too short hides one of 30%. So a
  finding must also exceed `tolerance`, and a series is called steady only when the whole interval
  of the trend lies within `hidden`: steadiness is shown, not assumed when nothing else is found.

Both tests get half of the error, so that a steady series is called otherwise in about 5%, and no
more. How often which series is called what: `docs/proof/verdicts.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from grampus.bench.statistics.figures import require_figures
from grampus.bench.statistics.rank_tests import StepChange, Trend, find_step, find_trend
from grampus.bench.statistics.warmup import WarmUp, decide_warm_up
from grampus.core.errors import UsageError

SteadyWord = Literal["steady", "extend", "unsteady"]
Cause = Literal["none", "short", "warm-up", "idle", "trend", "step", "stalls", "noise"]

# The tests compare all pairs: longer series are averaged down to so many points.
MAX_POINTS = 100
# MSER takes the beginning of a trend for a warm-up: what is left must outweigh what is not.
MAX_WARM_UP_SHARE = 1 / 3
STALL_SHARE = 0.5  # of the median: less in a second is a stall
MIN_EXTENSION_S = 10


@dataclass(frozen=True)
class SteadyLimits:
    """What counts as steady; shares of the median throughput.

    `tolerance`: the two halves of the series may differ by this much, and a stall more or less may
    change the mean by it. `hidden`: a larger difference between the halves must be ruled out.
    `error`: the chance of calling a steady series anything else for its trend or level. Seconds:
    `min_s` before anything is judged, `max_s` for the longest series, its warm-up included.
    """

    tolerance: float = 0.05
    hidden: float = 0.10
    error: float = 0.05
    min_s: int = 30
    max_s: int = 300

    def __post_init__(self) -> None:
        if not (
            0 < self.tolerance < 1
            and 0 < self.hidden < 1
            and 0 < self.error < 1
            and 10 <= self.min_s <= self.max_s
        ):
            raise UsageError(
                "These limits of a steady state contradict each other or are not shares.",
                "Give shares between 0 and 1, and at least 10 s, not more at least than at most.",
            )


@dataclass(frozen=True)
class Steadiness:
    """The verdict, with `reason` in words.

    `extend_s` is above 0 for `extend` alone: measure so many seconds more, and ask again with the
    whole series. `leave_out_s` is the warm-up at the beginning. `drift` is by how much the second
    half differs from the first along the trend, as a share, `could_be` the end of its interval that
    is further from 0, without a sign; None where they could not be told.
    """

    word: SteadyWord
    cause: Cause
    reason: str
    leave_out_s: int = 0
    extend_s: int = 0
    drift: float | None = None
    could_be: float | None = None


@dataclass(frozen=True)
class _Finding:
    """Why a series is not called steady yet, and how long it would have to be."""

    cause: Cause
    reason: str
    wanted_s: float


def decide_measuring(per_second: Sequence[float], limits: SteadyLimits) -> Steadiness:
    """Leave out the warm-up, judge the rest, and say whether to go on.

    `per_second` is the whole series from its first second on, of every extension too. Never asks
    for more than `max_s` in all. Raises GrampusError (`not-a-figure`) for a figure that is not
    finite or negative.
    """
    require_figures(per_second, "The series")
    if len(per_second) < limits.min_s:
        missing_s = limits.min_s - len(per_second)
        reason = f"{len(per_second)} s are too short to judge."
        return Steadiness("extend", "short", reason, extend_s=missing_s)
    warm_up = decide_warm_up(per_second, max_leave_out_s=limits.max_s // 2)
    # What seems to be a warm-up without an end may be a trend: then all of it is judged.
    leave_out_s = warm_up.leave_out_s if warm_up.ended else 0
    kept = per_second[leave_out_s:]
    level = median(kept)
    points = _averaged(kept)
    if level == 0:
        return Steadiness(
            "unsteady",
            "idle",
            "In half of the seconds or more nothing was done at all.",
            leave_out_s=leave_out_s,
        )
    trend = find_trend(points, level=limits.error / 2)
    drift, could_be = trend.drift, abs(trend.drift) + trend.half_width
    finding = (
        _find_change(trend, find_step(points), len(per_second), limits)
        or _find_warm_up(warm_up, len(per_second))
        or _find_stalls(kept, level, limits)
        or _find_noise(could_be, len(kept), limits)
    )
    shown = could_be if math.isfinite(could_be) else None
    if finding is None:
        reason = (
            f"No trend, step or stall changes the throughput by more than {limits.tolerance:.0%}; "
            f"the halves differ by {could_be:.0%} at most."
        )
        return Steadiness("steady", "none", reason, leave_out_s, 0, drift, shown)
    room_s = limits.max_s - len(per_second)
    if room_s <= 0:
        reason = f"{finding.reason} That was so after {len(per_second)} s, the longest allowed."
        return Steadiness("unsteady", finding.cause, reason, leave_out_s, 0, drift, shown)
    missing = finding.wanted_s + leave_out_s - len(per_second)
    extend_s = min(room_s, max(MIN_EXTENSION_S, math.ceil(min(missing, room_s))))
    return Steadiness("extend", finding.cause, finding.reason, leave_out_s, extend_s, drift, shown)


def _find_warm_up(warm_up: WarmUp, measured_s: int) -> _Finding | None:
    if not warm_up.ended:
        return _Finding("warm-up", "The warm-up was not seen to end.", 2.0 * measured_s)
    if warm_up.leave_out_s <= MAX_WARM_UP_SHARE * measured_s:
        return None
    reason = f"The warm-up took {warm_up.leave_out_s} of {measured_s} s: what is left is too short."
    return _Finding("warm-up", reason, warm_up.leave_out_s / MAX_WARM_UP_SHARE)


def _find_change(
    trend: Trend, step: StepChange, measured_s: int, limits: SteadyLimits
) -> _Finding | None:
    """A trend or a step that is neither chance nor small."""
    level = limits.error / 2
    trend_found = trend.p <= level and abs(trend.drift) > limits.tolerance
    step_found = step.p <= level and abs(step.height) > limits.tolerance
    if step_found and (not trend_found or step.p < trend.p):
        direction = "rose" if step.height > 0 else "fell"
        reason = (
            f"The throughput {direction} by {abs(step.height):.0%} at once, about "
            f"{step.place:.0%} into what was measured."
        )
        return _Finding("step", reason, 2.0 * measured_s)
    if not trend_found:
        return None
    direction = "rose" if trend.drift > 0 else "fell"
    reason = (
        f"The throughput {direction} by {abs(trend.drift):.0%} from the first half to the second."
    )
    return _Finding("trend", reason, 2.0 * measured_s)


def _find_stalls(kept: Sequence[float], level: float, limits: SteadyLimits) -> _Finding | None:
    """Too few stalls to know their share.

    Stalls that come by chance (Poisson) and cost c1, c2, ... make a sum with the variance
    c1² + c2² + ...; those that come at equal times vary less, which errs on the safe side.
    """
    costs = _stall_costs(kept, level)
    deviation = math.sqrt(math.fsum(cost * cost for cost in costs)) / (level * len(kept))
    if deviation <= limits.tolerance:
        return None
    lost = math.fsum(costs) / (level * len(kept))
    stalls = f"{len(costs)} stall{'' if len(costs) == 1 else 's'}"
    reason = (
        f"{stalls} took {lost:.0%} of the throughput, too few to know their share: by chance it "
        f"may be {deviation:.0%} more or less."
    )
    return _Finding("stalls", reason, len(kept) * (deviation / limits.tolerance) ** 2)


def _find_noise(could_be: float, kept_s: int, limits: SteadyLimits) -> _Finding | None:
    if could_be <= limits.hidden:
        return None
    if not math.isfinite(could_be):
        reason = "The seconds differ and depend on each other too much to see any trend."
        return _Finding("noise", reason, 2.0 * kept_s)
    reason = (
        f"The seconds are so uneven that a difference of up to {could_be:.0%} between the halves "
        "cannot be ruled out."
    )
    return _Finding("noise", reason, kept_s * (could_be / limits.hidden) ** 2)


def _averaged(kept: Sequence[float]) -> list[float]:
    """At most MAX_POINTS means of equally many seconds; what is left over is left out in front."""
    width = math.ceil(len(kept) / MAX_POINTS)
    begin = len(kept) % width
    return [
        math.fsum(kept[place : place + width]) / width for place in range(begin, len(kept), width)
    ]


def _stall_costs(kept: Sequence[float], level: float) -> list[float]:
    """What each stall, of one second or several in a row, lost against the median."""
    costs: list[float] = []
    in_stall = False
    for value in kept:
        if value >= STALL_SHARE * level:
            in_stall = False
            continue
        if not in_stall:
            costs.append(0.0)
        in_stall = True
        costs[-1] += level - value
    return costs
