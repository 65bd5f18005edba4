"""Whether a run reached what the suite asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.paths.intervals import MIN_ROUNDS
from grampus.bench.paths.suite import Target
from grampus.state.runs import PathsComparison, PathsDifference, PathsTarget


def decide_targets(
    targets: Sequence[Target],
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
    target: Target,
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


def _is_within(target: Target, value: float) -> bool:
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
    target: Target,
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
