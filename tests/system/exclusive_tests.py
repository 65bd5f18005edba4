"""Tests that hold times to bounds (`alone`) run while no other lane runs a test.

A readers-writer lock: each test of a lane holds it shared, a test that is to be alone holds it
exclusively. flock(2) prefers nobody, so an exclusive test might wait for ever. Therefore a second
lock, the queue, is held while somebody waits for the first one.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Names the directory of the locks, which all lanes share; without it there is one lane.
LOCKS_VARIABLE = "GRAMPUS_TEST_LOCKS"
QUEUE, RUNNING = "queue", "running"


@contextmanager
def _locked(file: Path, mode: int) -> Iterator[None]:
    with file.open("a") as opened:
        fcntl.flock(opened, mode)
        yield


@contextmanager
def lock_of_test(directory: Path, *, alone: bool) -> Iterator[None]:
    """Run a test to the end of the block: beside others, or alone."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        with _locked(directory / QUEUE, fcntl.LOCK_EX):
            mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
            running.enter_context(_locked(directory / RUNNING, mode))
        yield
