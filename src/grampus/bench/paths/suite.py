"""What the suite `paths` declares: measures, scales and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from grampus.bench.declared import Distribution, LowerKebab
from grampus.bench.paths.intervals import MIN_ROUNDS
from grampus.core.errors import UsageError
from grampus.core.units import parse_bytes
from grampus.state.runs import Frozen, PathsMeasure, UnitName

PathsScaleName = Literal["tiny", "small", "full", "sustained"]
Pattern = Literal["randread", "randwrite", "read", "write"]
Part = Literal["volume", "transport", "file"]
CountName = Literal["rados-writes", "osd-cpu-us", "latency-p50-us"]
SCALES: tuple[PathsScaleName, ...] = ("tiny", "small", "full", "sustained")
# The load of sysbench's that the drivers are compared with; the write paths have all of them.
DRIVERS_DATABASE_MEASURE = "update-index"
_COST_UNITS: Mapping[CountName, UnitName] = {
    "rados-writes": "writes-per-operation",
    "osd-cpu-us": "us-per-operation",
    "latency-p50-us": "us-per-operation",
}


def _read_size(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except UsageError as error:
        raise ValueError(f"{error.problem} {error.remedy}") from error


SizeBytes = Annotated[int, BeforeValidator(_read_size), Field(gt=0)]
NamePatterns = tuple[str, ...]


class Measure(Frozen):
    """One load of fio's. `time_factor` stretches its running time, for large blocks.

    `part` is where it runs: `volume` on all ways to the image, `file` only on a file of the write
    paths' file systems, `transport` on the memory device. A `sustained` one runs for the scale's
    `sustained_ms`; one with `total_bytes` until it has written them. `after` names the measure
    that it follows without a pause: what that one has left in journals and caches is a part of
    it. `zipf` skews the offsets (fio's `random_distribution`); without it they are uniform. One
    that `appends` writes to a new file, which grows: then an fsync is durable on each file system,
    also on one whose flushes of overwritten data only keep their order (ADR 60).
    """

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    part: Part
    pattern: Pattern
    block_bytes: SizeBytes
    depth: Annotated[int, Field(ge=1, le=1024)]
    fsync: bool = False
    time_factor: Annotated[float, Field(gt=0, le=10)] = 1.0
    sustained: bool = False
    total_bytes: SizeBytes | None = None
    after: LowerKebab | None = None
    zipf: Annotated[float, Field(gt=0, le=4)] | None = None
    appends: bool = False

    @model_validator(mode="after")
    def _can_append(self) -> Measure:
        if self.appends and (self.part, self.pattern) != ("file", "write"):
            raise ValueError("a measure that appends has part: file and pattern: write")
        return self

    @property
    def unit(self) -> UnitName:
        """Sequential loads are told in bytes, random ones in operations."""
        is_counted = self.pattern.startswith("rand") or self.appends
        return "iops" if is_counted else "bytes-per-s"

    @property
    def is_latency_bound(self) -> bool:
        """Whether its latency is the path's own, not that of a queue."""
        return self.depth == 1


class DatabaseMeasure(Frozen):
    """One of sysbench's own OLTP scripts, named without `.lua`."""

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    script: Annotated[str, Field(pattern=r"^oltp_[a-z_]+$")]
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None  # None: the database's
    # All tables are read once before it, so that whatever caches reads holds what it can hold.
    reads_all_first: bool = False


class Database(Frozen):
    """The load on the scratch MySQL instance."""

    tables: Annotated[int, Field(ge=1, le=64)]
    threads: Annotated[int, Field(ge=1, le=1024)]
    distribution: Distribution
    measures: Annotated[tuple[DatabaseMeasure, ...], Field(min_length=1)]


class Cost(Frozen):
    """What one operation of the measure `of` takes, on the write paths.

    `rados-writes` are write operations that clients sent to the OSDs, without those between the
    copies; `osd-cpu-us` is the CPU time of all OSDs; `latency-p50-us` is the median latency.
    """

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    of: LowerKebab
    counts: CountName

    @property
    def is_of_cluster(self) -> bool:
        """Whether the cluster spends it: nothing of it is known of a local disk."""
        return self.counts != "latency-p50-us"

    @property
    def unit(self) -> UnitName:
        """The unit of its figures."""
        return _COST_UNITS[self.counts]


class PathsScale(Frozen):
    """How much time and room a run takes.

    `raw`, `xfs` and `write_paths` are patterns of measure names: on the ways without and with a
    file system, and on the write paths. `left_out` holds patterns of ARM/MEASURE that are not
    measured all the same. Running times shrink, down to `min_runtime_ms`, when a run would
    otherwise take longer than `budget_s`; the write paths are measured in as many of the rounds as
    fit. With fewer rounds than `judged_from_rounds` no target is judged.
    """

    budget_s: Annotated[float, Field(gt=0)]
    rounds: Annotated[int, Field(ge=1, le=99)]
    runtime_ms: Annotated[int, Field(ge=50)]
    min_runtime_ms: Annotated[int, Field(ge=50)]
    ramp_ms: Annotated[int, Field(ge=0)]
    sustained_ms: Annotated[int, Field(ge=500)]
    region_bytes: SizeBytes
    filesystem_bytes: SizeBytes
    raw: NamePatterns
    xfs: NamePatterns
    write_paths: NamePatterns
    left_out: NamePatterns = ()
    judged_from_rounds: Annotated[int, Field(ge=2)] = MIN_ROUNDS
    rows_per_table: Annotated[int, Field(ge=1)]
    memory_bytes: SizeBytes
    warmup_s: Annotated[int, Field(ge=0)]
    measure_s: Annotated[int, Field(ge=1)]


class SuiteTarget(Frozen):
    """What the first measured one of `arms` must reach in each of `measures`.

    `at_least` and `at_most` are ratios to `against`.
    """

    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    arms: Annotated[tuple[str, ...], Field(min_length=1)]
    against: str
    measures: Annotated[tuple[str, ...], Field(min_length=1)]
    at_least: float | None = None
    at_most: float | None = None
    added_latency_at_most_us: float | None = None

    @property
    def is_ratio(self) -> bool:
        """Whether its limit is a ratio, and not a time."""
        return self.added_latency_at_most_us is None

    @model_validator(mode="after")
    def _has_one_limit(self) -> SuiteTarget:
        limits = (self.at_least, self.at_most, self.added_latency_at_most_us)
        if sum(limit is not None for limit in limits) != 1:
            raise ValueError("a target has either at_least, at_most or added_latency_at_most_us")
        return self


class PathsSuite(Frozen):
    """The suite `paths`."""

    kind: Literal["paths"]
    name: LowerKebab
    title: Annotated[str, Field(min_length=1)]
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)]
    database: Database
    costs: tuple[Cost, ...] = ()
    scales: Mapping[PathsScaleName, PathsScale]
    targets: tuple[SuiteTarget, ...]

    @property
    def all_measures(self) -> tuple[PathsMeasure, ...]:
        """What a run may hold figures of, as it is archived."""
        return (
            *(PathsMeasure(name=one.name, title=one.title, unit=one.unit) for one in self.measures),
            *(
                PathsMeasure(name=one.name, title=one.title, unit="tps")
                for one in self.database.measures
            ),
            *(
                PathsMeasure(name=one.name, title=one.title, unit=one.unit, better="less")
                for one in self.costs
            ),
        )

    @model_validator(mode="after")
    def _is_whole(self) -> PathsSuite:
        known = [measure.name for measure in self.all_measures]
        if len(set(known)) != len(known):
            raise ValueError("two measures have the same name")
        _require_known("target", known, [(one.name, one.measures) for one in self.targets])
        fio = [measure.name for measure in self.measures]
        after = [(one.name, (one.after,)) for one in self.measures if one.after is not None]
        _require_known("measure", fio, after)
        database = [measure.name for measure in self.database.measures]
        for cost in self.costs:
            # fio's jobs follow one another with no time to ask the cluster in between.
            measurable = [*fio, *database] if cost.counts == "osd-cpu-us" else database
            _require_known("cost", measurable, [(cost.name, (cost.of,))])
        if missing := [scale for scale in SCALES if scale not in self.scales]:
            raise ValueError(f"there is no scale {missing[0]}")
        return self


def _require_known(
    kind: str, known: Sequence[str], named: Sequence[tuple[str, tuple[str, ...]]]
) -> None:
    for owner, names in named:
        for name in names:
            if name not in known:
                raise ValueError(f"{kind} {owner} names the measure {name}: none such")


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Whether `name` fits one of the shell patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
