"""In which order each round measures the arms: balanced blocks, drawn from a seed.

Two arms go in blocks of ABBA or BAAB, so that a machine that slowly gets faster or slower favours
neither. More arms go in blocks of Williams' design (Williams 1949): in each block every arm is as
often first, second and so on, and as often right behind each other one, so that what an arm leaves
behind (a full cache, a journal to be drained) meets all of them alike. For two arms that is ABBA.
Fixed alternation was refused: whatever else on the machine has the same period would side with an
arm; and so was complete randomness: of all plans with six rounds, 22% put one arm first in five
rounds or all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from grampus.core.errors import UsageError

ItemT = TypeVar("ItemT")


def rounds_in_block(arm_count: int) -> int:
    """After how many rounds the order is balanced again: the arms, twice that for an odd number."""
    if arm_count <= 1:
        return 1
    return arm_count if arm_count % 2 == 0 else 2 * arm_count


def decide_arm_orders(
    arms: Sequence[str], *, rounds: int, seed: int
) -> tuple[tuple[str, ...], ...]:
    """For each round the order of its arms; each round measures each arm once.

    The same arms and seed give the same orders on every machine, and more rounds of them begin with
    the fewer: a run that is extended goes on as it began. Raises UsageError without arms, with two
    of one name, or with a negative number of rounds.
    """
    if not arms or len(set(arms)) != len(arms):
        raise UsageError(
            f"The arms {', '.join(arms) or '(none)'} cannot be put in an order.",
            "Name at least one arm, and each only once.",
        )
    if rounds < 0:
        raise UsageError(f"{rounds} rounds cannot be planned.", "Ask for 0 or more.")
    source = random.Random(seed)  # noqa: S311 - an order, not a secret
    orders: list[tuple[str, ...]] = []
    while len(orders) < rounds:
        labels = _shuffled(arms, source)
        rows = _shuffled(_williams(len(arms)), source)
        orders += [tuple(labels[index] for index in row) for row in rows]
    return tuple(orders[:rounds])


def _williams(count: int) -> list[tuple[int, ...]]:
    """The rows 0 1 n-1 2 n-2 ..., each shifted by one; of an odd number their mirror images too."""
    first = [0]
    low, high = 1, count - 1
    while low <= high:
        first.append(low)
        if low < high:
            first.append(high)
        low, high = low + 1, high - 1
    rows = [tuple((index + shift) % count for index in first) for shift in range(count)]
    if count % 2 and count > 1:
        rows += [tuple(reversed(row)) for row in rows]
    return rows


def _shuffled(items: Sequence[ItemT], source: random.Random) -> list[ItemT]:
    """By Fisher and Yates. Python promises random() for a seed, and not shuffle(), for ever."""
    found = list(items)
    for last in range(len(found) - 1, 0, -1):
        other = int(source.random() * (last + 1))
        found[last], found[other] = found[other], found[last]
    return found
