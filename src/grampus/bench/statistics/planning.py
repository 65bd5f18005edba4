"""How many rounds, and how long trials, would have decided a comparison, from its own noise.

The rounds that were made are the pilot. What their log ratios vary by has two parts: that trials
were short, which falls with their length, and the rest (the machine's other work, environments),
which only more rounds average out. The first is estimated from the seconds of the trials, whose
dependence counts (`rank_tests.inflation`), and never as more than the whole.

The number of rounds is the smallest for which the half-width of the interval and the quantile for
the power fit into the margin: (t(level, n - 1) + t(2 (1 - power), n - 1)) s / sqrt(n) <= margin, as
in `effect.Effect.detectable`. The margin is the distance of what was found to the nearest limit of
the conclusion, so it is as uncertain as what was found: a plan for the next run, no promise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from grampus.bench.statistics.distributions import t_critical
from grampus.bench.statistics.effect import POWER
from grampus.bench.statistics.rank_tests import inflation

# A suite has no more rounds (`matrix/suite.py`).
MOST_ROUNDS = 99
# Trials are planned as long as they were, or as many times as long.
LENGTHS = (1, 2, 4, 8)
MIN_SECONDS = 5


@dataclass(frozen=True)
class Needed:
    """So many rounds with trials of so many seconds; `short_share` of the variance between rounds
    (0 to 1) came of the trials being short, None where that is not known."""

    rounds: int
    measure_s: int
    short_share: float | None


def relative_error(per_second: Sequence[float]) -> float | None:
    """The standard error of the mean of a trial's seconds, as a share of it; None where they are
    too few, or their mean is 0."""
    count, mean = len(per_second), fmean(per_second) if per_second else 0.0
    if count < MIN_SECONDS or mean <= 0:
        return None
    residuals = [value - mean for value in per_second]
    return math.sqrt(variance(per_second) * inflation(residuals) / count) / mean


def decide_margin(ratio: float, at_least: float | None, at_most: float | None) -> float:
    """How far the logarithm of `ratio` is from the nearest limit on either side of it.

    Beyond one limit it is the distance to that one, and to lie within both takes both.
    """
    gaps = [
        math.log(ratio / limit) * sign
        for limit, sign in ((at_least, 1), (at_most, -1))
        if limit is not None and limit > 0
    ]
    beyond = [-gap for gap in gaps if gap < 0]
    return max(beyond) if beyond else min(gaps, default=0.0)


def decide_needed(
    pairs: Sequence[tuple[float, float]],
    margin: float,
    *,
    level: float,
    errors: Sequence[float],
    measure_s: float,
    beside_s: float,
) -> Needed | None:
    """The rounds that would decide it four times in five, in the least time.

    `pairs` are the figures of the rounds, `errors` the relative errors of the trials of both arms
    (`relative_error`), none where they are not known: trials are then not planned longer.
    `beside_s` is what a trial takes beside its measuring. None: with fewer than two rounds, and
    where nothing within MOST_ROUNDS and LENGTHS would do.
    """
    logs = [math.log(arm / baseline) for arm, baseline in pairs]
    if len(logs) < 2 or margin <= 0:
        return None
    whole = variance(logs)
    # A round's ratio has the errors of two trials.
    short = min(whole, 2 * fmean(error * error for error in errors)) if errors else 0.0
    share = short / whole if errors and whole > 0 else None
    plans = []
    for times in LENGTHS if errors else LENGTHS[:1]:
        rounds = _decide_rounds(whole - short + short / times, margin, level)
        if rounds is not None:
            plans.append((rounds * (beside_s + times * measure_s), rounds, times))
    if not plans:
        return None
    _, rounds, times = min(plans)
    return Needed(rounds, round(times * measure_s), share)


def _decide_rounds(spread: float, margin: float, level: float) -> int | None:
    """Rounds whose log ratios have the variance `spread`."""
    for count in range(2, MOST_ROUNDS + 1):
        quantiles = t_critical(level, count - 1) + t_critical(2 * (1 - POWER), count - 1)
        if quantiles * math.sqrt(spread / count) <= margin:
            return count
    return None
