"""Which numbers are figures: whatever is not finite is refused before it becomes a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import GrampusError

# Nothing that is measured comes near these, and their squares and ratios can still be computed.
LARGEST, SMALLEST = 1e100, 1e-100


def require_figures(values: Sequence[float], what: str) -> None:
    """Raise GrampusError (`not-a-figure`) unless all values are from 0 to LARGEST.

    `what` begins the sentence: "The throughput of the arm".
    """
    for position, value in enumerate(values, start=1):
        if not 0 <= value <= LARGEST:  # NaN is neither
            raise GrampusError(
                f"{what} holds {value} as figure {position} of {len(values)}, which nothing can "
                "be concluded from.",
                "Mark its cell as failed, with the reason, and measure it again.",
                code="not-a-figure",
            )


def require_positive(values: Sequence[float], what: str) -> None:
    """As `require_figures`, and refuse what is next to 0 (`no-throughput`): it has no ratio."""
    require_figures(values, what)
    for position, value in enumerate(values, start=1):
        if value < SMALLEST:
            raise GrampusError(
                f"{what} is 0 in round {position} of {len(values)}: nothing was done there.",
                "Mark that cell as failed, with the reason: a ratio to 0 is undefined.",
                code="no-throughput",
            )


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1 on; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and values[order[end + 1]] == values[order[begin]]:
            end += 1
        for position in order[begin : end + 1]:
            found[position] = (begin + end) / 2 + 1
        begin = end + 1
    return found
