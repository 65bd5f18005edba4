"""Whether a planned stop is made shorter by waiting for more of the changed pages. All pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# So few are written in no time, whatever the pace.
FEW_DIRTY_PAGES = 64
# What is left takes no longer than this at the pace seen: waiting costs as much as it brings.
SHORT_S = 0.3
# A look back for the pace and for the fall; more than the second for which a page cleaner that had
# nothing to do may sleep.
LOOK_BACK_S = 1.5
# By that share of the pages written there must be fewer changed ones. Below, clients or the purge
# of old row versions change nearly as many as are written, and that could go on for ever: after a
# load of updates the purge brought pages back for up to 10 s (measured, 2026-11-26).
NOTABLE_FALL = 0.1


@dataclass(frozen=True)
class DirtyPages:
    """Changed pages of a running server at one moment; `written` is counted since its start."""

    at_s: float
    dirty: int
    written: int


def keep_looked_back(seen: Sequence[DirtyPages]) -> list[DirtyPages]:
    """Of what was seen, oldest first, as much as `is_worth_waiting` looks back on."""
    oldest_s = seen[-1].at_s - LOOK_BACK_S
    later = [number for number, one in enumerate(seen) if one.at_s > oldest_s]
    return list(seen[max(0, later[0] - 1) :])


def is_worth_waiting(seen: Sequence[DirtyPages]) -> bool:
    """Whether the server has notably fewer changed pages to write at its stop if it waits.

    `seen` is what `keep_looked_back` leaves, oldest first, at least one.
    """
    first, last = seen[0], seen[-1]
    if last.dirty <= FEW_DIRTY_PAGES:
        return False
    span_s, written = last.at_s - first.at_s, last.written - first.written
    if written > 0 and last.dirty * span_s <= SHORT_S * written:
        return False
    return span_s < LOOK_BACK_S or first.dirty - last.dirty > NOTABLE_FALL * written
