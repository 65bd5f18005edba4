"""What a run will do: sizes, order and times, decided before anything is touched."""

from __future__ import annotations

import math
from dataclasses import dataclass

from grampus.bench.declared import Distribution
from grampus.bench.quick_suite import QuickWorkload, Suite
from grampus.core.errors import RefusedError, UsageError
from grampus.core.units import format_bytes
from grampus.state.runs import ArmName

# Measured on MySQL 9.7, InnoDB, 16 KiB pages: 4 x 250,000 rows of sysbench's OLTP table with
# its secondary index are 248 MB of data and index pages. The table files take 285 MB (InnoDB
# allocates in extents), and loading writes 200 MB of row-based binary log.
DATA_BYTES_PER_ROW = 248
VOLUME_BYTES_PER_ROW = 285 + 200
# Rows are rounded up to this, so that a slightly different buffer pool keeps its data set.
ROWS_STEP = 1000
# Above this share a volume has too little room for redo and binary logs of the run itself.
MAX_VOLUME_FILL = 0.70
# Start and end of one sysbench process, and of the scratch instance.
PROCESS_OVERHEAD_S = 0.4
INSTANCE_OVERHEAD_S = 5.0


@dataclass(frozen=True)
class BenchOptions:
    """What the user changes of a suite; None keeps the suite's own value."""

    threads: int | None = None
    warmup_s: int | None = None
    measure_s: int | None = None
    fresh_data: bool = False


@dataclass(frozen=True)
class QuickCell:
    """One workload on one arm."""

    workload: QuickWorkload
    arm: ArmName


@dataclass(frozen=True)
class SysbenchTables:
    """The tables of a data set, and how sysbench loads and reaches them.

    `fresh_data` loads them anew where they are there already.
    """

    tables: int
    rows_per_table: int
    threads: int
    distribution: Distribution
    fresh_data: bool


@dataclass(frozen=True)
class QuickPlan(SysbenchTables):
    """A run as it will be. `estimated_s` does not include loading the data set."""

    dataset_bytes: int
    volume_bytes: int
    warmup_s: int
    measure_s: int
    settle_max_s: float
    cells: tuple[QuickCell, ...]
    estimated_s: float


def decide_quick_plan(
    suite: Suite, *, buffer_pool_bytes: int, volume_size_bytes: int, options: BenchOptions
) -> QuickPlan:
    """The plan of `suite` for a database with that buffer pool and that volume.

    Rows = ratio x buffer pool / bytes a row / tables, rounded up to a thousand; the bytes a row
    are measured (see DATA_BYTES_PER_ROW).

    Raises UsageError when an option is out of range, RefusedError with code `volume-too-small`
    when the data set and its binary log would fill more than 70 % of the volume.
    """
    threads = _decide_option("--threads", options.threads, suite.threads, 1, 1024)
    warmup_s = _decide_option("--warmup-s", options.warmup_s, suite.warmup_s, 0, 3600)
    measure_s = _decide_option("--measure-s", options.measure_s, suite.measure_s, 3, 86400)
    wanted_bytes = suite.dataset_to_buffer_pool * buffer_pool_bytes
    steps = wanted_bytes / DATA_BYTES_PER_ROW / suite.tables / ROWS_STEP
    rows_per_table = max(1, math.ceil(steps)) * ROWS_STEP
    all_rows = rows_per_table * suite.tables
    volume_bytes = all_rows * VOLUME_BYTES_PER_ROW
    if volume_bytes > MAX_VOLUME_FILL * volume_size_bytes:
        raise RefusedError(
            f"The data set of suite {suite.name} would fill "
            f"{format_bytes(volume_bytes)} of the {format_bytes(volume_size_bytes)} volume, "
            f"more than {MAX_VOLUME_FILL:.0%}.",
            f"Resize the database to {format_bytes(volume_bytes / MAX_VOLUME_FILL)} or more, "
            "or use one with less memory.",
            code="volume-too-small",
        )
    cells = _decide_cells(suite)
    runs_a_cell = 2 if warmup_s else 1
    return QuickPlan(
        tables=suite.tables,
        rows_per_table=rows_per_table,
        dataset_bytes=all_rows * DATA_BYTES_PER_ROW,
        volume_bytes=volume_bytes,
        threads=threads,
        warmup_s=warmup_s,
        measure_s=measure_s,
        settle_max_s=suite.settle_max_s,
        distribution=suite.distribution,
        fresh_data=options.fresh_data,
        cells=cells,
        estimated_s=INSTANCE_OVERHEAD_S
        + len(cells) * (warmup_s + measure_s + runs_a_cell * PROCESS_OVERHEAD_S),
    )


def _decide_cells(suite: Suite) -> tuple[QuickCell, ...]:
    other: ArmName = "local" if suite.first_arm == "ceph" else "ceph"
    orders: tuple[tuple[ArmName, ArmName], ...] = (
        (suite.first_arm, other),
        (other, suite.first_arm),
    )
    return tuple(
        QuickCell(workload, arm)
        for position, workload in enumerate(suite.workloads)
        for arm in orders[position % 2]
    )


def _decide_option(name: str, asked: int | None, default: int, low: int, high: int) -> int:
    if asked is None:
        return default
    if not low <= asked <= high:
        raise UsageError(f"{name} {asked} is out of range.", f"Use a number from {low} to {high}.")
    return asked
