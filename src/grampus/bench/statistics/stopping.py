"""Whether to measure further rounds: looks with a bounded error, and reasons to stop.

A look happens after each block of rounds. Its interval has the level that
`sequential_levels.nominal_levels` leaves to it, so all looks' intervals together hold the true
ratio with 95% (repeated confidence intervals, Jennison and Turnbull 1989): a run may stop at any of
them, for whatever reason, and its interval is still right. Stopping when a plain 95% interval is
narrow enough was refused: it stops when the noise has been underestimated by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.bench.statistics.distributions import t_critical
from grampus.bench.statistics.effect import SMALLEST_RELEVANT, Better, Effect, decide_effect
from grampus.bench.statistics.sequential_levels import nominal_levels, spend_by_rounds
from grampus.core.errors import UsageError

StopReason = Literal["decided", "narrow-enough", "futile", "rounds-spent", "time-spent"]

# Beyond the plausible effect lies the true one in a tenth of all cases, on that side.
FUTILITY_LEVEL = 0.2
# The limits of repeated looks are those of normal values. Student's t of a few rounds changes more
# from look to look, so that its looks together err in up to 1.25 times as much (simulated: 5.2 to
# 6.2% for 5%, from 6 to 60 rounds and from 1 to 5 rounds between looks).
SPENT_SHARE = 0.8


@dataclass(frozen=True)
class StoppingLimits:
    """When a comparison has had enough.

    Shares: `smallest_relevant` is the change that counts, `error` the chance of an error over all
    looks together, `wanted_half_width` half the width of an interval that is narrow enough, or None
    for whatever gives a verdict. `rounds_between_looks` is a block's (`rounds_in_block`), so that
    each look sees balanced orders. `budget_s` bounds the time, in seconds; None is no bound.
    """

    smallest_relevant: float = SMALLEST_RELEVANT
    min_rounds: int = 6
    max_rounds: int = 20
    rounds_between_looks: int = 2
    error: float = 0.05
    wanted_half_width: float | None = None
    budget_s: float | None = None

    def __post_init__(self) -> None:
        if not (2 <= self.min_rounds <= self.max_rounds and self.rounds_between_looks >= 1):
            raise UsageError(
                f"From {self.min_rounds} to {self.max_rounds} rounds with a look after every "
                f"{self.rounds_between_looks} cannot be measured.",
                "Ask for two rounds or more, as many at most as at least, and a look every round "
                "or more.",
            )


@dataclass(frozen=True)
class Continue:
    """Measure so many rounds more, then ask again. `effect` is what is known so far."""

    rounds: int
    effect: Effect


@dataclass(frozen=True)
class Stop:
    """No further round is worth its time. `effect` holds with the error of all looks."""

    reason: StopReason
    effect: Effect
    sentence: str


def look_rounds(limits: StoppingLimits) -> tuple[int, ...]:
    """After how many rounds the looks are."""
    step = limits.rounds_between_looks
    return (*range(limits.min_rounds, limits.max_rounds, step), limits.max_rounds)


def level_of_look(rounds: int, limits: StoppingLimits) -> float:
    """The level of a look after so many rounds, planned or forced by the end of the time.

    A look that was not planned is allowed where its moment does not depend on what was found (Lan
    and DeMets 1989): that the time is up does not. Raises UsageError below two rounds or beyond the
    last.
    """
    if not 2 <= rounds <= limits.max_rounds:
        raise UsageError(
            f"A look after {rounds} of at most {limits.max_rounds} rounds was not planned for.",
            "Look after two rounds or more, and not beyond the last.",
        )
    looks = (*(one for one in look_rounds(limits) if one < rounds), rounds)
    fractions = tuple(one / limits.max_rounds for one in looks)
    if looks == (limits.max_rounds,):
        return limits.error
    spendings = spend_by_rounds(looks, limits.max_rounds, error=limits.error * SPENT_SHARE)
    return nominal_levels(fractions, spendings)[-1]


def decide_next(
    pairs: Sequence[tuple[float, float]],
    limits: StoppingLimits,
    *,
    better: Better,
    elapsed_s: float = 0.0,
    resolution: float = 0.0,
) -> Continue | Stop:
    """What to do after the rounds whose (arm, baseline) figures are `pairs`.

    Between looks nothing is judged but the time: until the next one the expected end is that of
    rounds as long as those so far (`elapsed_s` together). Raises what `decide_effect` raises, and
    UsageError with more rounds than `max_rounds`.
    """
    count = len(pairs)
    level = level_of_look(count, limits) if count >= 2 else limits.error
    effect = decide_effect(
        pairs,
        better=better,
        smallest_relevant=limits.smallest_relevant,
        level=level,
        resolution=resolution,
    )
    looks = look_rounds(limits)
    if count in looks:
        found = _decide_look(pairs, effect, limits)
        if found is not None:
            return found
    more = next(rounds for rounds in looks if rounds > count) - count
    if limits.budget_s is not None and count:
        needed_s = elapsed_s / count * more
        if elapsed_s + needed_s > limits.budget_s:
            return Stop(
                "time-spent",
                effect,
                f"{count} rounds took {elapsed_s:.0f} s; {more} more would take about "
                f"{needed_s:.0f} s, beyond the budget of {limits.budget_s:.0f} s.",
            )
    return Continue(more, effect)


def _decide_look(
    pairs: Sequence[tuple[float, float]], effect: Effect, limits: StoppingLimits
) -> Stop | None:
    count = len(pairs)
    wanted = limits.wanted_half_width
    half_width = effect.half_width
    if wanted is None and effect.word != "undecided":
        return Stop("decided", effect, f"{count} rounds were enough for a verdict.")
    if wanted is not None and half_width is not None and half_width <= wanted:
        return Stop(
            "narrow-enough",
            effect,
            f"After {count} rounds the interval is ±{half_width:.1%}; ±{wanted:.1%} was wanted.",
        )
    if count >= limits.max_rounds:
        return Stop("rounds-spent", effect, f"All {count} rounds are measured.")
    expected = _expected_half_width(pairs, limits)
    if expected > _plausible_effect(pairs) and expected > math.log1p(
        limits.smallest_relevant if wanted is None else wanted
    ):
        return Stop(
            "futile",
            effect,
            f"Even after {limits.max_rounds} rounds the interval would be about "
            f"±{math.expm1(expected):.1%}: wider than what counts, and than any effect that the "
            f"{count} rounds so far let expect.",
        )
    return None


def _expected_half_width(pairs: Sequence[tuple[float, float]], limits: StoppingLimits) -> float:
    """On the log scale, after the last round, with the noise of the rounds so far."""
    rounds = limits.max_rounds
    deviation = _moments(pairs)[1]
    return t_critical(level_of_look(rounds, limits), rounds - 1) * deviation / math.sqrt(rounds)


def _plausible_effect(pairs: Sequence[tuple[float, float]]) -> float:
    mean, deviation = _moments(pairs)
    count = len(pairs)
    return abs(mean) + t_critical(FUTILITY_LEVEL, count - 1) * deviation / math.sqrt(count)


def _moments(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean and standard deviation of the log ratios."""
    logs = [math.log(arm / baseline) for arm, baseline in pairs]
    mean = math.fsum(logs) / len(logs)
    return mean, math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
