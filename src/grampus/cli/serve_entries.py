"""What commands and `grampus serve` do for the read-write entry: keep it leading to databases."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.entries.entries import Entries

# After a failover clients wait for it. It costs a look into the records unless something changed.
ENTRIES_EVERY_S = 1.0
# Whether HAProxy runs on each host, and leads where it shall.
VERIFIES_EVERY_S = 15.0


def direct_now(session: Session) -> None:
    """As a command does at its end: what fails is noted, and repeated by the next one."""
    for _, error in Entries(session.databases().operations).settle():
        session.progress.note(f"warning: {error}")


class EntryWatch:
    """The job of the controller; it remembers when hosts were asked last."""

    def __init__(self) -> None:
        self._verified_s: float | None = None

    def run(self, session: Session) -> list[ControllerEvent]:
        """Bring each entry host to where it shall lead."""
        now_s = session.clock.monotonic_s()
        is_due = self._verified_s is None or now_s - self._verified_s >= VERIFIES_EVERY_S
        if is_due:
            self._verified_s = now_s
        failed = Entries(session.databases().operations).settle(verifies=is_due)
        known = session.databases().operations.records.hosts()
        return [failure_of(name if name in known else "", error) for name, error in failed]
