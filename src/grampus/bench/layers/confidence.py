"""How sure it is that a layer is the bottleneck. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.state.matrix_layers import Confidence

# Of an operation's time, that of the first layer; and how many times that of the second. Of
# bottlenecks injected on purpose, `make bottlenecks` says how often each grade is right.
HIGH_SHARE, HIGH_LEAD = 0.6, 2.0
MEDIUM_SHARE, MEDIUM_LEAD = 0.4, 1.5


def grade(shares: Sequence[float]) -> Confidence:
    """How sure it is that a layer holds the load up that adds the first of `shares`, which fall."""
    first = shares[0]
    second = shares[1] if len(shares) > 1 else 0.0
    if first >= HIGH_SHARE and first >= HIGH_LEAD * second:
        return "high"
    return "medium" if first >= MEDIUM_SHARE and first >= MEDIUM_LEAD * second else "low"
