"""The archive of benchmark runs: what is kept of a run, and where.

One directory a run, named `RUN_ID`. Its `run.json` is one of two kinds of document, told apart by
`kind`: a Run (`oltp`, also where `kind` is missing: older archives have none) or a PathsRun
(`paths`). Those of a third kind (`matrix`) are passed over: `matrix_archive.py` reads them.

    run.json                    the Run or PathsRun below
    raw/                        what the drivers printed, unchanged

of a Run only:

    samples/WORKLOAD.ARM.jsonl  one OltpSample a line, second by second
    resources.jsonl             one ResourceSample a line, on the same clock

`bench` writes it, `report` reads it. All times are seconds since the Unix epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from grampus.core.models import Model
from grampus.core.units import LEAST_FOR_P99
from grampus.state.home import write_atomically
from grampus.state.run_directories import RunDirectories

RUN_SCHEMA_VERSION = 1
PATHS_SCHEMA_VERSION = 1
MATRIX_KIND = "matrix"
ArmName = Literal["ceph", "local"]
SampleT = TypeVar("SampleT", bound=BaseModel)


class Frozen(Model):
    """An immutable value that refuses unknown fields, so that a schema change is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class OltpResult(Frozen):
    """What one workload reached on one arm, over the whole measuring time (no warm-up)."""

    tps: float = Field(description="transactions per second")
    qps: float = Field(description="SQL queries per second")
    latency_avg_ms: float
    latency_p99_ms: float
    latency_max_ms: float
    transactions: int
    errors: int = Field(description="errors that the driver ignored and counted")
    measured_s: float
    started_at_s: float = Field(description="start of the measuring time, Unix time")
    ended_at_s: float
    tps_cov: float = Field(description="coefficient of variation of TPS over the seconds")

    @property
    def shown_p99_ms(self) -> float | None:
        """The 99th percentile, unless too few transactions were slower for it to mean anything."""
        return self.latency_p99_ms if self.transactions >= LEAST_FOR_P99 else None


class WorkloadResult(Frozen):
    """One workload, on Ceph and on the machine's own disk, in the same run."""

    name: str = Field(description="such as point-select")
    title: str = Field(description="such as 100% read (point selects)")
    ceph: OltpResult
    local: OltpResult


class OltpSample(Frozen):
    """One second of a workload."""

    at_s: float
    tps: float
    qps: float
    latency_p99_ms: float
    errors_per_s: float


class ResourceSample(Frozen):
    """Use of one subject between the previous sample of it and this one."""

    at_s: float
    kind: Literal["daemon", "volume", "machine"]
    name: str = Field(description="daemon (osd-0@h1), volume (demo) or machine")
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    read_iops: float | None = None
    write_iops: float | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None


class Setting(Frozen):
    """One fact of the environment, such as versions, sizes, limits and kernel."""

    group: str
    name: str
    value: str


class Run(Frozen):
    """One execution of a suite in a recorded environment."""

    schema_version: int = RUN_SCHEMA_VERSION
    kind: Literal["oltp"] = "oltp"
    run_id: str
    suite: str
    lab: str
    database: str
    flavour: str
    started_at_s: float
    ended_at_s: float
    threads: int
    warmup_s: float
    measure_s: float
    dataset_bytes: int
    buffer_pool_bytes: int
    environment: tuple[Setting, ...]
    workloads: tuple[WorkloadResult, ...]
    warnings: tuple[str, ...] = Field(
        default=(), description="what limits the trust in this run, in whole sentences"
    )


UnitName = Literal["iops", "bytes-per-s", "tps", "writes-per-operation", "us-per-operation"]
QuantityName = Literal["throughput", "latency-avg", "cost"]


class PathsMeasure(Frozen):
    """What was measured: one load, the same on every arm."""

    name: str = Field(description="such as 16k-randread-qd32")
    title: str
    unit: UnitName = Field(description="unit of its throughput")
    better: Literal["more", "less"] = Field(default="more", description="less: it is a cost")


class PathsArm(Frozen):
    """One way to the image."""

    name: str = Field(description="such as volumed-uring-xfs")
    title: str
    detail: str = Field(description="what was used in fact, such as why a transport was chosen")


class PathsSample(Frozen):
    """One measure on one arm in one round.

    With a flush after each write, an operation is the two together. A cost (such as
    rados-writes-per-update) has no latency; its `throughput` is what one operation costs.
    """

    round: int
    arm: str
    measure: str
    started_at_s: float
    measured_s: float
    operations: int
    throughput: float = Field(description="in the measure's unit")
    latency_avg_us: float | None
    cpu_us_per_operation: float | None = Field(
        description="CPU time of the load generator and of the arm's daemon, see the guide"
    )


class PathsResult(Frozen):
    """One measure on one arm over all rounds.

    Throughput and CPU are medians over the rounds. The average latency is over all operations;
    percentiles come from the rounds' merged histograms and are those of the I/O alone, with the
    flush's beside them.
    """

    arm: str
    measure: str
    rounds: int
    operations: int
    throughput: float
    latency_avg_us: float | None
    latency_p50_us: float | None
    latency_p99_us: float | None
    latency_p999_us: float | None
    flush_p50_us: float | None = None
    flush_p99_us: float | None = None
    flush_p999_us: float | None = None
    cpu_us_per_operation: float | None


