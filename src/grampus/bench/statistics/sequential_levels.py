"""At which level each of several looks may test, so that all of them together err in 5%.

Whoever looks after each round and stops at the first significant difference errs in far more than
5% (Armitage, McPherson and Rowe 1969). The error is spent over the looks instead (Lan and DeMets
1983), here in proportion to the rounds (Kim and DeMets 1987, exponent 1): each round may spend the
same share. The spending function of O'Brien and Fleming, usual in medicine, keeps nearly all of the
error for the end, so that with six rounds of twenty even a clear result of a quiet machine could
not stop the run; and time is what a benchmark is short of.

What is spent decides the limits by the recursion of Armitage, McPherson and Rowe: the density of
the sum of a Brownian motion that no earlier look has stopped, integrated by Simpson's rule. The
limits are used as levels of Student's t (Jennison and Turnbull 2000, chapter 4.4), as few rounds
need. That is an approximation; `stopping` says by how much less has to be spent for it, and `make
verdicts` tests it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

_INTERVALS = 120  # of Simpson's rule, even
_HALVINGS = 60


def spend_by_rounds(looks: Sequence[int], max_rounds: int, *, error: float) -> tuple[float, ...]:
    """What each look may spend of `error`: in proportion to the rounds since the look before."""
    before = (0, *looks)
    return tuple(
        error * (rounds - earlier) / max_rounds
        for earlier, rounds in zip(before, looks, strict=False)
    )


@lru_cache(maxsize=1024)
def nominal_levels(fractions: tuple[float, ...], spendings: tuple[float, ...]) -> tuple[float, ...]:
    """The two-sided level of each look's own test.

    `fractions` are the shares of the whole information at each look, ascending, at most 1;
    `spendings` what each may spend. Raises ValueError when they cannot be meant.
    """
    if len(fractions) != len(spendings) or not fractions:
        raise ValueError("as many fractions as spendings are needed, and one at least")
    if sorted(set(fractions)) != list(fractions) or fractions[0] <= 0 or fractions[-1] > 1:
        raise ValueError(f"fractions ascend from above 0 to 1 at most, unlike {fractions}")
    points: list[float] = [0.0]
    weights: list[float] = [1.0]  # density times Simpson's weight; at the start all is at 0
    before = 0.0
    levels = []
    for fraction, spending in zip(fractions, spendings, strict=True):
        deviation = math.sqrt(fraction - before)
        limit = _limit(points, weights, deviation, spending, 10 * math.sqrt(fraction))
        levels.append(math.erfc(limit / math.sqrt(2 * fraction)))
        points, weights = _go_on(points, weights, deviation, limit)
        before = fraction
    return tuple(levels)


def _limit(
    points: list[float], weights: list[float], deviation: float, spending: float, high: float
) -> float:
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = math.fsum(
            weight
            * (
                math.erfc((middle - point) / (deviation * math.sqrt(2)))
                + math.erfc((middle + point) / (deviation * math.sqrt(2)))
            )
            / 2
            for point, weight in zip(points, weights, strict=True)
        )
        if beyond > spending:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _go_on(
    points: list[float], weights: list[float], deviation: float, limit: float
) -> tuple[list[float], list[float]]:
    """The density of what stays within the limit, on a new grid."""
    step = 2 * limit / _INTERVALS
    new_points = [-limit + step * number for number in range(_INTERVALS + 1)]
    new_weights = []
    for number, new_point in enumerate(new_points):
        density = math.fsum(
            weight * math.exp(-(((new_point - point) / deviation) ** 2) / 2)
            for point, weight in zip(points, weights, strict=True)
        ) / (deviation * math.sqrt(2 * math.pi))
        simpson = 1 if number in (0, _INTERVALS) else 4 if number % 2 else 2
        new_weights.append(density * simpson * step / 3)
    return new_points, new_weights
