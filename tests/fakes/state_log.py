"""The log of a site's state, for tests: one in memory, that several copies are of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from grampus.state.log_port import LogPart, StateUnansweredError

# How the next request is disturbed: it is not carried out, or its answer is lost.
Disturbance = Literal["unheard", "unanswered"]


@dataclass
class FakeStateLog:
    """A `StateLogPort` and what `ceph.state_log.StateLog` has beside it."""

    log: str | None = None
    base: int = 0
    entries: dict[int, str] = field(default_factory=dict)
    snapshots: dict[int, str] = field(default_factory=dict)
    alive: dict[str, str] = field(default_factory=dict)
    disturbed: list[Disturbance] = field(default_factory=list)  # of the next appends, in order
    part_size: int = 500
    reads: int = 0
    is_down: bool = False

    @property
    def head(self) -> int:
        """The number of the last entry."""
        return max(self.entries, default=self.base)

    def read(self, after: int) -> LogPart | None:
        self._require_up()
        self.reads += 1
        if self.log is None:
            return None
        found = sorted((number, text) for number, text in self.entries.items() if number > after)
        return LogPart(self.log, self.base, self.head, tuple(found[: self.part_size]))

    def create(self, log: str) -> bool:
        self._require_up()
        if self.log is not None:
            return False
        self.log = log
        return True

    def append(self, log: str, head: int, text: str) -> bool:
        self._require_up()
        disturbance = self.disturbed.pop(0) if self.disturbed else None
        if disturbance == "unheard":
            raise StateUnansweredError("The cluster does not answer.")
        is_next = (log, head) == (self.log, self.head)
        if is_next:
            self.entries[head + 1] = text
        if disturbance == "unanswered":
            raise StateUnansweredError("The cluster does not answer.")
        return is_next

    def compact(self, log: str, base: int, number: int, text: str) -> bool:
        self._require_up()
        if (log, base) != (self.log, self.base):
            return False
        self.snapshots = {number: text}
        self.base = number
        self.entries = {one: entry for one, entry in self.entries.items() if one > number}
        return True

    def snapshot(self, number: int) -> str | None:
        self._require_up()
        return self.snapshots.get(number)

    def beat(self, holder: str, value: str) -> None:
        self._require_up()
        self.alive.pop(holder, None)
        if value:
            self.alive[holder] = value

    def beats(self) -> dict[str, str]:
        self._require_up()
        return dict(self.alive)

    def remove(self) -> None:
        self._require_up()
        self.log, self.base = None, 0
        self.entries.clear()
        self.snapshots.clear()
        self.alive.clear()

    def close(self) -> None:
        """Nothing waits."""

    def _require_up(self) -> None:
        if self.is_down:
            raise StateUnansweredError("The cluster does not answer.")
