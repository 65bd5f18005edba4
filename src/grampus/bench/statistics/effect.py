"""The effect of an arm against a baseline, from rounds that measured both.

The two figures of a round share the machine's state of those minutes, so that only their ratio is
used; and a ratio is symmetric on the log scale alone, where twice and half are equally far from 1.
The interval is Student's over the rounds' log ratios. It assumes normal log ratios. Where both
arms are alike these are symmetric about 0 whatever the noise is, and Student's t is then on the
safe side with heavy tails: a stalled round widens the interval more than it moves it. Because that
is a claim, `tests/proof/verdicts` tests it; and with 12 rounds or fewer a difference must also pass
the exact test by permutation (Fisher 1935: all the signs that the log ratios could have had), which
assumes nothing but that symmetry, as soon as there are rounds enough for it to be able to pass.

A bootstrap was refused: with a dozen values its intervals are too narrow. So was the median between
order statistics, which `bench/paths` uses: right whatever the distribution, and narrower where many
rounds are ruined, but with normal noise its interval is a quarter (6 and 20 rounds) to three
quarters (8 rounds) wider, and there is none of 99%, as repeated looks need, before eight rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grampus.bench.statistics.distributions import t_critical, t_two_sided
from grampus.bench.statistics.figures import require_positive
from grampus.core.errors import UsageError
from grampus.core.units import format_digits

Better = Literal["more", "less"]
Word = Literal["better", "worse", "no-difference", "undecided"]

# Of a fair chance to be shown: what is called detectable is shown four times in five.
POWER = 0.8
MAX_PERMUTED_ROUNDS = 12
SMALLEST_RELEVANT = 0.03


@dataclass(frozen=True)
class Effect:
    """The ratio of an arm's figures to a baseline's, and what it lets one say.

    `ratio` is the geometric mean of the rounds' ratios; None without rounds. `low` and `high` are
    its interval, None with fewer than two rounds. `level` is the chance of error of that interval:
    0.05, or less where it was looked at repeatedly. `detectable` is the smallest change, as a share
    (0.03 is 3%), that so many rounds of such noise show four times in five. `p` is that of this
    look alone (`several.p_over_looks`); `permutation_p` is None with more than 12 rounds.
    """

    word: Word
    ratio: float | None
    low: float | None
    high: float | None
    level: float
    rounds: int
    smallest_relevant: float
    p: float | None = None
    permutation_p: float | None = None
    detectable: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the interval's width, as a share: 0.02 when it is the ratio times or over 1.02."""
        if self.low is None or self.high is None:
            return None
        return math.sqrt(self.high / self.low) - 1


def decide_effect(
    pairs: Sequence[tuple[float, float]],
    *,
    better: Better,
    smallest_relevant: float = SMALLEST_RELEVANT,
    level: float = 0.05,
    resolution: float = 0.0,
) -> Effect:
    """The effect that the rounds' (arm, baseline) figures show.

    A figure is a throughput, or a latency percentile of the round's merged histogram (never a mean
    of percentiles), or a cost; `better` says whether more or less of it is. What is compared is the
    typical round: an arm whose rounds differ by 12% has a geometric mean that is 0.7% below its
    arithmetic one. A latency is only as
    exact as its histogram's buckets are narrow: `resolution` (0.018 for buckets 1.8% apart) widens
    the interval by that much on both sides, since all rounds may fall into the same two buckets.

    - `better`, `worse`: the interval leaves out 1. That may be by less than `smallest_relevant`.
    - `no-difference`: the interval lies within 1/(1 + smallest_relevant) and 1 + smallest_relevant.
    - `undecided`: neither, or fewer than two rounds.

    Raises GrampusError for a figure that is not finite, negative (`not-a-figure`) or zero
    (`no-throughput`), UsageError for a level or share out of range.
    """
    _require_shares(smallest_relevant, level, resolution)
    require_positive([arm for arm, _ in pairs], "The arm")
    require_positive([baseline for _, baseline in pairs], "The baseline")
    logs = [math.log(arm / baseline) for arm, baseline in pairs]
    count = len(logs)
    if count < 2:
        ratio = math.exp(logs[0]) if logs else None
        return Effect("undecided", ratio, None, None, level, count, smallest_relevant)
    mean = math.fsum(logs) / count
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (count - 1) / count)
    if error < 1e-12 * max(1.0, abs(mean)):
        error = 0.0  # equal ratios, but for rounding
    half = t_critical(level, count - 1) * error + math.log1p(resolution)
    p = t_two_sided(mean / error, count - 1) if error else float(abs(mean) < 1e-12)
    permutation_p = permutation_test(logs) if count <= MAX_PERMUTED_ROUNDS else None
    low, high = mean - half, mean + half
    return Effect(
        word=_word(logs, low, high, level, permutation_p, better, smallest_relevant),
        ratio=math.exp(mean),
        low=math.exp(low),
        high=math.exp(high),
        level=level,
        rounds=count,
        smallest_relevant=smallest_relevant,
        p=p,
        permutation_p=permutation_p,
        detectable=math.expm1(half + t_critical(2 * (1 - POWER), count - 1) * error),
    )


