"""How far a run's figures can be trusted: pure statistics and the sentences they lead to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from grampus.core.units import format_bytes
from grampus.state.runs import WorkloadResult

# Half against half of a measuring time: more than this is drift, not noise.
MAX_HALF_DIFFERENCE = 0.15
# The published references measure for 300 s, after 300 s of warm-up.
SHORT_MEASURE_S = 60
MIN_DATASET_RATIO = 1.5
BUSY_MACHINE_SHARE = 0.25
ONE_REPEAT = (
    "Each point was measured once: there is no confidence interval, and a small difference "
    "may be chance."
)


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Sample standard deviation over mean; 0 with fewer than two values or a mean of zero."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    if mean == 0:
        return 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance) / mean


def half_difference(values: Sequence[float]) -> float:
    """(mean of the second half - mean of the first) / mean of all; the middle one is left out.

    0 with fewer than four values or a mean of zero.
    """
    half = len(values) // 2
    total = math.fsum(values)
    if half < 2 or total == 0:
        return 0.0
    first = math.fsum(values[:half]) / half
    second = math.fsum(values[-half:]) / half
    return (second - first) / (total / len(values))


def classify_steadiness(values: Sequence[float], *, what: str) -> str | None:
    """A warning sentence when the seconds' TPS say that `what` was not in a steady state."""
    difference = half_difference(values)
    if abs(difference) <= MAX_HALF_DIFFERENCE:
        return None
    direction = "rose" if difference > 0 else "fell"
    return (
        f"{what} was not in a steady state: its TPS {direction} by {abs(difference):.0%} from "
        "the first half of the measuring time to the second."
    )


def decide_run_warnings(
    *,
    warmup_s: int,
    measure_s: int,
    dataset_bytes: int,
    buffer_pool_bytes: int,
    busy_cores_before: float | None,
    cores: int,
) -> list[str]:
    """Warnings that follow from a run's conditions, whatever it measured."""
    warnings = [ONE_REPEAT]
    if measure_s < SHORT_MEASURE_S:
        warnings.append(
            f"Each point was measured for {measure_s} s after {warmup_s} s of warm-up: rare "
            "stalls, such as checkpoints and compactions, may be missing."
        )
    if dataset_bytes < MIN_DATASET_RATIO * buffer_pool_bytes:
        warnings.append(
            f"The data set ({format_bytes(dataset_bytes)}) is less than {MIN_DATASET_RATIO} "
            f"times the buffer pool ({format_bytes(buffer_pool_bytes)}): many reads never "
            "reach the storage."
        )
    if busy_cores_before is not None and busy_cores_before > BUSY_MACHINE_SHARE * cores:
        warnings.append(
            f"The machine was busy before the run: {busy_cores_before:.1f} of {cores} cores."
        )
    return warnings


def decide_result_warnings(workload: WorkloadResult, *, reconnects: Mapping[str, int]) -> list[str]:
    """Warnings about one workload's errors, and about connections lost, by arm."""
    warnings = []
    for arm, title in (("ceph", "Ceph"), ("local", "local disk")):
        result = workload.ceph if arm == "ceph" else workload.local
        if result.errors:
            warnings.append(
                f"{workload.name} on {title} had {result.errors} errors that sysbench ignored "
                f"({result.transactions} transactions): deadlocks or lock time-outs."
            )
        if reconnects.get(arm):
            warnings.append(
                f"{workload.name} on {title} lost and remade {reconnects[arm]} connections."
            )
    return warnings


def decide_setting_warnings(ceph: Mapping[str, str], local: Mapping[str, str]) -> list[str]:
    """A warning when the two instances do not run with the same settings."""
    differing = sorted(
        name for name in {*ceph, *local} if ceph.get(name, "unset") != local.get(name, "unset")
    )
    if not differing:
        return []
    shown = "; ".join(
        f"{name} is {ceph.get(name, 'unset')} on Ceph and {local.get(name, 'unset')} on local disk"
        for name in differing
    )
    return [f"The two instances differ in more than their storage: {shown}."]
