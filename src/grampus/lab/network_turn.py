"""One lab at a time chooses its network on this machine, and makes it: others see it then."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from grampus.core.clock import Clock
from grampus.state.locks import MACHINE_LOCKS, hold_lock_in

NETWORKS_LOCK = "grampus-lab-networks"
# Longer than a lab takes from the choice of its network until that is made, or removed.
TURN_TIMEOUT_S = 60.0


class NetworkTurn:
    """The turn of one command; the kernel ends it with the process.

    A network that was chosen is free until its bridge is there, so between the two no other lab
    may choose, of whichever home. `locks` is the same directory for all homes on a machine.
    """

    def __init__(self, clock: Clock, locks: Path = MACHINE_LOCKS) -> None:
        self._clock = clock
        self._locks = locks
        self._held = contextlib.ExitStack()
        self._is_held = False

    def begin(self) -> None:
        """Wait for the turn, unless it is ours already. Raises RefusedError (`busy`)."""
        if not self._is_held:
            self._held.enter_context(
                hold_lock_in(self._locks, NETWORKS_LOCK, self._clock, timeout_s=TURN_TIMEOUT_S)
            )
            self._is_held = True

    def end(self) -> None:
        """Let the next lab have its turn, if it was ours."""
        self._is_held = False
        self._held.close()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn to the end of the block."""
        self.begin()
        try:
            yield
        finally:
            self.end()
