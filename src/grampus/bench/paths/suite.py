"""What the suite `paths` declares: measures, scales and targets."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from grampus.bench.names import Distribution, LowerKebab
from grampus.core.errors import UsageError
from grampus.core.units import parse_bytes
from grampus.state.runs import Frozen, PathsMeasure, UnitName

ScaleName = Literal["tiny", "small", "full"]
Pattern = Literal["randread", "randwrite", "read", "write"]
SCALES: tuple[ScaleName, ...] = ("tiny", "small", "full")
# The one measure that is not fio's.
DATABASE_MEASURE = PathsMeasure(
    name="update-index", title="MySQL: sysbench index updates, 100% write", unit="tps"
)


def _read_size(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise ValueError(f"{error.problem} {error.remedy}") from error


SizeBytes = Annotated[int, BeforeValidator(_read_size), Field(gt=0)]
NamePatterns = Annotated[tuple[str, ...], Field(min_length=1)]


class Measure(Frozen):
    """One load of fio's. `time_factor` stretches its running time, for large blocks."""

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    part: Literal["volume", "transport"]
    pattern: Pattern
    block_bytes: SizeBytes
    depth: Annotated[int, Field(ge=1, le=1024)]
    fsync: bool = False
    time_factor: Annotated[float, Field(gt=0, le=10)] = 1.0

    @property
    def unit(self) -> UnitName:
        """Sequential loads are told in bytes, random ones in operations."""
        return "iops" if self.pattern.startswith("rand") else "bytes-per-s"

    @property
    def is_latency_bound(self) -> bool:
        """Whether its latency is the path's own, not that of a queue."""
        return self.depth == 1


class Database(Frozen):
    """The load on the scratch MySQL instance."""

    tables: Annotated[int, Field(ge=1, le=64)]
    threads: Annotated[int, Field(ge=1, le=1024)]
    distribution: Distribution


class Scale(Frozen):
    """How much time and room a run takes.

    `raw` and `xfs` are patterns of measure names. Running times shrink, down to
    `min_runtime_ms`, when a run would otherwise take longer than `budget_s`.
    """

    budget_s: Annotated[float, Field(gt=0)]
    rounds: Annotated[int, Field(ge=1, le=99)]
    runtime_ms: Annotated[int, Field(ge=50)]
    min_runtime_ms: Annotated[int, Field(ge=50)]
    ramp_ms: Annotated[int, Field(ge=0)]
    region_bytes: SizeBytes
    filesystem_bytes: SizeBytes
    raw: NamePatterns
    xfs: NamePatterns
    rows_per_table: Annotated[int, Field(ge=1)]
    memory_bytes: SizeBytes
    warmup_s: Annotated[int, Field(ge=0)]
    measure_s: Annotated[int, Field(ge=1)]


class Target(Frozen):
    """What the first measured one of `arms` must reach in each of `measures`."""

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    arms: Annotated[tuple[str, ...], Field(min_length=1)]
    against: str
    measures: Annotated[tuple[str, ...], Field(min_length=1)]
    at_least: float | None = None
    added_latency_at_most_us: float | None = None

    @model_validator(mode="after")
    def _has_one_limit(self) -> Target:
        if (self.at_least is None) == (self.added_latency_at_most_us is None):
            raise ValueError("a target has either at_least or added_latency_at_most_us")
        return self


class PathsSuite(Frozen):
    """The suite `paths`."""

    kind: Literal["paths"]
    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)]
    database: Database
    scales: Mapping[ScaleName, Scale]
    targets: tuple[Target, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> PathsSuite:
        names = [measure.name for measure in self.measures]
        if len(set(names)) != len(names):
            raise ValueError("two measures have the same name")
        known = {*names, DATABASE_MEASURE.name}
        for target in self.targets:
            for name in target.measures:
                if name not in known:
                    raise ValueError(f"target {target.name} names the measure {name}: none such")
        if missing := [scale for scale in SCALES if scale not in self.scales]:
            raise ValueError(f"there is no scale {missing[0]}")
        return self


def matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether `name` fits one of the shell patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