class PathsComparison(Frozen):
    """`arm` over `against` in one measure: the median of the rounds' ratios, with its interval.

    For latencies (`quantity` latency-avg, the name of the measure ends in `-latency-avg`) a ratio
    above 1 is slower, and for costs (`quantity` cost) it is dearer.
    """

    measure: str
    arm: str
    against: str
    quantity: QuantityName
    ratio: float
    ratio_low: float
    ratio_high: float
    rounds: int
    confidence: float = Field(description="probability that the interval holds the true median")


class PathsDifference(Frozen):
    """Average latency of `arm` minus that of `against`: median of the rounds' differences."""

    measure: str
    arm: str
    against: str
    difference_us: float
    difference_low_us: float
    difference_high_us: float
    rounds: int
    confidence: float


class PathsTarget(Frozen):
    """What a measure must reach, and whether it did: None when it was not (well) measured."""

    name: str = Field(description="such as librbd-throughput")
    title: str
    measure: str
    arm: str
    against: str
    quantity: Literal["ratio", "added-latency-us"]
    at_least: float | None
    at_most: float | None
    value: float | None
    value_low: float | None
    value_high: float | None
    rounds: int
    reached: bool | None
    note: str = Field(default="", description="why it is not known or not certain")


class PathsRun(Frozen):
    """One execution of the suite `paths`: ways to the same image, side by side."""

    schema_version: int = PATHS_SCHEMA_VERSION
    kind: Literal["paths"] = "paths"
    run_id: str
    suite: str
    lab: str
    host: str
    scale: str
    seed: int
    rounds: int
    started_at_s: float
    ended_at_s: float
    order: tuple[tuple[str, ...], ...] = Field(description="by round, what came after what")
    measures: tuple[PathsMeasure, ...]
    arms: tuple[PathsArm, ...]
    samples: tuple[PathsSample, ...]
    results: tuple[PathsResult, ...]
    comparisons: tuple[PathsComparison, ...]
    differences: tuple[PathsDifference, ...]
    targets: tuple[PathsTarget, ...]
    environment: tuple[Setting, ...]
    warnings: tuple[str, ...] = ()


class RunArchive:
    """The runs under one directory, but for those of matrix suites, which have their own."""

    def __init__(self, directory: Path) -> None:
        self._runs = RunDirectories(directory, lambda kind: kind != MATRIX_KIND)

    def run_dir(self, run_id: str) -> Path:
        return self._runs.run_dir(run_id)

    def run_ids(self) -> list[str]:
        """Finished runs, oldest first (a run without run.json never finished)."""
        return self._runs.run_ids()

    def resolve(self, run_id: str) -> str:
        """The id itself, or the newest run's for `latest`. Raises NotFoundError."""
        return self._runs.resolve(run_id)

    def load(self, run_id: str) -> Run | PathsRun:
        """The run named `run_id` (or `latest`). Raises NotFoundError."""
        return _parse_run(self._runs.run_file(self.resolve(run_id)).read_bytes())

    def save(self, run: Run | PathsRun) -> Path:
        """Write run.json, which makes the run a finished one; returns its directory."""
        directory = self.run_dir(run.run_id)
        document = run.model_dump_json(indent=2).encode()
        # JSON has no NaN: what cannot be read back is refused before it replaces anything.
        _parse_run(document)
        write_atomically(self._runs.run_file(run.run_id), document)
        return directory

    def samples_file(self, run_id: str, workload: str, arm: ArmName) -> Path:
        return self.run_dir(run_id) / "samples" / f"{workload}.{arm}.jsonl"

    def resources_file(self, run_id: str) -> Path:
        return self.run_dir(run_id) / "resources.jsonl"

    def load_samples(self, run_id: str, workload: str, arm: ArmName) -> list[OltpSample]:
        """Second-by-second samples, warm-up included; empty when none were kept."""
        return _read_lines(self.samples_file(run_id, workload, arm), OltpSample)

    def load_resources(self, run_id: str) -> list[ResourceSample]:
        return _read_lines(self.resources_file(run_id), ResourceSample)


class _Kind(Model):
    """What tells one kind of run from the other; everything else is left to its own model."""

    model_config = ConfigDict(extra="ignore")

    kind: Literal["oltp", "paths"] = "oltp"


def _parse_run(document: bytes) -> Run | PathsRun:
    kind = _Kind.model_validate_json(document).kind
    model: type[Run] | type[PathsRun] = PathsRun if kind == "paths" else Run
    return model.model_validate_json(document)


def append_lines(file: Path, samples: Iterable[BaseModel]) -> None:
    """Append one JSON line a sample."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{sample.model_dump_json(exclude_none=True)}\n" for sample in samples)


def _read_lines(file: Path, model: type[SampleT]) -> list[SampleT]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8") as stream:
        return [model.model_validate_json(line) for line in stream if line.strip()]
