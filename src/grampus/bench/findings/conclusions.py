"""Which of a source's conclusions hold in a run, do not, or cannot be told.

A conclusion rests on claims, each about the ratio of two cells: its interval lies within the
claim's limits (yes), outside of them (no), or neither (unknown). Without figures, or where the load
generator was the limit, a claim is untested. What follows is plain logic: of claims that must all
hold one that does not is enough, and of claims of which one must hold none may be left open.

Where any one of several claims of a series would decide, its error of 5% is divided among them. A
run that is looked at before its last round spends that error over its looks (`looks.py`).
Series and pairs beside each other (such as one for each workload) must all hold: that they do needs
no such division. One that does not is enough against the conclusion, so `no` takes an interval
whose error is divided by their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal

from grampus.bench.declared import word_list
from grampus.bench.findings.comparisons import scale_of
from grampus.bench.findings.looks import ERROR, decide_level
from grampus.bench.findings.quantities import Pairs, Parts, pair_rounds, take_apart
from grampus.bench.findings.rounds import (
    CellRounds,
    describe_cell,
    distinct,
    gather_rounds,
    varied_names,
)
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.conclusions import (
    BestConclusion,
    Conclusion,
    KneeConclusion,
    RatioConclusion,
    TrendConclusion,
)
from grampus.bench.matrix.dimensions import Value, value_of
from grampus.bench.matrix.expansion import CELL_OVERHEAD_S, compared_cells
from grampus.bench.matrix.suite import MatrixSuite
from grampus.bench.statistics.effect import Effect, decide_effect
from grampus.core.units import format_digits
from grampus.state.matrix_runs import MatrixRun, Trial

if TYPE_CHECKING:
    from grampus.bench.statistics.planning import Needed

Truth = Literal["yes", "no", "unknown", "untested"]
ConclusionWord = Literal["holds", "does-not-hold", "undecided", "not-tested"]
WORDS: Mapping[Truth, ConclusionWord] = {
    "yes": "holds",
    "no": "does-not-hold",
    "unknown": "undecided",
    "untested": "not-tested",
}
_SHOWN_CLAIMS = 4
# Only for what is left open.
_NEEDED = "grampus.bench.findings.needed"


@dataclass(frozen=True)
class Claim:
    """`over` / `under` of one quantity, held against limits; None is no limit on that side.

    `what` says of which cells; `reason` is why nothing was compared. `parts` are of a quantity that
    is divided by another (IOPS per GB). `needed` is of a claim that stays unknown. `confidence` is
    that of the interval, over all looks.
    """

    what: str
    over_cell_id: str
    under_cell_id: str
    at_least: float | None
    at_most: float | None
    truth: Truth
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ERROR
    rounds: int = 0
    reason: str | None = None
    parts: Parts | None = None
    needed: Needed | None = None  # what would have decided it, where that is known


@dataclass(frozen=True)
class ConclusionFinding:
    """`sentence` gives our figures with their intervals, and the source's own where it has one;
    `why` is what was seen of the compared cells (`reasons.py`), empty where that is nothing.
    """

    name: str
    says: str
    test: str
    quantity: str
    word: ConclusionWord
    sentence: str
    claims: tuple[Claim, ...]
    published: float | None
    why: str = ""
    repeats: str | None = None  # the conclusion whose fact it is in another unit


@dataclass(frozen=True)
class _Decided:
    truth: Truth
    claims: tuple[Claim, ...]
    note: str = ""  # a sentence on what the claims do not say


@dataclass(frozen=True)
class _Compared:
    """The rounds of a run by cell id, and what is to be decided of them."""

    gathered: Mapping[str, CellRounds]
    conclusion: Conclusion
    error: float  # of all that decides it together, at this look
    beside: int  # series or pairs beside each other, any of which would refute it
    untestable: str | None  # at this place, whatever was measured
    beside_s: float = 0.0  # what a trial takes beside its measuring
    last: Value | None = None  # the last value of the dimension that it goes along, in the suite


def decide_conclusions(
    suite: MatrixSuite, run: MatrixRun, trials: Sequence[Trial]
) -> list[ConclusionFinding]:
    """A finding for each conclusion of the suite, in its order.

    Raises GrampusError with code `latency-document` for a latency that cannot be read.
    """
    gathered, error = gather_rounds(run, trials), decide_level(run, trials)
    found = []
    for one in suite.conclusions:
        groups = compared_cells(suite, scale_of(run), one)
        untestable = one.not_in_labs if run.shape_only else None
        beside_s = run.warmup_s + CELL_OVERHEAD_S
        last = None if one.test == "ratio" else suite.dimensions[one.along][-1]
        compared = _Compared(gathered, one, error, len(groups), untestable, beside_s, last)
        found.append(_decide(compared, groups, has_source=suite.source is not None))
    return found


def all_of(truths: Sequence[Truth]) -> Truth:
    """Whether all hold: one that does not is enough, none may be open."""
    if "no" in truths:
        return "no"
    if all(one == "untested" for one in truths):
        return "untested"
    return "yes" if all(one == "yes" for one in truths) else "unknown"


def any_of(truths: Sequence[Truth]) -> Truth:
    """Whether one holds: that is enough; when none does, none may be open."""
    if "yes" in truths:
        return "yes"
    if all(one == "untested" for one in truths):
        return "untested"
    return "no" if all(one == "no" for one in truths) else "unknown"


def _decide(
    compared: _Compared, groups: Sequence[Sequence[Cell]], *, has_source: bool
) -> ConclusionFinding:
    conclusion = compared.conclusion
    if conclusion.test == "ratio":
        decided = [_decide_ratio(compared, conclusion, group) for group in groups]
    elif conclusion.test == "best":
        decided = [_decide_best(compared, conclusion, group) for group in groups]
    elif conclusion.test == "knee":
        decided = [_decide_knee(compared, conclusion, group) for group in groups]
    else:
        decided = [_decide_trend(compared, conclusion, group) for group in groups]
    truth = all_of([one.truth for one in decided])
    claims = tuple(claim for one in decided for claim in one.claims)
    published = conclusion.published if conclusion.test == "ratio" else None
    return ConclusionFinding(
        name=conclusion.name,
        says=conclusion.says,
        test=conclusion.test,
        quantity=conclusion.quantity,
        word=WORDS[truth],
        sentence=" ".join(
            [
                render_conclusion(conclusion, truth, claims, has_source=has_source),
                *dict.fromkeys(one.note for one in decided if one.note),
            ]
        ),
        claims=claims,
        published=published,
        repeats=conclusion.repeats,
    )


def _decide_ratio(
    compared: _Compared, conclusion: RatioConclusion, pair: Sequence[Cell]
) -> _Decided:
    claim = _claim(
        compared, pair[0], pair[1], at_least=conclusion.at_least, at_most=conclusion.at_most
    )
    return _Decided(claim.truth, (claim,))


def _decide_best(
    compared: _Compared, conclusion: BestConclusion, series: Sequence[Cell]
) -> _Decided:
    """One of the expected values is better than each other one."""
    expected = [cell for cell in series if _along(cell, conclusion) in conclusion.expected]
    others = [cell for cell in series if cell not in expected]
    level = compared.error / max(len(expected), len(others), 1)
    most = conclusion.better == "most"
    limits: dict[str, float | None] = {
        "at_least": 1.0 if most else None,
        "at_most": None if most else 1.0,
    }
    if not expected or not others:
        wanted = word_list([str(value) for value in conclusion.expected])
        reason = (
            f"The run has no {conclusion.along} but {wanted}."
            if expected
            else f"The run has no {conclusion.along} {wanted}."
        )
        return _Decided("untested", (_untested(series[0], series[-1], reason),))
    by_value = [
        [_claim(compared, one, other, level=level, **limits) for other in others]
        for one in expected
    ]
    truth = any_of([all_of([claim.truth for claim in claims]) for claims in by_value])
    return _Decided(truth, tuple(claim for claims in by_value for claim in claims))


def _decide_knee(
    compared: _Compared, conclusion: KneeConclusion, series: Sequence[Cell]
) -> _Decided:
    """Past the last of the expected values no step brings more than it should.

    Without expected values that is the last step: past some value, there is no more to gain. A step
    that brings little, with another after it that brings much, is no knee. A scale that leaves out
    the last values of the suite cannot refute it.
    """
    steps = list(pairwise(series))
    knees = [
        number
        for number, (here, _) in enumerate(steps)
        if not conclusion.expected or _along(here, conclusion) in conclusion.expected
    ]
    if not knees:
        wanted = word_list([str(value) for value in conclusion.expected])
        reason = f"The run has no {conclusion.along} {wanted} with a value past it."
        return _Decided("untested", (_untested(series[0], series[-1], reason),))
    past = steps[knees[-1] :]
    claims = [
        _claim(
            *(compared, further, here),
            at_most=1 + conclusion.gain_below,
            level=compared.error / len(past),
        )
        for here, further in past
    ]
    truth, end = all_of([claim.truth for claim in claims]), _along(series[-1], conclusion)
    if truth == "no" and not conclusion.expected and end != compared.last:
        note = f"The run ends at {conclusion.along} {end}: beyond, there may be such a step."
        return _Decided("unknown", tuple(claims), note)
    return _Decided(truth, tuple(claims))


def _decide_trend(
    compared: _Compared, conclusion: TrendConclusion, series: Sequence[Cell]
) -> _Decided:
    """From the first to the last by more than the tolerance; level: no two differ by more."""
    most = 1 + conclusion.tolerance
    first, last = series[0], series[-1]
    if conclusion.direction == "rises":
        claims = [_claim(compared, last, first, at_least=most)]
    elif conclusion.direction == "falls":
        claims = [_claim(compared, last, first, at_most=1 / most)]
    else:
        pairs = list(combinations(series, 2))
        claims = [
            _claim(
                *(compared, further, here),
                at_least=1 / most,
                at_most=most,
                level=compared.error / len(pairs),
            )
            for here, further in pairs
        ]
    return _Decided(all_of([claim.truth for claim in claims]), tuple(claims))


def _claim(
    compared: _Compared,
    over: Cell,
    under: Cell,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    level: float | None = None,
) -> Claim:
    """`level` is the error of the claim alone: all of the conclusion's when not given."""
    level = compared.error if level is None else level
    found = [compared.gathered.get(cell.cell_id) for cell in (over, under)]
    arm, against = found
    if arm is None or against is None:
        return _untested(over, under, "The run does not hold both of its cells.")
    what = _describe_pair(compared, arm, against)
    if compared.untestable is not None:
        return _untested(over, under, compared.untestable, what)
    pairs = pair_rounds(compared.conclusion.quantity, arm, against)
    if pairs.reason is not None:
        return _untested(over, under, pairs.reason, what)
    effect = _effect(pairs, level)
    truth = decide_truth(effect, at_least, at_most)
    if truth == "no" and compared.beside > 1:
        level /= compared.beside
        effect = _effect(pairs, level)
        truth = decide_truth(effect, at_least, at_most)
    truth = "unknown" if _too_coarse(pairs, level) else truth
    needed = None
    if truth == "unknown" and effect.low is not None and effect.ratio is not None:
        needed = import_module(_NEEDED).decide_needed_rounds(
            *(compared.conclusion.quantity, (arm, against), pairs, (at_least, at_most)),
            ratio=effect.ratio,
            level=level,
            beside_s=compared.beside_s,
        )
    return Claim(
        what=what,
        over_cell_id=over.cell_id,
        under_cell_id=under.cell_id,
        at_least=at_least,
        at_most=at_most,
        truth=truth,
        needed=needed,
        ratio=effect.ratio,
        low=effect.low,
        high=effect.high,
        confidence=1 - ERROR * level / compared.error,
        rounds=effect.rounds,
        parts=take_apart(compared.conclusion.quantity, arm, against),
    )


