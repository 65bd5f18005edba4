"""A set of GTIDs that grows one by one, as the events of binary logs are read: pure.

`replicas.gtid_sets` has the arithmetic of whole sets.
"""

from __future__ import annotations

from bisect import bisect_right

from grampus.databases.replicas.gtid_sets import GtidSet


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


def _size(interval: tuple[int, int]) -> int:
    return interval[1] - interval[0] + 1
