"""What a suite holds a published conclusion to: which cells are compared, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from grampus.bench.catalog import Sentence
from grampus.bench.declared import LowerKebab, explained
from grampus.bench.matrix.dimensions import Value, parse_dimension, parse_value
from grampus.state.runs import Frozen

# `iops` are those of the volumes' block devices (of a load without a database: its requests);
# `iops-per-gb` divides them by the room on the OSDs that is provisioned, before copies:
# `fill_percent` of it, or all. Latencies are those that the load generator saw; `osd-device-*` is
# what the OSDs' devices say of themselves. A limit of a control group holds requests back before a
# device counts them, so that it is not busy: `osd-device-use` is the busiest one's share of time or
# of its medium's limit, whichever is more.
Quantity = Literal[
    "tps",
    "qps",
    "tps-per-database",
    "qps-per-database",
    "latency-avg",
    "latency-p99",
    "latency-p9999",
    "iops",
    "iops-per-gb",
    "mb-per-s",
    "osd-device-busy",
    "osd-device-use",
    "osd-device-latency",
]
# What only a database has.
OF_DATABASES: frozenset[Quantity] = frozenset(
    {"tps", "qps", "tps-per-database", "qps-per-database"}
)


def _parse_setting(content: object) -> object:
    if not isinstance(content, Mapping):
        return content
    setting: dict[str, Value] = {}
    for name, value in content.items():
        dimension = parse_dimension(name)
        setting[dimension] = parse_value(dimension, value)
    return setting


def _parse_dimension(name: object) -> object:
    return parse_dimension(name)


# One value for each of some dimensions.
PartialPoint = Annotated[Mapping[str, Value], BeforeValidator(_parse_setting)]
DimensionName = Annotated[str, BeforeValidator(_parse_dimension)]
Ratio = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


class _Conclusion(Frozen):
    """`says` is the conclusion in a sentence; only cells that agree with `at` are looked at.

    `not_in_labs` is why it cannot be tested where one machine stands for all hosts and devices.
    `repeats` names the conclusion of the suite whose fact it is in another unit: in a closed loop,
    the average latency is the number of clients divided by their throughput (Little's law), so both
    hold or neither does.
    """

    name: LowerKebab
    says: Sentence
    quantity: Quantity
    at: PartialPoint = Field(default_factory=dict)
    not_in_labs: Sentence | None = None
    repeats: LowerKebab | None = None


class RatioConclusion(_Conclusion):
    """`arm` over `against` (the suite's baseline unless named), in each pair of cells that differ
    in nothing else.

    Holds when the ratio's interval lies within the limits. `published` is the source's own ratio.
    """

    test: Literal["ratio"]
    arm: LowerKebab
    against: LowerKebab | None = None
    at_least: Ratio | None = None
    at_most: Ratio | None = None
    published: Ratio | None = None

    @model_validator(mode="after")
    def _has_limits(self) -> RatioConclusion:
        if self.at_least is None and self.at_most is None:
            raise explained(
                f"the conclusion '{self.name}' has no limit.", "Add at_least, at_most, or both."
            )
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise explained(
                f"the conclusion '{self.name}' can never hold: at_least is above at_most.",
                "Exchange them.",
            )
        if self.arm == self.against:
            raise explained(
                f"the conclusion '{self.name}' compares {self.arm} with itself.",
                "Name another arm in against.",
            )
        return self


class _Along(_Conclusion):
    """Looks at cells that differ in the dimension `along` alone, in the order of its values."""

    along: DimensionName


class BestConclusion(_Along):
    """The best value of `along` is one of `expected`; `least` where less is better."""

    test: Literal["best"]
    better: Literal["most", "least"]
    expected: Annotated[tuple[Value, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _expects_values(self) -> BestConclusion:
        for value in self.expected:
            parse_value(self.along, value)
        return self


class KneeConclusion(_Along):
    """Past the last of `expected`, each step to the next value of `along` brings less than
    `gain_below` (0.1: a tenth more). Without `expected`: the last step does."""

    test: Literal["knee"]
    gain_below: Ratio
    expected: tuple[Value, ...] = ()

    @model_validator(mode="after")
    def _expects_values(self) -> KneeConclusion:
        for value in self.expected:
            parse_value(self.along, value)
        return self


class TrendConclusion(_Along):
    """From the first to the last value of `along`, it rises, falls, or stays level.

    Level: the largest is at most (1 + `tolerance`) times the smallest. Rising and falling: by more
    than `tolerance` in all.
    """

    test: Literal["trend"]
    direction: Literal["rises", "falls", "level"]
    tolerance: Ratio


Conclusion = Annotated[
    RatioConclusion | BestConclusion | KneeConclusion | TrendConclusion, Field(discriminator="test")
]
