"""What one operation costs the cluster."""

from __future__ import annotations

import pytest

from grampus.bench.latency.histogram import LatencyHistogram, histogram_of_latencies
from grampus.bench.paths.costs import (
    OsdWrites,
    count_writes,
    decide_cost_figures,
    parse_osd_writes,
)
from grampus.bench.paths.load import Figure
from grampus.bench.paths.suite import Cost

WRITES = Cost(name="writes", title="w", of="update-index", counts="rados-writes")
CPU = Cost(name="cpu", title="c", of="sustained", counts="osd-cpu-us")
LATENCY = Cost(name="latency", title="l", of="update-index", counts="latency-p50-us")


def figure(measure: str, *, cpu_us: float | None, writes: float | None) -> Figure:
    return Figure(
        measure=measure,
        started_at_s=1.0,
        measured_s=2.0,
        operations=10,
        throughput=5.0,
        latency_avg_us=3.0,
        cpu_us_per_operation=1.0,
        latency=histogram_of_latencies([1_000_000] * 10, source="fio"),
        flush=LatencyHistogram(),
        osd_cpu_us_per_operation=cpu_us,
        rados_writes_per_operation=writes,
    )


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"osd": {"op_w": 7, "op_rw": 5, "subop_w": 99}}, 12),
        ({"osd": {"op_w": 7}}, None),
        ({"osd": {"op_w": 7, "op_rw": "many"}}, None),
        ({"osd": 7}, None),
        ({}, None),
    ],
)
def test_an_osds_answer(document: dict[str, object], expected: int | None) -> None:
    assert parse_osd_writes(document) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({0: 10, 1: 5}, {0: 15, 1: 5}, 5),
        ({0: 10, 1: 5}, {0: 15}, None),
        ({0: 10}, {0: 15, 1: 5}, None),
        ({0: 10, 1: 5}, {0: 15, 1: 2}, None),  # it started anew
        ({}, {}, None),
    ],
)
def test_writes_between_two_readings(
    before: OsdWrites, after: OsdWrites, expected: int | None
) -> None:
    assert count_writes(before, after) == expected


def test_a_cost_is_a_figure_of_its_own() -> None:
    figures = [
        figure("update-index", cpu_us=4.0, writes=2.5),
        figure("sustained", cpu_us=30.0, writes=None),
        figure("other", cpu_us=1.0, writes=1.0),
    ]
    made = decide_cost_figures([WRITES, CPU, LATENCY], figures)
    costs = [(one.measure, one.throughput) for one in made]
    assert costs == [("writes", 2.5), ("cpu", 30.0), ("latency", pytest.approx(1000, rel=0.05))]
    assert {one.latency_avg_us for one in made} == {None}
    assert made[0].operations == 10


def test_what_was_not_counted_is_no_figure() -> None:
    figures = [figure("update-index", cpu_us=4.0, writes=None)]
    assert decide_cost_figures([WRITES, CPU], figures) == []
