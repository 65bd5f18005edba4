"""Many comparisons in one run: which of the differences are to be believed together.

Of a hundred comparisons of equal things five are called better or worse. Two things are said of
that. Always, how many chance alone would give, beside how many were found: it needs no method and
misleads nobody. And for each difference, whether it remains when the share of false ones among
those that remain (the false discovery rate) is held to 5%, by the procedure of Benjamini and
Hochberg (1995). It holds also for comparisons that go up and down together because they share
a baseline or a machine (Benjamini and Yekutieli 2001).

Holding the chance of a single false one to 5% (Holm 1979) was refused: with a hundred cells it asks
for p < 0.0005, which six to ten rounds hardly ever reach, and a matrix is read as a whole, where
one false difference among twenty is no harm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.bench.statistics.stopping import StoppingLimits, look_rounds
from grampus.core.errors import GrampusError


@dataclass(frozen=True)
class Several:
    """`adjusted_p` and `remains` in the order of the comparisons; how many chance would give."""

    adjusted_p: tuple[float, ...]
    remains: tuple[bool, ...]
    expected_by_chance: float


def decide_several(
    p_values: Sequence[float], *, rate: float = 0.05, level: float = 0.05
) -> Several:
    """Which of the comparisons with these p-values remain at a false discovery rate of `rate`.

    `level` is that of each single verdict. Comparisons without a p-value (too few rounds) are not
    passed. Raises GrampusError (`not-a-figure`) for a p that is none.
    """
    for p in p_values:
        if not (math.isfinite(p) and 0 <= p <= 1):
            raise GrampusError(
                f"A comparison has the p-value {p}, which is not a probability.",
                "Leave comparisons without a p-value out.",
                code="not-a-figure",
            )
    count = len(p_values)
    adjusted = [1.0] * count
    lowest = 1.0
    descending = sorted(range(count), key=p_values.__getitem__, reverse=True)
    for place, index in enumerate(descending):
        lowest = min(lowest, p_values[index] * count / (count - place))
        adjusted[index] = lowest
    return Several(
        adjusted_p=tuple(adjusted),
        remains=tuple(p <= rate for p in adjusted),
        expected_by_chance=count * level,
    )


def p_over_looks(p: float, rounds: int, limits: StoppingLimits) -> float:
    """A p-value that holds although the rounds were looked at before and would have stopped there.

    The look's own p over its share of the error. Were all looks made, some look's value would be
    below u with probability u at most, by adding up the shares: exact for any u, and a little
    larger than need be. The share of a look is that of the rounds since the look before.
    """
    before = max((one for one in look_rounds(limits) if one < rounds), default=0)
    return min(1.0, p * limits.max_rounds / (rounds - before))


def render_several(several: Several, *, different: int, remaining: int) -> str:
    """One sentence under a table of comparisons of which so many are better or worse, and of those
    so many remain."""
    count = len(several.remains)
    if count < 2:
        return ""
    return (
        f"{different} of {count} comparisons are better or worse; if nothing differed, chance "
        f"alone would give up to {several.expected_by_chance:.1f}. {remaining} remain when at most "
        "5% of those that remain may be false."
    )