def permutation_test(logs: Sequence[float]) -> float:
    """How often signs drawn by chance make a sum as far from 0 as that of `logs`: exact.

    The least that it can be is 2 / 2**rounds: with five rounds nothing passes at 5%. Takes half of
    the 2**rounds sums, since the others are these with the other sign. Of no values it is 1.
    """
    sums = [math.fsum(logs[:1])]
    for value in logs[1:]:
        sums = [total + value for total in sums] + [total - value for total in sums]
    # Sums of the same values in another order differ in their last bits.
    found = abs(math.fsum(logs)) - 1e-12 * math.fsum(abs(value) for value in logs)
    return sum(abs(total) >= found for total in sums) / len(sums)


def render_effect(effect: Effect, *, better: Better, error: float = 0.05) -> str:
    """A sentence: "better: 4.1% more (95% interval 2.0% more to 6.2% more, 8 rounds)."."

    `error` is that over all looks (`StoppingLimits.error`), not the level of this one.
    """
    if effect.ratio is None:
        return "undecided: no round measured both."
    rounds = f"{effect.rounds} round{'' if effect.rounds == 1 else 's'}"
    if effect.low is None or effect.high is None:
        return f"undecided: {_change(effect.ratio)} in {rounds}, which has no interval."
    interval = f"{1 - error:.0%} interval {_change(effect.low)} to {_change(effect.high)}, {rounds}"
    percent = f"{effect.smallest_relevant * 100:.3g}%"
    if effect.word == "no-difference":
        return f"no difference larger than {percent}: {_change(effect.ratio)} ({interval})."
    if effect.word == "undecided":
        shown = "" if effect.detectable is None else _detectable(effect.detectable)
        return f"undecided: {_change(effect.ratio)} ({interval}).{shown}"
    wanted = " as wanted" if better == "less" and effect.ratio < 1 else ""
    return f"{effect.word}: {_change(effect.ratio)}{wanted} ({interval})."


def _change(ratio: float) -> str:
    if ratio >= 2:
        return f"{format_digits(ratio)} times as much"
    share = abs(ratio - 1) * 100
    if share < 0.05:
        return "the same"
    return f"{share:.1f}% {'more' if ratio > 1 else 'less'}"


def _detectable(share: float) -> str:
    return f" So many rounds show a change of {share * 100:.2g}% or more, four times in five."


def _word(
    logs: Sequence[float],
    low: float,
    high: float,
    level: float,
    permutation_p: float | None,
    better: Better,
    smallest_relevant: float,
) -> Word:
    limit = math.log1p(smallest_relevant)
    can_pass = 2 / 2 ** len(logs) <= level
    if not can_pass and max(logs) - min(logs) <= 1e-12:
        return "undecided"  # a few equal ratios are coarse figures, not an absence of noise
    passes = not can_pass or permutation_p is None or permutation_p <= level
    if (low > 0 or high < 0) and passes:
        return "better" if (low > 0) == (better == "more") else "worse"
    if low >= -limit and high <= limit:
        return "no-difference"
    return "undecided"


def _require_shares(smallest_relevant: float, level: float, resolution: float) -> None:
    if not (0 < smallest_relevant < 1 and 0 < level < 1 and 0 <= resolution < 1):
        raise UsageError(
            f"A smallest relevant change of {smallest_relevant}, a level of {level} and a "
            f"resolution of {resolution} cannot judge anything.",
            "Give shares between 0 and 1: 0.03 is 3%.",
        )
