"""Locks between Grampus processes: held by an open file, so the kernel frees them on any death."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from grampus.core.clock import Clock
from grampus.core.errors import RefusedError
from grampus.state.home import Home

# Of what all homes on this machine share.
MACHINE_LOCKS = Path("/run/lock")
# The first words of locks that do not concern other machines.
_OF_ONE_MACHINE = frozenset({"fault", "bench"})
_WHOLE = "lab"


def recovery_patience_s(home: Home) -> float:
    """How long to wait for the lock of what was left unfinished.

    Whoever is at it on this machine lives. On another one, that is known only after a moment.
    """
    return 0.0 if home.shared is None else 0.1


@contextmanager
def hold_lock(
    home: Home, name: str, clock: Clock, *, shared: bool = False, timeout_s: float = 10.0
) -> Iterator[None]:
    """Hold the lock `name` for the block, alone or `shared` with other holders that share it.

    In a home that shares a site with other machines, it is held against them, too, unless it is
    about this machine alone. Raises RefusedError with code `busy` when another process keeps it for
    `timeout_s` seconds, GrampusError with code `home-unusable` when its file cannot be opened.
    """
    try:
        descriptor = _open(home.locks_dir, name)
    except OSError as error:
        raise home.unusable(error) from error
    beyond = (
        home.shared.hold(name, shared=shared, timeout_s=timeout_s)
        if home.shared is not None and _concerns_others(name, shared=shared)
        else nullcontext()
    )
    with _holding(descriptor, name, clock, shared=shared, timeout_s=timeout_s), beyond:
        yield


def _concerns_others(name: str, *, shared: bool) -> bool:
    """Whether a lock is held against other machines.

    Who shares a whole site with others holds the locks of what it works on.
    """
    first = name.partition(".")[0]
    return not shared if first == _WHOLE else first not in _OF_ONE_MACHINE


@contextmanager
def hold_lock_in(
    directory: Path, name: str, clock: Clock, *, timeout_s: float = 10.0
) -> Iterator[None]:
    """Hold the lock `name` of something that several homes may share, alone.

    Raises RefusedError as `hold_lock` does, and OSError when its file cannot be opened.
    """
    with _holding(_open(directory, name), name, clock, shared=False, timeout_s=timeout_s):
        yield


def _open(directory: Path, name: str) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    return os.open(directory / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def _holding(
    descriptor: int, name: str, clock: Clock, *, shared: bool, timeout_s: float
) -> Iterator[None]:
    try:
        _acquire(descriptor, name, clock, shared=shared, timeout_s=timeout_s)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, name: str, clock: Clock, *, shared: bool, timeout_s: float) -> None:
    mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    deadline_s = clock.monotonic_s() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, mode)
        except BlockingIOError:
            if clock.monotonic_s() >= deadline_s:
                raise RefusedError(
                    f"Another grampus command is working on {describe_lock(name)}.",
                    "Wait until it ends, then try again.",
                    code="busy",
                ) from None
            clock.sleep(0.1)
        else:
            return


def describe_lock(name: str) -> str:
    """What a lock is held for, in the words of whoever asked for it: `the volume 'shop'`."""
    match name.split("."):
        case ["db", _, database, *_]:
            return f"the database '{database}'"
        case ["volume", _, volume]:
            return f"the volume '{volume}'"
        case ["lab", lab]:
            return f"the lab or site '{lab}'"
        case ["grampus-lab-networks"]:
            return "the network of another lab on this machine"
        case [("backup-keys" | "volume-keys") as keys]:
            return f"the keys of {keys.removesuffix('-keys')}s"
        case parts:
            return " ".join(parts)
