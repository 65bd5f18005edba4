"""What failed and is to be tried again: when, and what is said of it meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from grampus.databases.controller.decide_telling import decide_wait_s
from grampus.databases.controller.due_jobs import ControllerEvent


@dataclass(frozen=True)
class _Retry:
    failures: int
    next_s: float  # monotonic
    event: ControllerEvent


class Retries:
    """Failures by database. The first retry is after `after_s`, each later one after twice as long,
    up to `most_s`."""

    def __init__(self, after_s: float, most_s: float) -> None:
        self._after_s = after_s
        self._most_s = most_s
        self._failed: dict[str, _Retry] = {}

    def keep(self, names: Collection[str]) -> None:
        """Forget those of all others: what was to be done for them is done, or needed no more."""
        self._failed = {name: one for name, one in self._failed.items() if name in names}

    def resting(self, now_s: float) -> set[str]:
        """Those that are not tried yet."""
        return {name for name, one in self._failed.items() if one.next_s > now_s}

    def failed(self, event: ControllerEvent, now_s: float) -> None:
        """What `event` is about has failed once more."""
        known = self._failed.get(event.database)
        failures = 1 if known is None else known.failures + 1
        wait_s = decide_wait_s(self._after_s, failures - 1, most_s=self._most_s)
        self._failed[event.database] = _Retry(failures, now_s + wait_s, event)

    def succeeded(self, name: str) -> None:
        """Nothing is to be tried again for this one."""
        self._failed.pop(name, None)

    def events(self, but: Collection[str] = ()) -> list[ControllerEvent]:
        """What is so until a retry has succeeded, except of the databases `but`."""
        return [one.event for name, one in self._failed.items() if name not in but]
