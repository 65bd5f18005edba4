"""Whether a run reached what the suite asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.paths.intervals import MIN_ROUNDS
from grampus.bench.paths.plan import PathsPlan
from grampus.bench.paths.suite import SuiteTarget
from grampus.bench.verdicts import BUSY_MACHINE_SHARE
from grampus.state.runs import PathsComparison, PathsDifference, PathsRun, PathsTarget


def decide_targets(
    targets: Sequence[SuiteTarget],
    comparisons: Sequence[PathsComparison],
    differences: Sequence[PathsDifference],
    *,
    judged_from_rounds: int = MIN_ROUNDS,
) -> tuple[PathsTarget, ...]:
    """One verdict for each measure of each target.

    The median decides; a note says where the interval leaves room for the other verdict. With fewer
    rounds than `judged_from_rounds` it is not known whether a target was reached: chance alone
    would decide too often.
    """
    return tuple(
        _decide(target, measure, comparisons, differences, judged_from_rounds)
        for target in targets
        for measure in target.measures
    )


def _decide(
    target: SuiteTarget,
    measure: str,
    comparisons: Sequence[PathsComparison],
    differences: Sequence[PathsDifference],
    judged_from_rounds: int,
) -> PathsTarget:
    for arm in target.arms:
        found = (
            _find_ratio(comparisons, measure, arm, target.against)
            if target.is_ratio
            else _find_difference(differences, measure, arm, target.against)
        )
        if found is not None:
            value, low, high, rounds = found
            values = (value, low, high)
            if rounds < judged_from_rounds:
                note = f"measured in fewer than {judged_from_rounds} rounds"
                return _verdict(target, measure, arm, values, rounds, None, note)
            is_clear = _is_within(target, low) == _is_within(target, high)
            note = "" if is_clear else "close: the interval holds the limit"
            return _verdict(target, measure, arm, values, rounds, _is_within(target, value), note)
    note = "not measured"
    return _verdict(target, measure, target.arms[0], (None, None, None), 0, None, note)


def _is_within(target: SuiteTarget, value: float) -> bool:
    if target.at_least is not None:
        return value >= target.at_least
    limits = (target.at_most, target.added_latency_at_most_us)
    return all(value <= limit for limit in limits if limit is not None)


def _find_ratio(
    comparisons: Sequence[PathsComparison], measure: str, arm: str, against: str
) -> tuple[float, float, float, int] | None:
    for one in comparisons:
        if (one.measure, one.arm, one.against) == (measure, arm, against):
            return one.ratio, one.ratio_low, one.ratio_high, one.rounds
    return None


def _find_difference(
    differences: Sequence[PathsDifference], measure: str, arm: str, against: str
) -> tuple[float, float, float, int] | None:
    for one in differences:
        if (one.measure, one.arm, one.against) == (measure, arm, against):
            return one.difference_us, one.difference_low_us, one.difference_high_us, one.rounds
    return None


def _verdict(
    target: SuiteTarget,
    measure: str,
    arm: str,
    values: tuple[float | None, float | None, float | None],
    rounds: int,
    reached: bool | None,
    note: str,
) -> PathsTarget:
    value, low, high = values
    return PathsTarget(
        name=target.name,
        title=target.title,
        measure=measure,
        arm=arm,
        against=target.against,
        quantity="ratio" if target.is_ratio else "added-latency-us",
        at_least=target.at_least,
        at_most=target.at_most if target.is_ratio else target.added_latency_at_most_us,
        value=value,
        value_low=low,
        value_high=high,
        rounds=rounds,
        reached=reached,
        note=note,
    )


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
                warnings.append(
                    f"The cost of {cost.of} for the cluster could not be counted on {arm}."
                )
    if busy_cores_before is not None and busy_cores_before > BUSY_MACHINE_SHARE * cores:
        warnings.append(
            f"The machine was busy before the run: {busy_cores_before:.1f} of {cores} cores."
        )
    return warnings


def _planned_rounds(run: PathsRun, arm: str) -> int:
    """In how many rounds the run was to measure the block of that arm."""
    block = arm.removesuffix("-raw").removesuffix("-xfs")
    return sum(block in order for order in run.order)
