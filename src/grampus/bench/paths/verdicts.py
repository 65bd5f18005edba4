"""How far a run of `paths` can be trusted, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.paths.plan import PathsPlan
from grampus.bench.verdicts import BUSY_MACHINE_SHARE
from grampus.state.runs import PathsRun

# Shorter jobs say little about what happens once a second or less often.
SHORT_RUNTIME_MS = 5000


def decide_paths_warnings(
    run: PathsRun,
    *,
    problems: Sequence[str],
    runtimes_ms: Sequence[int],
    plan: PathsPlan,
    busy_cores_before: float | None,
    cores: int,
) -> list[str]:
    """What limits the trust in `run`: what failed first, then the conditions."""
    warnings = list(problems)
    scale = plan.scale
    wanted_runtime_ms = scale.runtime_ms
    planned = {arm.name: _planned_rounds(run, arm.name) for arm in run.arms}
    incomplete = sorted({one.arm for one in run.results if one.rounds < planned[one.arm]})
    if incomplete:
        warnings.append(
            f"Fewer rounds than planned were measured on {', '.join(incomplete)}: each "
            "comparison says how many it has."
        )
    rarer = [arm for arm, rounds in planned.items() if rounds < run.rounds]
    if rarer:
        warnings.append(
            f"{', '.join(rarer)} were measured in {planned[rarer[0]]} of {run.rounds} rounds, to "
            f"end in time: with --arms {','.join(rarer)} all rounds measure them."
        )
    if run.rounds < scale.judged_from_rounds:
        warnings.append(
            f"{run.rounds} rounds are too few to judge: no target counts as reached or missed "
            f"with fewer than {scale.judged_from_rounds}."
        )
    judged = [one for one in run.comparisons if one.rounds >= scale.judged_from_rounds]
    lowest = min((one.confidence for one in judged), default=1.0)
    if lowest < 0.95:
        warnings.append(
            f"The intervals hold the true median with {lowest:.1%}, not 95%: that takes six "
            "rounds or more."
        )
    if min(runtimes_ms, default=wanted_runtime_ms) < wanted_runtime_ms:
        warnings.append(
            f"Jobs were shortened from {wanted_runtime_ms} ms to {min(runtimes_ms)} ms to end in "
            "time."
        )
    if max(runtimes_ms, default=SHORT_RUNTIME_MS) < SHORT_RUNTIME_MS:
        warnings.append(
            f"Each job ran for {max(runtimes_ms) / 1000:g} s at most: rare stalls, such as "
            "compactions, may be missing."
        )
    costs = {measure.name for measure in run.measures if measure.better == "less"}
    if any(one.cpu_us_per_operation is None for one in run.results if one.measure not in costs):
        warnings.append("The CPU time of some arms could not be read.")
    found = {(one.arm, one.measure) for one in run.results}
    for block in plan.blocks:
        for cost in block.costs:
            arm = block.xfs_arm
            if (arm, cost.of) in found and (arm, cost.name) not in found:
                warnings.append(f"What {cost.of} costs the cluster could not be counted on {arm}.")
    if busy_cores_before is not None and busy_cores_before > BUSY_MACHINE_SHARE * cores:
        warnings.append(
            f"The machine was busy before the run: {busy_cores_before:.1f} of {cores} cores."
        )
    return warnings


def _planned_rounds(run: PathsRun, arm: str) -> int:
    """In how many rounds the run was to visit the block of that arm."""
    block = arm.removesuffix("-raw").removesuffix("-xfs")
    return sum(block in order for order in run.order)
