"""Stopping an operation at each single call that a port makes, one run each.

The process is killed there, or the call fails; the tests then look at what the next process makes
of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Protocol, TypeVar


class Killed(BaseException):
    """The process died here: nothing may run after it, not even an undo."""


class Fuse:
    """Ends the process (or fails a call) before or after the n-th call of a port."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.error: BaseException = Killed()

    def burn(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise self.error
        self.left -= 1


class Stoppable(Protocol):
    """A world of fakes whose ports burn one fuse."""

    fuse: Fuse

    def close(self) -> None: ...


WorldT = TypeVar("WorldT", bound=Stoppable)


def in_turn(*acts: Callable[[WorldT], object]) -> Callable[[WorldT], None]:
    """One act of several: what a world has been through, or what is done to it."""

    def act(world: WorldT) -> None:
        for one in acts:
            one(world)

    return act


def burn_points() -> Iterator[int]:
    """0, 1, 2, ...: how many calls a process makes before it is stopped."""
    return itertools.count()


def is_stopped(
    world: WorldT, act: Callable[[WorldT], object], point: int, error: BaseException
) -> bool:
    """Do `act`, stopped at its n-th call by `error`; whether it made so many."""
    world.fuse.left, world.fuse.error = point, error
    try:
        act(world)
    except BaseException as caught:
        # Where a failure means more than it says, it is said so, with the failure as its cause.
        if error not in (caught, caught.__cause__):
            raise
        return True
    assert world.fuse.left is not None, "the failure was swallowed"
    world.fuse.left = None
    return False


def stopped_runs(
    start: Callable[[int], WorldT],
    act: Callable[[WorldT], object],
    error: BaseException | None = None,
    *,
    more_than: int,
) -> Iterator[tuple[int, WorldT]]:
    """The world after each run of `act` that was stopped: at its first call, its second, ...

    `start` makes the world of the n-th run, ready for `act`. What stops it is `error`: by default
    the process dies. Ends, having closed every world, with the run that came to its end; fails when
    that one made not `more_than` so many calls: then nothing was tested.
    """
    for point in burn_points():
        with closing(start(point)) as world:
            if not is_stopped(world, act, point, error or Killed()):
                assert point > more_than, f"it was stopped at {point} calls only"
                return
            yield point, world
