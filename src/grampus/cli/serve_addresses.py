"""What `grampus serve` does for the address hook: tells it what it was not told yet."""

from __future__ import annotations

from grampus.cli.composition.address_hook import address_announcing
from grampus.cli.composition.session import Session
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of

ADDRESSES_EVERY_S = 5.0
# After a failure: a program that hangs would be called all the time.
RESTS_S = 60.0


def announce_now(session: Session) -> None:
    """As a command does at its end: what fails is noted, and repeated by the next one."""
    announcing = address_announcing(session)
    for _, error in announcing.tell() if announcing is not None else ():
        session.progress.note(f"warning: {error}")


def announce_addresses(session: Session) -> list[ControllerEvent]:
    """Call the hook for each database that is at another place than it was told last."""
    announcing = address_announcing(session)
    if announcing is None:
        return []
    return [failure_of(name, error) for name, error in announcing.tell(rests_s=RESTS_S)]
