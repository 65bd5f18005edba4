"""Interrupted work that could not be settled: what was said of it, and when it is tried again.

Every command settles interrupted work first. Work that cannot be settled must not hold up, or be
told by, each command on something else: it is left to the commands on its own subject, and to the
controller, which tries it again after twice the time (INV-72).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import ConfigDict

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.state.store import Store

FIRST_WAIT_S = 30.0
MOST_WAIT_S = 1800.0
_KIND = "unsettled-work"


class Unsettled(Model):
    """The last attempt to settle something."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    operation: int  # the first that is unfinished
    said: str  # as a sentence
    failures: int
    next_at: datetime
    is_cheap: bool  # to try: its host cannot be reached


def decide_wait_s(failures: int) -> float:
    """Seconds until the next attempt after `failures` in a row."""
    return min(MOST_WAIT_S, FIRST_WAIT_S * float(2 ** min(failures - 1, 10)))


class UnsettledWork:
    """What could not be settled in one lab, by subject."""

    def __init__(self, store: Store, lab: str, clock: Clock) -> None:
        self._store = store
        self._lab = lab
        self._clock = clock

    def attempt(
        self,
        subject: str,
        operation: int,
        settle: Callable[[], list[str]],
        cannot: str,
        *,
        retries: bool,
        is_cheap: Callable[[GrampusError], bool],
    ) -> list[str]:
        """What `settle` did with the subject's work, whose first operation is `operation`.

        A failure is said once as "CANNOT: WHY", and then only to who `retries` (the controller),
        each time. Until the next attempt is due, `settle` is not called. Work that another process
        has begun (code `busy`) is left to it.
        """
        known = self.find(subject, operation)
        if not self.is_due(known, retries=retries):
            return [known.said] if known is not None and retries else []
        try:
            done = settle()
        except GrampusError as error:
            if error.code == "busy":
                return []
            said = f"{cannot}: {error}"
            is_news = self.note(subject, operation, said, is_cheap=is_cheap(error))
            return [said] if is_news or retries else []
        self.forget(subject)
        return done

    def find(self, subject: str, operation: int) -> Unsettled | None:
        """What is known of the subject's work, if `operation` is still the first of it."""
        found = self._store.get(_KIND, self._lab, subject, Unsettled)
        return found if found is not None and found.operation == operation else None

    def is_due(self, known: Unsettled | None, *, retries: bool) -> bool:
        """Whether it is to be tried now; `retries`: by who tries again what failed before."""
        if known is None or known.is_cheap:
            return True
        return retries and self._clock.now() >= known.next_at

    def note(self, subject: str, operation: int, said: str, *, is_cheap: bool) -> bool:
        """Note an attempt that failed; whether there is anything new to say of it."""
        known = self.find(subject, operation)
        failures = 1 if known is None else known.failures + 1
        next_at = self._clock.now() + timedelta(seconds=decide_wait_s(failures))
        self._store.put(
            _KIND,
            self._lab,
            subject,
            Unsettled(
                operation=operation,
                said=said,
                failures=failures,
                next_at=next_at,
                is_cheap=is_cheap,
            ),
        )
        return known is None or known.said != said

    def forget(self, subject: str) -> None:
        """It is settled."""
        self._store.remove(_KIND, self._lab, subject)
