"""What is said of cells beside their figures: once, with the names of those that it is said of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A list to read: beyond so many cells, their number is told.
_NAMED_CELLS = 8
# The order of their kinds; those of one kind stay in the order of the cells.
_KINDS = ("Marked", "Client-bound", "Bottleneck", "Unsteady", "Not known to be steady", "Note")


@dataclass(frozen=True)
class Remark:
    """Something that is said of cells; `kind` may begin with a word of `_KINDS` and name more."""

    kind: str
    text: str
    cells: str


def gather_remarks(
    said: Iterable[tuple[str, str, str]], cells: Sequence[str]
) -> tuple[Remark, ...]:
    """Of (kind, text, of what) the remarks in their order; `cells` are all names that there are.

    What is said of all cells names none; where it says more than their names, as in which rounds,
    it does.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for kind, text, what in said:
        found.setdefault((kind, text), {})[what] = None
    ordered = sorted(found.items(), key=lambda one: _place_of(one[0][0]))
    return tuple(Remark(kind, text, _name(list(named), cells)) for (kind, text), named in ordered)


def _place_of(kind: str) -> int:
    return next(place for place, one in enumerate(_KINDS) if kind.startswith(one))


def _name(named: Sequence[str], cells: Sequence[str]) -> str:
    if len(cells) > 1 and set(named) == set(cells):
        return "both cells" if len(cells) == 2 else f"all {len(cells)} cells"
    if len(named) <= _NAMED_CELLS:
        return "; ".join(named)
    return f"{'; '.join(named[:_NAMED_CELLS])}; and {len(named) - _NAMED_CELLS} more cells"
