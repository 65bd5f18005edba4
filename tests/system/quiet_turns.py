"""Tests that hold times to bounds (`alone`) run while no other lane runs a test.

All lanes hold a lock together, each for one test; a test that is to be alone has it for itself.
Whoever waits for that holds another lock, which all go through: otherwise it might wait for ever.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Names a directory of the lanes; without it there is one lane.
TURNS_VARIABLE = "GRAMPUS_TEST_TURNS"
DOOR, ROOM = "door", "room"


@contextmanager
def _locked(file: Path, mode: int) -> Iterator[None]:
    with file.open("a") as opened:
        fcntl.flock(opened, mode)
        yield


@contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Be in the room to the end of the block: with others, or alone."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as room:
        with _locked(directory / DOOR, fcntl.LOCK_EX):
            mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
            room.enter_context(_locked(directory / ROOM, mode))
        yield
