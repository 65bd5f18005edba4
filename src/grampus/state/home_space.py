"""Room under GRAMPUS_HOME: a reserve file, so that what has begun can end and be recorded.

The reserve is a file of real blocks. When the file system has no room, it is removed: commands and
operations that were cut off then have that much to finish or to undo what has begun. New operations
are refused until there is room again, and the file is made again (INV-82).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grampus.core.errors import RefusedError
from grampus.core.units import MIB, format_bytes
from grampus.state.home import Home

RESERVE_FILE = ".reserve"
HOME_FULL = "home-full"  # the code of the error
MIN_RESERVE_BYTES, MAX_RESERVE_BYTES = MIB, 16 * MIB
WARN_RATIO = 0.9
# What a new operation may be whatever the room: it gives room back, or keeps data safe.
_ALWAYS = frozenset(
    {
        *("lab.down", "volume.delete", "volume.detach", "volume.fence", "volume.snapshot-delete"),
        *("db.delete", "db.purge", "db.stop", "db.close", "db.open", "db.failover"),
        *("db.snapshot-delete", "db.replica-remove"),
    }
)


@dataclass(frozen=True)
class SpaceView:
    """The file system below GRAMPUS_HOME, and the reserve in it."""

    size_bytes: int
    used_bytes: int  # the reserve included
    free_bytes: int  # for whoever writes; a file system may keep some for its own use
    has_reserve: bool

    @property
    def used_ratio(self) -> float:
        """0 to 1, as `df` counts it."""
        whole_bytes = self.used_bytes + self.free_bytes
        return self.used_bytes / whole_bytes if whole_bytes else 0.0

    @property
    def reserve_bytes(self) -> int:
        """How large the reserve is, or would be: a 64th of a small file system."""
        whole_bytes = self.size_bytes // 64 // MIB * MIB
        return max(MIN_RESERVE_BYTES, min(whole_bytes, MAX_RESERVE_BYTES))


@dataclass(frozen=True)
class SpaceDecision:
    """What becomes of the reserve, whether operations may begin, and whether to warn."""

    reserve: Literal["keep", "make", "release"]
    takes_operations: bool
    is_nearly_full: bool


def decide_space(view: SpaceView) -> SpaceDecision:
    """Released with half a reserve left; made again only when twice its size stays free."""
    reserve_bytes, low_bytes = view.reserve_bytes, view.reserve_bytes // 2
    # What is free without a reserve belongs, up to its size, to what has begun already.
    needed_bytes = low_bytes if view.has_reserve else reserve_bytes + low_bytes
    reserve: Literal["keep", "make", "release"] = "keep"
    if view.has_reserve and view.free_bytes < low_bytes:
        reserve = "release"
    elif not view.has_reserve and view.free_bytes >= 3 * reserve_bytes:
        reserve = "make"
    return SpaceDecision(
        reserve=reserve,
        takes_operations=view.free_bytes >= needed_bytes,
        is_nearly_full=view.used_ratio >= WARN_RATIO,
    )


class HomeSpace:
    """The room of one GRAMPUS_HOME. A look is two system calls."""

    def __init__(self, home: Home) -> None:
        self._root = home.root
        self._file = home.root / RESERVE_FILE

    def keep(self) -> str:
        """Make or release the reserve as there is room; a warning as sentences, or nothing."""
        view = self.observe()
        if view is None:
            return ""
        decision = decide_space(view)
        if decision.reserve == "make":
            self._make(view.reserve_bytes)
        elif decision.reserve == "release":
            self._file.unlink(missing_ok=True)
        said = describe_space(self._root, decision)
        return f"{said} {format_bytes(view.free_bytes)} are left." if said else ""

    def require_room(self, kind: str) -> None:
        """Raise RefusedError with code HOME_FULL when no new operation of that kind may begin."""
        view = self.observe()
        if view is None or kind in _ALWAYS or decide_space(view).takes_operations:
            return
        self.keep()
        raise RefusedError(
            f"The file system of {self._root} is full: {format_bytes(view.free_bytes)} are "
            "left. Grampus starts no new operation.",
            f"Free space there (`df -h {self._root}` shows the usage), then try again. "
            "`grampus db list` then finishes or undoes interrupted operations.",
            code=HOME_FULL,
        )

    def release_if_full(self) -> None:
        """Give the reserve to what has begun, if there is no other room."""
        view = self.observe()
        if view is not None and decide_space(view).reserve == "release":
            self._file.unlink(missing_ok=True)

    def observe(self) -> SpaceView | None:
        """None: there is no such directory yet, or nobody knows."""
        try:
            found = os.statvfs(self._root)
        except OSError:
            return None
        return SpaceView(
            size_bytes=found.f_blocks * found.f_frsize,
            used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
            free_bytes=found.f_bavail * found.f_frsize,
            has_reserve=self._file.exists(),
        )

    def _make(self, size_bytes: int) -> None:
        """All of it or nothing, also beside another command that does the same."""
        # A name of its own for each process: what a killed one left is found by its beginning.
        made = self._file.with_name(f"{RESERVE_FILE}.{os.getpid()}")
        try:
            for left in self._root.glob(f"{RESERVE_FILE}.*"):
                if left != made and not Path(f"/proc/{left.suffix[1:]}").exists():
                    left.unlink(missing_ok=True)
            descriptor = os.open(made, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, size_bytes)
            finally:
                os.close(descriptor)
            made.replace(self._file)
        except OSError:
            # Without room, or without the right to write: the next command tries again.
            with contextlib.suppress(OSError):
                made.unlink(missing_ok=True)


def describe_space(root: Path, decision: SpaceDecision) -> str:
    """A warning as sentences, the same while it lasts; empty: there is room."""
    shown = f"`df -h {root}` shows the usage."
    if not decision.takes_operations:
        return (
            f"The file system of {root} is full: Grampus starts no new operation until there "
            f"is space. Free space there; {shown}"
        )
    if decision.is_nearly_full:
        return (
            f"The file system of {root} is {WARN_RATIO:.0%} full or more. Free space there "
            f"before it is full, because Grampus then starts no new operation; {shown}"
        )
    return ""
