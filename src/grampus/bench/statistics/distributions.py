"""Student's t and the binomial interval, from the regularised incomplete beta function.

The standard library has the normal distribution alone. The beta function's continued fraction is
formula 8.17.22 of the NIST Digital Library of Mathematical Functions, evaluated by the modified
method of Lentz (Thompson and Barnett 1986). Quantiles are found by bisection: slower than a series,
and as exact as the distribution function itself. `tests` hold them to published tables.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_ENOUGH = 1e-15
_MAX_TERMS = 10_000
_HALVINGS = 200


def t_distribution(t: float, degrees: float) -> float:
    """The probability that Student's t with so many degrees of freedom is at most `t`."""
    tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2
    return 1 - tail if t > 0 else tail


def t_two_sided(t: float, degrees: float) -> float:
    """The probability that |Student's t| is at least |t|: exact also where it is tiny."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


@lru_cache(maxsize=4096)
def t_critical(level: float, degrees: float) -> float:
    """What |Student's t| exceeds with probability `level`, which lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"a level lies between 0 and 1, not at {level}")
    low, high = 0.0, 1.0
    while t_two_sided(high, degrees) > level:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_two_sided(middle, degrees) > level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def binomial_interval(found: int, tries: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a probability that showed `found` times in `tries` (Clopper, Pearson).

    Raises ValueError unless 0 <= found <= tries and tries > 0.
    """
    if tries <= 0 or not 0 <= found <= tries:
        raise ValueError(f"{found} of {tries} is not a share")
    tail = (1 - confidence) / 2
    low = _beta_quantile(tail, found, tries - found + 1) if found else 0.0
    high = _beta_quantile(1 - tail, found + 1, tries - found) if found < tries else 1.0
    return low, high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), for 0 <= x <= 1."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    # The fraction converges quickly below this, and I_x(a, b) = 1 - I_(1-x)(b, a).
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(log_front) / a / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22."""
    fraction, above, below = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        below = 1 / ((1 + d * below) or _TINY)
        above = (1 + d / above) or _TINY
        fraction *= above * below
        if abs(above * below - 1) < _ENOUGH:
            break
    return fraction


def _beta_quantile(probability: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if incomplete_beta(a, b, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2
