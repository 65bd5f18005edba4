"""The lock under which a lab chooses its network on this machine, and makes or removes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from grampus.core.clock import Clock
from grampus.state.locks import MACHINE_LOCKS, hold_lock_in

NETWORKS_LOCK = "grampus-lab-networks"
# Longer than a lab takes from the choice of its network until that is made, or removed.
LOCK_TIMEOUT_S = 60.0


class NetworkLock:
    """Held by one command at a time; the kernel releases it when the process ends.

    A network that was chosen is free until its bridge is there, so between the two no other lab
    may choose, of whichever home. `locks` is the same directory for all homes on a machine.
    """

    def __init__(self, clock: Clock, locks: Path = MACHINE_LOCKS) -> None:
        self._clock = clock
        self._locks = locks
        self._acquired = contextlib.ExitStack()
        self._is_held = False

    def acquire(self) -> None:
        """Wait for the lock, unless it is held already. Raises RefusedError (`busy`)."""
        if not self._is_held:
            self._acquired.enter_context(
                hold_lock_in(self._locks, NETWORKS_LOCK, self._clock, timeout_s=LOCK_TIMEOUT_S)
            )
            self._is_held = True

    def release(self) -> None:
        """Release the lock, if it is held."""
        self._is_held = False
        self._acquired.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock to the end of the block."""
        self.acquire()
        try:
            yield
        finally:
            self.release()
