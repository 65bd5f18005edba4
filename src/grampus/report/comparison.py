"""Ceph against the machine's own disk, as ratios and in sentences.

A sentence never says more than one run holds: there are no repeats, so there is no interval,
and a missing or zero figure gives no ratio at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.report.figures import (
    finite,
    finite_values,
    format_duration,
    format_percent,
    format_times,
    join_words,
)
from grampus.state.runs import ArmName, OltpResult, Run, WorkloadResult

ARMS: tuple[ArmName, ...] = ("ceph", "local")
ARM_TITLES: dict[ArmName, str] = {"ceph": "Ceph", "local": "Local disk"}
ARM_PHRASES: dict[ArmName, str] = {"ceph": "Ceph", "local": "the local disk"}

# Ratios closer to 1 than this are printed as equal: the figures have three digits at best.
EQUAL_WITHIN = 0.005


@dataclass(frozen=True)
class RunComparison:
    """Ceph divided by local disk for one workload; None where a figure is missing or zero."""

    name: str
    title: str
    tps: float | None
    qps: float | None
    latency_avg: float | None
    latency_p99: float | None
    latency_max: float | None


def arm_result(workload: WorkloadResult, arm: ArmName) -> OltpResult:
    """The result of one arm."""
    return workload.ceph if arm == "ceph" else workload.local


def decide_ratio(ceph: float | None, local: float | None) -> float | None:
    """`ceph / local`, or None unless both are finite, not negative, and `local` is above zero."""
    numerator, denominator = finite(ceph), finite(local)
    if numerator is None or denominator is None or numerator < 0 or denominator <= 0:
        return None
    return finite(numerator / denominator)


def compare_workload(workload: WorkloadResult) -> RunComparison:
    """The ratios of one workload.

    A latency of zero means that nothing was measured, so it gives no ratio; zero TPS is a
    result, and gives the ratio 0.
    """
    ceph, local = workload.ceph, workload.local
    return RunComparison(
        name=workload.name,
        title=workload.title,
        tps=decide_ratio(ceph.tps, local.tps),
        qps=decide_ratio(ceph.qps, local.qps),
        latency_avg=_latency_ratio(ceph.latency_avg_ms, local.latency_avg_ms),
        latency_p99=(
            None
            if ceph.shown_p99_ms is None or local.shown_p99_ms is None
            else _latency_ratio(ceph.shown_p99_ms, local.shown_p99_ms)
        ),
        latency_max=_latency_ratio(ceph.latency_max_ms, local.latency_max_ms),
    )


def _latency_ratio(ceph_ms: float, local_ms: float) -> float | None:
    return decide_ratio(ceph_ms, local_ms) if ceph_ms > 0 else None


def describe_workload(workload: WorkloadResult) -> str:
    """What Ceph costs in this workload, in one sentence."""
    comparison = compare_workload(workload)
    return f"{_throughput_clause(workload, comparison.tps)}; {_p99_clause(comparison.latency_p99)}."


def _throughput_clause(workload: WorkloadResult, ratio: float | None) -> str:
    idle = [arm for arm in ARMS if finite(arm_result(workload, arm).tps) == 0]
    if len(idle) == len(ARMS):
        return "Neither Ceph nor the local disk finished a transaction in the measuring time"
    if idle:
        phrase = ARM_PHRASES[idle[0]]
        return f"{phrase[0].upper()}{phrase[1:]} finished no transaction in the measuring time"
    if ratio is None:
        return "The throughput of the two cannot be compared, because a figure is missing"
    if abs(ratio - 1) < EQUAL_WITHIN:
        return "Ceph delivers as many transactions as the local disk"
    if ratio < 1:
        return f"Ceph delivers {format_percent(ratio)} of the local disk's transactions"
    return f"Ceph delivers {format_times(ratio)} times the local disk's transactions"


def _p99_clause(ratio: float | None) -> str:
    if ratio is None:
        return "p99 latency cannot be compared, because a figure is missing"
    if abs(ratio - 1) < EQUAL_WITHIN:
        return "p99 latency is as long"
    if ratio < 1:
        return f"p99 latency is {format_percent(ratio)} as long"
    return f"p99 latency is {format_times(ratio)} times as long"


def describe_run(workloads: Sequence[WorkloadResult]) -> str:
    """The headline: what Ceph costs over all workloads of the run, in one sentence."""
    if not workloads:
        return "This run holds no finished workload."
    if len(workloads) == 1:
        return describe_workload(workloads[0])
    compared = [compare_workload(workload) for workload in workloads]
    shares = finite_values(comparison.tps for comparison in compared)
    if not shares:
        return "The throughput of Ceph and the local disk cannot be compared in any workload."
    scope = (
        f"in the {len(workloads)} workloads of this run"
        if len(shares) == len(workloads)
        else f"in the {len(shares)} of {len(workloads)} workloads that can be compared"
    )
    throughput = _range(format_percent(min(shares)), format_percent(max(shares)))
    sentence = f"Ceph delivers {throughput} of the local disk's transactions {scope}"
    delays = finite_values(comparison.latency_p99 for comparison in compared)
    if len(delays) < len(workloads):
        return f"{sentence}."
    latency = _range(format_times(min(delays)), format_times(max(delays)))
    return f"{sentence}; p99 latency is {latency} times as long."


def _range(lowest: str, highest: str) -> str:
    return lowest if lowest == highest else f"between {lowest} and {highest}"


def describe_trust(run: Run) -> str:
    """How far the figures carry: one run, how long a workload was measured, no interval."""
    measured = [
        second
        for workload in run.workloads
        for arm in ARMS
        if (second := finite(arm_result(workload, arm).measured_s)) is not None and second > 0
    ]
    if not measured:
        return "The figures are from one run without repeats, so they have no interval."
    shortest, longest = format_duration(min(measured)), format_duration(max(measured))
    length = shortest if shortest == longest else f"{shortest} to {longest}"
    return (
        f"The figures are from one run with {length} measured for each workload and disk, "
        "without repeats, so they have no interval: another run can differ."
    )


def describe_errors(workloads: Sequence[WorkloadResult]) -> str | None:
    """Where the driver counted errors, in one sentence, or None when there were none."""
    counted = [
        f"{arm_result(workload, arm).errors:,} on {ARM_PHRASES[arm]} in {workload.name}"
        for workload in workloads
        for arm in ARMS
        if arm_result(workload, arm).errors > 0
    ]
    if not counted:
        return None
    return f"The driver counted and ignored errors: {join_words(counted)}."
