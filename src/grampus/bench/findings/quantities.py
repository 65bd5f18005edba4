"""What a conclusion asks for, read from the figures of one round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from grampus.bench.findings.rounds import CellRounds, Round, distinct, why_undeciding
from grampus.bench.matrix.conclusions import OF_DATABASES, Quantity
from grampus.bench.matrix.dimensions import Value
from grampus.bench.matrix.workloads import WORKLOADS
from grampus.state.matrix_runs import Figures

MEGABYTE = 1_000_000
GIGABYTE = 1_000_000_000
# Of a quantity that is divided by another: itself, and what it is divided by, in words.
_QUOTIENTS: Mapping[Quantity, tuple[Quantity, str]] = {
    "iops-per-gb": ("iops", "the provisioned space"),
    "tps-per-database": ("tps", "the number of databases"),
    "qps-per-database": ("qps", "the number of databases"),
}
# Below this share of the divisor's change, on a log scale, a quantity hardly changed beside it.
_HARDLY = 0.5
# Of one round. Its rounds tell how much such a figure varies, but of fewer operations it is that of
# the slowest one, which is the slower the more there are.
_LEAST_BEYOND = 1
_PERCENTS: Mapping[Quantity, float] = {"latency-p99": 99.0, "latency-p9999": 99.99}


@dataclass(frozen=True)
class QuantityReading:
    """A figure of one round, exact to `resolution` (0.01: 1%), or the reason why there is none."""

    value: float | None
    resolution: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Parts:
    """The ratio of a quantity that is divided by another, taken apart: `ratio` is that of `plain`,
    and `divisor_ratio` that of `divisor` (in words). Geometric means over the same rounds.
    """

    plain: str
    ratio: float
    divisor: str
    divisor_ratio: float

    @property
    def is_of_divisor(self) -> bool:
        """Whether the quotient's ratio is mostly arithmetic: `plain` hardly changed beside what it
        is divided by."""
        return abs(math.log(self.ratio)) < _HARDLY * abs(math.log(self.divisor_ratio))


@dataclass(frozen=True)
class Pairs:
    """The figures of two cells by round, or the reason why nothing is concluded from them."""

    figures: tuple[tuple[float, float], ...] = ()
    resolution: float = 0.0
    reason: str | None = None


def is_database(point: Mapping[str, Value]) -> bool:
    """Whether the cell at `point` loads a database."""
    return any(
        name == point.get("workload") and one.target == "database"
        for name, one in WORKLOADS.items()
    )


def read_quantity(quantity: Quantity, point: Mapping[str, Value], one: Round) -> QuantityReading:
    """The `quantity` of a round of the cell at `point`.

    Latencies are in microseconds, `mb-per-s` in 10**6 bytes, `osd-device-latency` in milliseconds.
    A percentile of which only wide bounds are known is no reading, and zero is none: it has no
    ratio.
    """
    reading = _read(quantity, point, one)
    if reading.value is not None and reading.value <= 0:
        return QuantityReading(None, reason=f"Its {quantity} is 0, and a ratio to 0 is undefined.")
    return reading


def pair_rounds(quantity: Quantity, arm: CellRounds, against: CellRounds) -> Pairs:
    """What the rounds that measured both cells have of `quantity`: (arm, against) each.

    Nothing is concluded from a cell without figures or with a load generator at its limit, nor
    from an open loop beside a closed one.
    """
    for rounds in (arm, against):
        reason = why_undeciding(rounds)
        if reason is not None:
            return Pairs(reason=reason)
    if len({one.figures.loop for r in (arm, against) for one in r.measured.values()}) > 1:
        return Pairs(reason="An open loop is not compared with a closed one.")
    figures: list[tuple[float, float]] = []
    resolution, reasons = 0.0, []
    for number in sorted(arm.measured.keys() & against.measured.keys()):
        first = read_quantity(quantity, arm.cell.point, arm.measured[number])
        second = read_quantity(quantity, against.cell.point, against.measured[number])
        if first.value is None or second.value is None:
            reasons += [one.reason for one in (first, second) if one.value is None]
            continue
        figures.append((first.value, second.value))
        # Both may be wrong, in opposite directions.
        both = (1 + first.resolution) * (1 + second.resolution) - 1
        resolution = max(resolution, both)
    if not figures:
        said = " ".join(distinct(reasons)) or "No round measured both."
        return Pairs(reason=said)
    return Pairs(tuple(figures), resolution)


def take_apart(quantity: Quantity, arm: CellRounds, against: CellRounds) -> Parts | None:
    """What of the ratio of such a quantity is its own, and what its divisor's; None for any other
    quantity, and where no round measured both."""
    if quantity not in _QUOTIENTS:
        return None
    plain, divisor = _QUOTIENTS[quantity]
    whole, own = pair_rounds(quantity, arm, against), pair_rounds(plain, arm, against)
    if not whole.figures or len(whole.figures) != len(own.figures):
        return None
    ratio, quotient = _mean_ratio(own.figures), _mean_ratio(whole.figures)
    return Parts(plain, ratio, divisor, ratio / quotient)


def _mean_ratio(figures: tuple[tuple[float, float], ...]) -> float:
    return math.exp(math.fsum(math.log(over / under) for over, under in figures) / len(figures))


def _read(quantity: Quantity, point: Mapping[str, Value], one: Round) -> QuantityReading:
    figures = one.figures
    if quantity in OF_DATABASES:
        per_s = figures.operations_per_s if quantity.startswith("tps") else figures.queries_per_s
        if per_s is None:
            return _absent("queries a second")
        databases = point.get("databases", 1) if quantity.endswith("per-database") else 1
        return QuantityReading(per_s / float(databases))
    if quantity == "latency-avg":
        average_us = None if one.latency is None else one.latency.average_us
        return QuantityReading(average_us) if average_us is not None else _absent("average latency")
    if quantity in _PERCENTS:
        return _read_percentile(one, _PERCENTS[quantity])
    if quantity in ("iops", "iops-per-gb"):
        return _read_iops(quantity, point, figures)
    if quantity == "mb-per-s":
        moved = figures.moved_bytes_per_s
        return QuantityReading(moved / MEGABYTE) if moved is not None else _absent("bytes a second")
    if quantity == "osd-device-busy":
        busy = figures.osd_device_busy_share
        return (
            QuantityReading(busy)
            if busy is not None
            else _absent("share of time of the OSDs' devices")
        )
    if quantity == "osd-device-use":
        uses = {} if figures.why is None else {one.layer: one.share for one in figures.why.layers}
        return (
            QuantityReading(uses["osd-device"])
            if "osd-device" in uses
            else _absent("use of the OSDs' devices")
        )
    latency_ms = figures.osd_device_latency_ms
    return (
        QuantityReading(latency_ms)
        if latency_ms is not None
        else _absent("latency of OSDs' devices")
    )


def _read_iops(quantity: Quantity, point: Mapping[str, Value], figures: Figures) -> QuantityReading:
    iops = figures.volume_iops if is_database(point) else figures.operations_per_s
    if iops is None:
        return _absent("I/O of the database's volumes")
    if quantity == "iops":
        return QuantityReading(iops)
    if not figures.provisioned_bytes:
        return _absent("provisioned space")
    return QuantityReading(iops / (figures.provisioned_bytes / GIGABYTE))


def _read_percentile(one: Round, percent: float) -> QuantityReading:
    percentile = None if one.latency is None else one.latency.percentile(percent)
    if one.latency is None or percentile is None:
        return _absent(f"{percent:g}th percentile")
    if one.latency.beyond(percent) < _LEAST_BEYOND:
        needed = round(_LEAST_BEYOND * 100 / (100 - percent))
        return QuantityReading(
            None,
            reason=f"A {percent:g}th percentile takes {needed:,} operations in a round, and it "
            "has fewer.",
        )
    if not percentile.is_fine:
        # Which bounds, the cells tell: in words they would be others in each round.
        return QuantityReading(
            None, reason=f"Of its {percent:g}th percentile only wide bounds are known."
        )
    document = percentile.to_document()
    low_us, high_us = document["low_us"], document["high_us"]
    if low_us <= 0:
        return QuantityReading(low_us)
    # The middle on the log scale, on which ratios are symmetric.
    return QuantityReading(math.sqrt(low_us * high_us), math.sqrt(high_us / low_us) - 1)


def _absent(what: str) -> QuantityReading:
    return QuantityReading(None, reason=f"The run has no {what} of it.")
