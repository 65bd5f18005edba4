"""Sets of GTIDs that grow one by one, and what one has that another lacks: pure.

Beside `replicas.gtid_sets`, which reads what a server says and counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from grampus.databases.replicas.gtid_sets import GtidSet

_SHOWN_INTERVALS = 8  # in a message


class GtidTally:
    """A set of transactions; the numbers of a source nearly always come in order."""

    def __init__(self, transactions: GtidSet | None = None) -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}
        self.count = 0
        if transactions is not None:
            self.add_all(transactions)

    def add(self, source: str, number: int) -> None:
        """One transaction; nothing happens when it is there."""
        found = self._intervals.get(source)
        if found and found[-1][1] == number - 1:  # nearly always: millions are added
            found[-1] = (found[-1][0], number)
            self.count += 1
            return
        self._add(source, number, number)

    def add_all(self, transactions: GtidSet) -> None:
        for source, intervals in transactions.items():
            for first, last in intervals:
                self._add(source, first, last)

    def has(self, source: str, number: int) -> bool:
        found = self._intervals.get(source)
        if not found or found[-1][1] < number:
            return False
        at = bisect_right(found, (number, _ABOVE_ALL))
        return at > 0 and found[at - 1][1] >= number

    @property
    def transactions(self) -> GtidSet:
        return {source: tuple(found) for source, found in self._intervals.items() if found}

    def _add(self, source: str, first: int, last: int) -> None:
        found = self._intervals.setdefault(source, [])
        at = bisect_right(found, (first, _ABOVE_ALL))
        begin = at - 1 if at > 0 and found[at - 1][1] >= first - 1 else at
        end = at
        while end < len(found) and found[end][0] <= last + 1:
            end += 1
        merged = found[begin:end]
        new = (
            min([first, *(one[0] for one in merged[:1])]),
            max([last, *(one[1] for one in merged)]),
        )
        self.count += _size(new) - sum(map(_size, merged))
        found[begin:end] = [new]


_ABOVE_ALL = 1 << 64  # GTID numbers have 63 bits


def union(sets: Iterable[GtidSet]) -> GtidSet:
    """What any of them has."""
    tally = GtidTally()
    for one in sets:
        tally.add_all(one)
    return tally.transactions


def difference(wanted: GtidSet, there: GtidSet) -> GtidSet:
    """What `wanted` has and `there` lacks."""
    whole, taken = union([wanted]), union([there])
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for source, intervals in whole.items():
        left = tuple(_left(intervals, taken.get(source, ())))
        if left:
            found[source] = left
    return found


def common(one: GtidSet, other: GtidSet) -> GtidSet:
    """What both have."""
    return difference(one, difference(one, other))


def render_gtid_set(transactions: GtidSet) -> str:
    """It as MySQL writes it; long ones are cut short, for a message."""
    words = [
        f"{source}:{first}" if first == last else f"{source}:{first}-{last}"
        for source, intervals in sorted(transactions.items())
        for first, last in intervals
    ]
    more = len(words) - _SHOWN_INTERVALS
    shown = ", ".join(words[:_SHOWN_INTERVALS])
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def _left(
    intervals: Iterable[tuple[int, int]], taken: tuple[tuple[int, int], ...]
) -> list[tuple[int, int]]:
    left: list[tuple[int, int]] = []
    for first, last in intervals:
        at = first
        for taken_first, taken_last in taken:
            if taken_last < at:
                continue
            if taken_first > last:
                break
            if taken_first > at:
                left.append((at, taken_first - 1))
            at = taken_last + 1
        if at <= last:
            left.append((at, last))
    return left


def _size(interval: tuple[int, int]) -> int:
    return interval[1] - interval[0] + 1
