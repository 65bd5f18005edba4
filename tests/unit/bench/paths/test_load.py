"""A figure from a fio job and from a sysbench run."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.latency.histogram import LatencyHistogram, histogram_of_latencies
from grampus.bench.paths.cpu import CpuReading
from grampus.bench.paths.database import decide_database_figure, decide_load, render_pass
from grampus.bench.paths.fio_job import Timing
from grampus.bench.paths.fio_output import FioPoint
from grampus.bench.paths.load import decide_figure, decide_timeout_s
from grampus.bench.paths.suite import DatabaseMeasure, PathsSuite
from grampus.bench.suite import load_suite
from grampus.bench.sysbench import TimedRun
from grampus.bench.sysbench_output import parse_summary
from tests.fakes.sysbench_host import run_output
from tests.unit.bench.paths.test_fio_job import measure

POINT = FioPoint(
    name="x",
    started_at_s=100.0,
    runtime_s=2.0,
    operations=400,
    iops=200.0,
    bytes_per_s=3_276_800.0,
    latency=histogram_of_latencies([4_000_000] * 400, source="fio"),
    flush=histogram_of_latencies([1_000_000] * 400, source="fio"),
)
UPDATE = DatabaseMeasure(name="update-index", title="updates", script="oltp_update_index")
READINGS = [
    CpuReading(99.0, {"bench-load": 0, "qsd": 0}),
    CpuReading(103.0, {"bench-load": 400_000, "qsd": 800_000}),
]


def test_cpu_is_counted_while_it_is_measured() -> None:
    made = decide_figure(measure("x"), POINT, READINGS, ["bench-load", "qsd"])
    # Two of the four seconds: 600,000 us for 400 operations.
    assert made.cpu_us_per_operation == pytest.approx(1500.0)
    assert made.started_at_s == 100.0
    assert (made.throughput, made.latency_avg_us) == (200.0, 4000.0)
    late = decide_figure(measure("x"), POINT, READINGS[:1], ["bench-load"])
    assert late.cpu_us_per_operation is None


def test_with_a_flush_an_operation_is_both() -> None:
    one = measure("x", fsync=True)
    assert decide_figure(one, POINT, READINGS, []).latency_avg_us == 5000.0


def test_sequential_loads_are_told_in_bytes() -> None:
    one = measure("x", pattern="write", block_bytes="1M")
    assert decide_figure(one, POINT, READINGS, []).throughput == 3_276_800.0


def test_a_sysbench_run_is_a_figure_too() -> None:
    summary = parse_summary("\n".join(run_output(4)))
    timed = TimedRun(summary, (), 10.0, 14.0)
    latency = histogram_of_latencies([1_000_000] * 1637 + [9_000_000], source="sysbench")
    made = decide_database_figure(UPDATE, timed, latency, cpu_us=163_800.0, osd_cpu_us=81_900.0)
    assert (made.measure, made.throughput, made.operations) == ("update-index", 408.02, 1638)
    assert made.latency_avg_us == pytest.approx(19570)
    assert made.cpu_us_per_operation == pytest.approx(100.0)
    assert made.latency is latency
    assert made.osd_cpu_us_per_operation == pytest.approx(50.0)
    unknown = decide_database_figure(
        UPDATE, timed, LatencyHistogram(), cpu_us=None, osd_cpu_us=None
    )
    assert (unknown.cpu_us_per_operation, unknown.osd_cpu_us_per_operation) == (None, None)


def test_the_osds_cpu_is_counted_where_it_was_read() -> None:
    readings = [
        CpuReading(99.0, {"osd-0": 0, "osd-1": 100}),
        CpuReading(103.0, {"osd-0": 400_000, "osd-1": 100}),
    ]
    made = decide_figure(measure("x"), POINT, readings, [])
    assert made.osd_cpu_us_per_operation == pytest.approx(500.0)
    assert decide_figure(measure("x"), POINT, READINGS, []).osd_cpu_us_per_operation is None


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({}, 60 + 15 + 2 * 0.4),
        ({"time_factor": 2}, 60 + 15 + 2 * 0.8),
        ({"sustained": True}, 60 + 15 + 2 * 300),
        # 64 MiB at a hundred 4K writes a second: slow, and no reason to give up.
        ({"total_bytes": "64M"}, 60 + 15 + 163.84),
    ],
)
def test_fio_is_given_up_only_when_it_hangs(changed: dict[str, object], seconds: float) -> None:
    timing = Timing(runtime_ms=400, ramp_ms=100, sustained_ms=300_000)
    assert decide_timeout_s([measure("x", **changed)], timing) == pytest.approx(seconds)


def test_a_pass_reads_every_table() -> None:
    lines = render_pass(3).splitlines()
    assert [line.split()[-1] for line in lines] == [f"sbtest.sbtest{n};" for n in (1, 2, 3)]


def test_the_data_set_is_that_of_the_scale() -> None:
    suite = load_suite(Path(__file__).parents[4] / "suites", "paths")
    assert isinstance(suite, PathsSuite)
    load = decide_load(suite.database, suite.scales["tiny"])
    assert (load.tables, load.rows_per_table, load.threads) == (4, 100_000, 8)
    assert (load.distribution, load.fresh_data) == ("uniform", True)
