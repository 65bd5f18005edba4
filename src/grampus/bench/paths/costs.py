"""What one operation takes, of the cluster or of time: from counters to figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.paths.load import Figure
from grampus.bench.paths.suite import Cost

# Counters of an OSD (`ceph tell osd.N perf dump osd`). A write that also reads, such as one that
# is done only while a condition holds, counts as `op_rw` and not as `op_w`: an append to a
# volume's journal is one. Neither counts the writes from one copy to the others.
WRITE_COUNTERS = ("op_w", "op_rw")

OsdWrites = Mapping[int, int]  # write operations of clients since the OSD started, by its number


def parse_osd_writes(document: Mapping[str, Any]) -> int | None:
    """Write operations of clients since the OSD started, in its answer; None when not told."""
    counters = document.get("osd")
    if not isinstance(counters, Mapping):
        return None
    found = [count for name in WRITE_COUNTERS if isinstance(count := counters.get(name), int)]
    return sum(found) if len(found) == len(WRITE_COUNTERS) else None


def count_writes(before: OsdWrites, after: OsdWrites) -> int | None:
    """Write operations between two readings.

    None when there is nothing to read, or when an OSD came, went or started anew meanwhile.
    """
    if not before or before.keys() != after.keys():
        return None
    added = [after[osd] - before[osd] for osd in before]
    return sum(added) if min(added) >= 0 else None


def decide_cost_figures(costs: Sequence[Cost], figures: Sequence[Figure]) -> list[Figure]:
    """The costs that `figures` tell, in the order of `costs`."""
    found = {figure.measure: figure for figure in figures}
    values = [
        (cost, figure, _spent(cost, figure))
        for cost in costs
        if (figure := found.get(cost.of)) is not None
    ]
    return [_figure(cost, figure, spent) for cost, figure, spent in values if spent is not None]


def _spent(cost: Cost, figure: Figure) -> float | None:
    if cost.counts == "osd-cpu-us":
        return figure.osd_cpu_us_per_operation
    if cost.counts == "latency-p50-us":
        median = figure.latency.percentile(50)
        return None if median is None else median.to_document()["latency_us"]
    return figure.rados_writes_per_operation


def _figure(cost: Cost, figure: Figure, spent: float) -> Figure:
    return Figure(
        measure=cost.name,
        started_at_s=figure.started_at_s,
        measured_s=figure.measured_s,
        operations=figure.operations,
        throughput=spent,
        latency_avg_us=None,
        cpu_us_per_operation=None,
        latency=LatencyHistogram(),
        flush=LatencyHistogram(),
    )
