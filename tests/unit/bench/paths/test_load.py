"""A figure from a fio job and from a sysbench run."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.drivers.fio_result import parse_fio_jobs
from grampus.bench.drivers.outcome import DriverOutput, DriverResult
from grampus.bench.drivers.sysbench_result import parse_sysbench
from grampus.bench.latency.histogram import histogram_of_latencies
from grampus.bench.paths.cpu import CpuReading
from grampus.bench.paths.database import decide_database_figure, decide_load, render_pass
from grampus.bench.paths.load import Timing, decide_figure, decide_timeout_s
from grampus.bench.paths.suite import DatabaseMeasure, PathsSuite
from grampus.bench.quick_suite import load_suite
from grampus.bench.sysbench import TimedRun
from tests.fakes.sysbench_host import run_output
from tests.unit.bench.paths.test_fio_jobs import measure

RECORDED = (Path(__file__).parent / "recorded" / "fio-3.41.json").read_text(encoding="utf-8")
RESULT = DriverResult(
    driver="fio",
    loop="closed",
    started_at_s=100.0,
    elapsed_s=2.0,
    operations=400,
    seconds=(),
    moved_bytes=6_553_600,
    latency=histogram_of_latencies([4_000_000] * 400, source="fio"),
    flush=histogram_of_latencies([1_000_000] * 400, source="fio"),
)
UPDATE = DatabaseMeasure(name="update-index", title="updates", script="oltp_update_index")
READINGS = [
    CpuReading(99.0, {"bench-load": 0, "qsd": 0}),
    CpuReading(103.0, {"bench-load": 400_000, "qsd": 800_000}),
]


def test_cpu_is_counted_while_it_is_measured() -> None:
    made = decide_figure(measure("x"), RESULT, READINGS, ["bench-load", "qsd"])
    # Two of the four seconds: 600,000 us for 400 operations.
    assert made.cpu_us_per_operation == pytest.approx(1500.0)
    assert made.started_at_s == 100.0
    assert (made.throughput, made.latency_avg_us) == (200.0, 4000.0)
    late = decide_figure(measure("x"), RESULT, READINGS[:1], ["bench-load"])
    assert late.cpu_us_per_operation is None


def test_with_a_flush_an_operation_is_both() -> None:
    one = measure("x", fsync=True)
    assert decide_figure(one, RESULT, READINGS, []).latency_avg_us == 5000.0


def test_sequential_loads_are_told_in_bytes() -> None:
    one = measure("x", pattern="write", block_bytes="1M")
    assert decide_figure(one, RESULT, READINGS, []).throughput == 3_276_800.0


def recorded(name: str) -> DriverResult:
    found = parse_fio_jobs(DriverOutput(RECORDED, "", 0), {})
    assert isinstance(found, dict)
    result = found[name]
    assert isinstance(result, DriverResult)
    return result


def test_a_recorded_read() -> None:
    made = decide_figure(measure("16k-randread-qd1"), recorded("16k-randread-qd1"), [], [])
    assert (made.operations, made.measured_s) == (106, 0.011)
    # As fio says it.
    assert made.throughput == pytest.approx(9636.36, abs=0.01)
    assert made.started_at_s == 1795274018.087
    assert made.latency_avg_us == pytest.approx(92.77, abs=0.01)
    in_bytes = measure("16k-randread-qd1", pattern="read", block_bytes="1M")
    assert decide_figure(
        in_bytes, recorded("16k-randread-qd1"), [], []
    ).throughput == pytest.approx(157_882_181, abs=1)


def test_a_recorded_write_with_its_flush() -> None:
    flushed = measure("4k-write-fsync", pattern="randwrite", fsync=True)
    made = decide_figure(flushed, recorded("4k-write-fsync"), [], [])
    assert (made.latency.operations, made.flush.operations) == (1, 1)
    assert made.latency_avg_us == pytest.approx(95.76 + 7907.091)


def test_a_sysbench_run_is_a_figure_too() -> None:
    result = parse_sysbench(DriverOutput("\n".join(run_output(4, tps=409.5)), "", 0))
    assert isinstance(result, DriverResult)
    timed = TimedRun(result, 10.0)
    assert timed.ended_at_s == 14.0
    made = decide_database_figure(UPDATE, timed, cpu_us=163_800.0, osd_cpu_us=81_900.0)
    assert (made.measure, made.throughput, made.operations) == ("update-index", 409.5, 1638)
    assert made.latency_avg_us == pytest.approx(19570, rel=1e-3)
    assert made.cpu_us_per_operation == pytest.approx(100.0)
    assert made.latency is result.latency
    assert made.osd_cpu_us_per_operation == pytest.approx(50.0)
    unknown = decide_database_figure(UPDATE, timed, cpu_us=None, osd_cpu_us=None)
    assert (unknown.cpu_us_per_operation, unknown.osd_cpu_us_per_operation) == (None, None)


def test_the_osds_cpu_is_counted_where_it_was_read() -> None:
    readings = [
        CpuReading(99.0, {"osd-0": 0, "osd-1": 100}),
        CpuReading(103.0, {"osd-0": 400_000, "osd-1": 100}),
    ]
    made = decide_figure(measure("x"), RESULT, readings, [])
    assert made.osd_cpu_us_per_operation == pytest.approx(500.0)
    assert decide_figure(measure("x"), RESULT, READINGS, []).osd_cpu_us_per_operation is None


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