def _effect(pairs: Pairs, level: float) -> Effect:
    resolution = min(pairs.resolution, 0.99)
    return decide_effect(pairs.figures, better="more", level=level, resolution=resolution)


def decide_truth(effect: Effect, at_least: float | None, at_most: float | None) -> Truth:
    """Whether the whole interval lies within the limits (yes), outside (no), or neither."""
    if effect.low is None or effect.high is None:
        return "unknown"
    if at_least is not None and effect.high < at_least:
        return "no"
    if at_most is not None and effect.low > at_most:
        return "no"
    within = (at_least is None or effect.low >= at_least) and (
        at_most is None or effect.high <= at_most
    )
    return "yes" if within else "unknown"


def _too_coarse(pairs: Pairs, level: float) -> bool:
    """A few equal ratios are coarse figures, not an absence of noise (as `effect` takes them)."""
    ratios = [over / under for over, under in pairs.figures]
    return 2 / 2 ** len(ratios) > level and max(ratios) - min(ratios) <= 1e-12 * max(ratios)


def _untested(over: Cell, under: Cell, reason: str, what: str = "") -> Claim:
    return Claim(what, over.cell_id, under.cell_id, None, None, "untested", reason=reason)


def _along(cell: Cell, conclusion: BestConclusion | KneeConclusion | TrendConclusion) -> Value:
    return value_of(cell.point, conclusion.along)


