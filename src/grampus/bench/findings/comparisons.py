"""What each arm does against the baseline, where nothing but the arm differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from grampus.bench.declared import word_list
from grampus.bench.findings.looks import decide_level, stopping_limits
from grampus.bench.findings.quantities import is_database, pair_rounds
from grampus.bench.findings.rounds import (
    CellRounds,
    describe_cell,
    gather_rounds,
    varied_names,
)
from grampus.bench.matrix.conclusions import Quantity
from grampus.bench.matrix.expansion import paired_cells
from grampus.bench.matrix.suite import SCALES, MatrixSuite, ScaleName
from grampus.bench.statistics.effect import Better, Effect, decide_effect, render_effect
from grampus.bench.statistics.several import (
    Several,
    decide_several,
    p_over_looks,
    render_several,
)
from grampus.bench.statistics.stopping import StoppingLimits
from grampus.core.errors import GrampusError
from grampus.state.matrix_runs import MatrixRun, Trial

ComparisonWord = Literal["better", "worse", "no-difference", "undecided", "not-compared"]


@dataclass(frozen=True)
class ComparisonFinding:
    """`arm` over `baseline` in one quantity; `reason` is why there is no effect, where so.

    `name` tells the pair from the others. `remains` says whether the difference is to be believed
    beside all others of the table (`statistics/several.py`); None where there is none.
    """

    arm: str
    baseline: str
    arm_cell_id: str
    baseline_cell_id: str
    name: str
    quantity: Quantity
    better: Better
    word: ComparisonWord
    effect: Effect | None
    reason: str | None
    sentence: str
    remains: bool | None = None


@dataclass(frozen=True)
class Comparisons:
    """All comparisons of a run; `line` stands under their table, empty when there is none."""

    found: tuple[ComparisonFinding, ...]
    line: str


def decide_comparisons(suite: MatrixSuite, run: MatrixRun, trials: Sequence[Trial]) -> Comparisons:
    """Every arm against the baseline: throughput, and the 99th percentile of the latencies.

    The throughput of databases is their queries a second: it is in the proportion of their
    transactions where the load is the same, and means something where it is not. Requests that
    come at a rate have no throughput of the server's.
    """
    gathered, level = gather_rounds(run, trials), decide_level(run, trials)
    found = [
        _compare(suite, gathered, name, (arm_id, baseline_id), quantity, level)
        for name in suite.arms
        if name != suite.baseline
        for arm_id, baseline_id in _pairs_of(suite, run, name)
        if arm_id in gathered and baseline_id in gathered
        for quantity in _quantities(gathered[arm_id], gathered[baseline_id])
    ]
    several, places = _decide_together(found, stopping_limits(run))
    for place, remains in zip(places, several.remains, strict=True):
        if found[place].word in ("better", "worse"):
            found[place] = replace(found[place], remains=remains)
    different = sum(one.word in ("better", "worse") for one in found)
    # What its look leaves undecided is no difference, whatever else would let it remain.
    remaining = sum(one.remains is True for one in found)
    lines = (
        render_several(several, different=different, remaining=remaining),
        render_detectable(found),
    )
    return Comparisons(tuple(found), " ".join(line for line in lines if line))


def render_detectable(found: Sequence[ComparisonFinding]) -> str:
    """The smallest difference that the run would have shown in each quantity, as a sentence.

    Of the comparisons of a quantity, the one with the most noise stands for it. Empty where none
    has rounds enough to know its noise.
    """
    shares: dict[Quantity, float] = {}
    for one in found:
        detectable = None if one.effect is None else one.effect.detectable
        if detectable is not None:
            shares[one.quantity] = max(detectable, shares.get(one.quantity, 0.0))
    if not shares:
        return ""
    parts = [f"{_describe_share(share)} of {name}" for name, share in shares.items()]
    listed = word_list(parts, last="and")
    return f"The smallest difference that such rounds show four times in five: {listed}."


def _describe_share(share: float) -> str:
    return "more than a doubling" if share >= 0.995 else f"{100 * share:.2g}%"


def scale_of(run: MatrixRun) -> ScaleName:
    """The scale of the run. Raises GrampusError for one that there is not."""
    for scale in SCALES:
        if scale == run.scale:
            return scale
    raise GrampusError(
        f"The run {run.run_id} is of the unknown scale {run.scale}.",
        "Read it with the version of Grampus that wrote it.",
        code="run-unreadable",
    )


def _pairs_of(suite: MatrixSuite, run: MatrixRun, arm: str) -> list[tuple[str, str]]:
    pairs = paired_cells(suite, scale_of(run), arm, suite.baseline or "")
    return [(one.cell_id, against.cell_id) for one, against in pairs]


def _quantities(arm: CellRounds, baseline: CellRounds) -> list[Quantity]:
    quantities: list[Quantity] = []
    if arm.cell.point.get("rate", "none") == "none":
        both = all(is_database(one.cell.point) for one in (arm, baseline))
        quantities.append("qps" if both else "iops")
    quantities.append("latency-p99")
    return quantities


def _compare(
    suite: MatrixSuite,
    gathered: Mapping[str, CellRounds],
    arm: str,
    pair: tuple[str, str],
    quantity: Quantity,
    level: float,
) -> ComparisonFinding:
    arm_id, baseline_id = pair
    cells = [one.cell for one in gathered.values()]
    names = [name for name in varied_names(cells) if name not in suite.arms[arm]]
    better: Better = "less" if quantity.startswith("latency") else "more"
    pairs = pair_rounds(quantity, gathered[arm_id], gathered[baseline_id])
    effect = None
    if pairs.reason is None:
        effect = decide_effect(
            pairs.figures, better=better, level=level, resolution=min(pairs.resolution, 0.99)
        )
    return ComparisonFinding(
        arm=arm,
        baseline=suite.baseline or "",
        arm_cell_id=arm_id,
        baseline_cell_id=baseline_id,
        name=describe_cell(gathered[arm_id].cell, names) if names else "",
        quantity=quantity,
        better=better,
        word="not-compared" if effect is None else effect.word,
        effect=effect,
        reason=pairs.reason,
        sentence=(
            f"not compared: {pairs.reason}"
            if effect is None
            else render_effect(effect, better=better)
        ),
    )


def _decide_together(
    found: Sequence[ComparisonFinding], limits: StoppingLimits | None
) -> tuple[Several, list[int]]:
    """What remains of the comparisons that have a p-value, and their places among all."""
    places, p_values = [], []
    for place, one in enumerate(found):
        if one.effect is not None and one.effect.p is not None:
            places.append(place)
            p, rounds = one.effect.p, one.effect.rounds
            p_values.append(p if limits is None else p_over_looks(p, rounds, limits))
    return decide_several(p_values), places
