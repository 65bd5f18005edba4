"""When a volume and the server on it have nothing left to write. Pure but for `await_calm`."""

from __future__ import annotations

from collections.abc import Callable

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.volumes.live import LiveVolume

# A journal that nobody adds to is brought into the image after a second; a full one takes a while.
TIMEOUT_S = 600.0
INTERVAL_S = 0.25
# A file system at rest still writes a block now and then, so never all of it is applied.
REST_BYTES = 256 * 1024


def is_drained(live: LiveVolume | None) -> bool:
    """Whether a volume holds next to nothing that its image does not.

    True without a journal. A volume that cannot be asked is not.
    """
    if live is None or live.state != "running":
        return False
    journal = live.journal
    if journal is None:
        return True
    if journal.lag_bytes > REST_BYTES:
        return False
    return journal.applied >= journal.sealed or journal.held_bytes <= REST_BYTES


def await_calm(clock: Clock, is_calm: Callable[[], bool], *, what: str) -> None:
    """Wait for it. Raises GrampusError with code `timeout`."""
    wait_until(
        clock,
        is_calm,
        what=f"{what} to come to rest",
        remedy="`grampus volume show` says what its journal does.",
        timeout_s=TIMEOUT_S,
        interval_s=INTERVAL_S,
    )


def is_calm_in_time(clock: Clock, is_calm: Callable[[], bool], *, what: str) -> bool:
    """Whether it came to rest before the waiting was given up."""
    try:
        await_calm(clock, is_calm, what=what)
    except GrampusError as error:
        if error.code != "timeout":
            raise
        return False
    return True