def _describe_pair(compared: _Compared, over: CellRounds, under: CellRounds) -> str:
    """What differs between the two, after where in the matrix they are."""
    conclusion = compared.conclusion
    everything = [one.cell for one in compared.gathered.values()]
    apart = varied_names([over.cell, under.cell])
    shared = [
        name for name in varied_names(everything) if name not in apart and name not in conclusion.at
    ]
    where = f"{describe_cell(over.cell, shared)}: " if shared else ""
    if conclusion.test == "ratio" and over.cell.arm and under.cell.arm:
        return f"{where}{over.cell.arm} over {under.cell.arm}"
    sides = [", ".join(str(one.cell.point.get(name)) for name in apart) for one in (over, under)]
    name = "" if conclusion.test == "ratio" else f"{conclusion.along} "
    return f"{where}{name}{sides[0]} over {sides[1]}"


def render_conclusion(
    conclusion: Conclusion, truth: Truth, claims: Sequence[Claim], *, has_source: bool
) -> str:
    """Some sentences: our figures, what they had to be, and what the suite's source has."""
    tested = [claim for claim in claims if claim.ratio is not None]
    untested = distinct(claim.reason for claim in claims if claim.reason is not None)
    if not tested:
        why = " ".join(untested[:2]) or "This scale leaves out the cells that it compares."
        return f"Not tested: {why}"
    shown = [
        _render_claim(claim, claim.ratio)
        for claim in tested[:_SHOWN_CLAIMS]
        if claim.ratio is not None
    ]
    if len(tested) > _SHOWN_CLAIMS:
        shown.append(f"and {len(tested) - _SHOWN_CLAIMS} more")
    said = [f"Of {conclusion.quantity}, {'; '.join(shown)}. {_wanted(conclusion)}"]
    if truth == "unknown" and all(claim.low is None for claim in tested):
        said.append("Two rounds are the least that has an interval.")
    if truth == "unknown":
        # Without an interval nothing is known of the noise.
        needed = [one.needed for one in tested if one.truth == "unknown" and one.low is not None]
        said += [import_module(_NEEDED).render_needed(needed)] if needed else []
    if untested:
        said.append(f"Not tested in {len(claims) - len(tested)} of {len(claims)}: {untested[0]}")
    if conclusion.test == "ratio" and conclusion.published is not None:
        who = "source has" if has_source else "suite expects"
        said.append(f"The {who} {format_digits(conclusion.published)}.")
    elif conclusion.test == "ratio" and has_source:
        said.append("The source has no figure for it.")
    return " ".join(said)


