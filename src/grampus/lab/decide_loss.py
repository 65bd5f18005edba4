"""Whether databases go on writing when something more is lost: pure.

Ceph's own `osd ok-to-stop` judges by what placement groups last reported. Seconds after an OSD
was killed that still counts the dead one as a copy, and a second loss passes as safe. So the
lab, which sees its own daemons, counts only copies on OSDs that are alive now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def decide_copies_left(
    acting_sets: Iterable[Collection[int]], alive: Collection[int], lost: Collection[int]
) -> int:
    """The fewest copies that any placement group keeps on OSDs that are alive and not lost.

    `acting_sets` holds, for each placement group, the OSDs that have its copies.
    """
    kept = set(alive) - set(lost)
    return min((len(kept.intersection(acting)) for acting in acting_sets), default=len(kept))


def decide_keeps_quorum(mons: int, alive: Collection[str], lost: Collection[str]) -> bool:
    """Whether a majority of all `mons` is alive and not lost."""
    return len(set(alive) - set(lost)) * 2 > mons
