"""Which trials tell something of the naming of bottlenecks, and what they tell. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# An injection is in force where it takes at least this part of the throughput.
FORCE_SHARE = 0.5
CONFIDENCES = ("high", "medium", "low")
TARGET_SHARE = 0.95
TARGET_TRIALS = 30


@dataclass(frozen=True)
class Judged:
    """One cell under one injection. `share` is the named layer's of an operation's time.

    `of_uninjected` is the throughput over that without injection; None where nothing was measured.
    """

    injected: str
    cell: str
    of_uninjected: float | None
    named: str
    confidence: str | None
    share: float | None

    @property
    def counts(self) -> bool:
        """Whether the injection was in force, so that its layer is the bottleneck."""
        return self.of_uninjected is not None and self.of_uninjected <= 1 - FORCE_SHARE

    @property
    def is_right(self) -> bool:
        """Whether the injected layer was named."""
        return self.named == self.injected


@dataclass(frozen=True)
class Rate:
    """Of so many trials, those that were named correctly."""

    right: int
    trials: int

    def __str__(self) -> str:
        return f"{self.right} of {self.trials}"


def judge(
    injected: str, cells: Sequence[Mapping[str, Any]], uninjected: Sequence[Mapping[str, Any]]
) -> list[Judged]:
    """The cells of a run under an injection, as `bench show` tells them, against those without."""
    base = {cell["cell_id"]: _rate(cell) for cell in uninjected}
    judged = []
    for cell in cells:
        rate, before = _rate(cell), base.get(cell["cell_id"])
        named = {one["layer"]: one["share"] for one in cell["times"]}
        judged.append(
            Judged(
                injected,
                cell["name"],
                rate / before if rate is not None and before else None,
                cell["bottleneck"],
                cell["bottleneck_confidence"],
                named.get(cell["bottleneck"]),
            )
        )
    return judged


def rate_of(judged: Sequence[Judged]) -> Rate:
    """Of those that count."""
    counted = [one for one in judged if one.counts]
    return Rate(sum(one.is_right for one in counted), len(counted))


def failures(judged: Sequence[Judged]) -> list[str]:
    """Which targets are missed, as sentences."""
    found = rate_of(judged)
    missed = []
    if found.trials < TARGET_TRIALS:
        missed.append(f"Only {found.trials} trials count; the target is {TARGET_TRIALS}.")
    if found.trials and found.right / found.trials < TARGET_SHARE:
        missed.append(f"{found} were named correctly; the target is {100 * TARGET_SHARE:.0f} %.")
    return missed


def _rate(cell: Mapping[str, Any]) -> float | None:
    spread = cell["operations_per_s"]
    return None if spread is None else float(spread["mean"])