def _render_claim(claim: Claim, ratio: float) -> str:
    rounds = f"{claim.rounds} round{'' if claim.rounds == 1 else 's'}"
    apart = "" if claim.parts is None else f"; {_render_parts(claim.parts)}"
    if claim.low is None or claim.high is None:
        return f"{claim.what}: {format_digits(ratio)} ({rounds}, no interval{apart})"
    interval = f"{format_digits(claim.low)} to {format_digits(claim.high)}"
    level = describe_confidence(claim.confidence)
    return f"{claim.what}: {format_digits(ratio)} ({level} interval {interval}, {rounds}{apart})"


def describe_confidence(confidence: float) -> str:
    """As `95%` or `98.3%`: rounded down, so that no interval promises more than it keeps."""
    return f"{math.floor(confidence * 1000 + 1e-6) / 10:g}%"


def _render_parts(parts: Parts) -> str:
    own, divisor = format_digits(parts.ratio), format_digits(parts.divisor_ratio)
    return f"{parts.plain} alone {own}, {parts.divisor} that it is divided by {divisor}"


def _wanted(conclusion: Conclusion) -> str:
    if conclusion.test == "ratio":
        if conclusion.at_least is None:
            return f"It holds up to {conclusion.at_most:.3g}."
        if conclusion.at_most is None:
            return f"It holds from {conclusion.at_least:.3g} on."
        return f"It holds from {conclusion.at_least:.3g} to {conclusion.at_most:.3g}."
    if conclusion.test == "best":
        side = "above" if conclusion.better == "most" else "below"
        return f"It holds where one value is {side} 1 against each other one."
    if conclusion.test == "knee":
        return f"It holds where each step stays below {1 + conclusion.gain_below:.3g}."
    most = 1 + conclusion.tolerance
    if conclusion.direction == "rises":
        return f"It rises from {most:.3g} on."
    if conclusion.direction == "falls":
        return f"It falls up to {1 / most:.3g}."
    return f"It is level from {1 / most:.3g} to {most:.3g}."
