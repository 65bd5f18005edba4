"""Why a source's conclusion holds here, does not, or cannot be told: what was seen. Pure.

Nothing is claimed that was not observed: which layers held the compared cells up, and how far the
rounds of one cell lay apart where an interval is too wide.
"""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.declared import word_list
from grampus.bench.findings.cells import CellFinding
from grampus.bench.findings.conclusions import Claim, ConclusionFinding
from grampus.bench.findings.rounds import distinct
from grampus.core.units import format_digits
from grampus.state.matrix_layers import LAYER_NAMES

# A spread of rounds that is worth telling of.
_SPREAD = 1.05


def explain(conclusion: ConclusionFinding, cells: Sequence[CellFinding]) -> str:
    """One or two sentences; empty where nothing was compared, or too little was seen."""
    tested = [claim for claim in conclusion.claims if claim.ratio is not None]
    # In the order of the run, which is that of the matrix.
    wanted = {one for claim in tested for one in (claim.over_cell_id, claim.under_cell_id)}
    compared = [cell for cell in cells if cell.cell_id in wanted]
    if not compared:
        return ""
    of_divisor = [claim for claim in tested if claim.parts and claim.parts.is_of_divisor]
    said = [
        _explain_bottlenecks(compared, differs=not of_divisor),
        _explain_divisor(of_divisor, len(tested)),
    ]
    if conclusion.word == "undecided" and any(claim.low is not None for claim in tested):
        said.append(_explain_width(compared))
    return " ".join(sentence for sentence in said if sentence)


def _explain_divisor(of_divisor: Sequence[Claim], tested: int) -> str:
    """That a ratio is arithmetic, where it is: it would be nearly the same had nothing changed."""
    parts = of_divisor[0].parts if of_divisor else None
    if parts is None:
        return ""
    which = "" if tested == 1 else f" in {len(of_divisor)} of {tested} comparisons"
    return (
        f"The ratio is mostly that of {parts.divisor}{which}: {parts.plain} itself is "
        f"{format_digits(parts.ratio)} times, {parts.divisor} that it is divided by "
        f"{format_digits(parts.divisor_ratio)} times."
    )


def _explain_bottlenecks(compared: Sequence[CellFinding], *, differs: bool) -> str:
    """`differs`: what differs is something that was measured, not what it is divided by."""
    known = [cell for cell in compared if cell.bottleneck != "unknown"]
    words = distinct(cell.bottleneck for cell in known)
    if len(known) < len(compared) or not words:
        return ""
    all_of_them = "Both" if len(compared) == 2 else f"All {len(compared)}"
    if words == ["none"]:
        what = ": what differs is the time that an operation takes" if differs else ""
        return f"{all_of_them} ran with no layer at its limit{what}."
    if len(words) == 1:
        what = ": what differs is how much of it an operation takes" if differs else ""
        return f"{all_of_them} were held up by {LAYER_NAMES[words[0]]}{what}."
    if len(compared) == 2:
        return f"{'; '.join(f'{cell.name} {_held_up(cell.bottleneck, 1)}' for cell in compared)}."
    counts = {word: sum(cell.bottleneck == word for cell in known) for word in words}
    said = [f"{count} {_held_up(word, count)}" for word, count in counts.items()]
    return f"Of {len(compared)} cells {word_list(said, last='and')}."


def _held_up(word: str, cells: int) -> str:
    if word == "none":
        return "had no layer at its limit"
    return f"{'was' if cells == 1 else 'were'} held up by {LAYER_NAMES[word]}"


def _explain_width(compared: Sequence[CellFinding]) -> str:
    """How far apart the rounds of one and the same cell were."""
    spreads = [
        (spread.high / spread.low, cell)
        for cell in compared
        if (spread := cell.operations_per_s) is not None and spread.low > 0
    ]
    if not spreads:
        return ""
    widest, cell = max(spreads, key=lambda one: one[0])
    if widest < _SPREAD:
        return "The interval leaves it open, though rounds were much alike."
    return (
        f"The interval leaves it open: operations a second of {cell.name} differed from round to "
        f"round by a factor of up to {format_digits(widest)}."
    )
