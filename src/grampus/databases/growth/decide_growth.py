"""Whether a volume grows, and whether its database may be written to: decided from what is seen.

Two bounds, of which the second holds whether there is a rule or not:

- growth: at `when_percent` of the file system, by whole steps until it is below that again, within
  the rule's ceiling and within what the pool can take before Ceph warns that it is nearly full;
- the reserve: room that is never given to writers (see `decide_reserve_bytes`). Below it the
  database is made read-only, since a server whose disk is full stands still with all its clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from grampus.ceph.fullness import PoolRoom
from grampus.core.units import MIB, format_bytes
from grampus.databases.growth.decide_reserve import Reserve
from grampus.databases.growth.growth_rule import GrowthRule, GuardState

LOOK_EVERY_S = 5.0
# While its user makes room, writers get all but this part of the reserve.
RELEASED_RATIO = 0.25
# Less than this is no growth worth an operation.
MIN_GROWTH_BYTES = 16 * MIB
# XFS keeps a few MiB for itself: with so little left, it is full for whoever writes.
FULL_BYTES = 8 * MIB


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system, as statvfs(3) says: its whole size and what is free, in bytes."""

    size_bytes: int
    free_bytes: int

    @property
    def is_full(self) -> bool:
        """Whether whoever writes waits for room."""
        return self.free_bytes < FULL_BYTES

    @property
    def used_ratio(self) -> float:
        """0 to 1."""
        return 1 - self.free_bytes / self.size_bytes if self.size_bytes else 1.0


@dataclass(frozen=True)
class Look:
    """What was seen of one database, and what had been decided of it before."""

    database: str
    now: datetime
    file_system: FileSystem
    volume_bytes: int
    written_bytes_per_s: float  # since the look before; 0 when it is not known
    reserve: Reserve
    rule: GrowthRule | None
    guard: GuardState | None
    # None: the pool was not looked at; then nothing grows.
    room: PoolRoom | None


@dataclass(frozen=True)
class Growth:
    """What the rule asks for: a new size; or nothing, and why it cannot have it."""

    to_bytes: int | None = None
    refusal: str | None = None  # a sentence; None: nothing is due, or it grows


@dataclass(frozen=True)
class Guarding:
    """What becomes of the database's writers. `None`: as it is."""

    change: GuardState | None = None
    opens: bool = False


def decide_reserve_bytes(
    reserve: Reserve,
    file_system: FileSystem,
    written_bytes_per_s: float = 0.0,
    *,
    is_released: bool = False,
) -> int:
    """Room in bytes below which a database is made read-only.

    What the server needs to finish what is under way (`decide_reserve`), and a quarter of that when
    its user `is_released` to make room. To that comes what writers write, as fast as they did last,
    until the next look has been acted on: two intervals. At most a share of the file system.
    """
    base_bytes = reserve.bare_bytes
    if is_released:
        base_bytes = int(base_bytes * RELEASED_RATIO)
    running_bytes = int(max(0.0, written_bytes_per_s) * 2 * LOOK_EVERY_S)
    return min(base_bytes + running_bytes, int(file_system.size_bytes * reserve.max_ratio))


def decide_release_bytes(reserve: Reserve, reserve_bytes: int) -> int:
    """Room in bytes from which a database that was made read-only is opened again.

    More than the reserve by the bare reserve's half, so that it is not closed again at once.
    """
    return reserve_bytes + reserve.bare_bytes // 2


def is_growth_due(rule: GrowthRule | None, file_system: FileSystem) -> bool:
    """Whether the rule wants the volume to grow. The pool need be looked at only then."""
    return rule is not None and file_system.used_ratio * 100 >= rule.when_percent


def decide_growth(look: Look) -> Growth:
    """The size that the volume shall have by its rule, or why it cannot."""
    rule, room = look.rule, look.room
    if rule is None or room is None or not is_growth_due(rule, look.file_system):
        return Growth()
    size_bytes = look.volume_bytes
    used = (
        f"The volume of {look.database} is {look.file_system.used_ratio:.0%} full and cannot grow"
    )
    if size_bytes >= rule.up_to_bytes:
        ceiling = format_bytes(rule.up_to_bytes)
        return Growth(refusal=f"{used}: it has reached the limit of its rule, {ceiling}.")
    if room.problem is not None:
        return Growth(refusal=f"{used}: {room.problem}.")
    used_bytes = look.file_system.size_bytes - look.file_system.free_bytes
    # What the file system keeps for itself (XFS: its log) is the same after it has grown.
    own_bytes = max(0, size_bytes - look.file_system.size_bytes)
    target_bytes = size_bytes
    while target_bytes < rule.up_to_bytes and (
        target_bytes == size_bytes
        or used_bytes * 100 >= rule.when_percent * (target_bytes - own_bytes)
    ):
        target_bytes += max(rule.step_of(target_bytes), MIN_GROWTH_BYTES)
    target_bytes = min(target_bytes, rule.up_to_bytes, size_bytes + room.until_nearly_full_bytes)
    target_bytes -= target_bytes % MIB
    if target_bytes - size_bytes < min(MIN_GROWTH_BYTES, rule.up_to_bytes - size_bytes):
        left = format_bytes(room.until_nearly_full_bytes)
        return Growth(
            refusal=f"{used}: the pool '{room.pool}' has only {left} left before it is nearly full."
        )
    return Growth(to_bytes=target_bytes)


def decide_guarding(look: Look) -> Guarding:
    """Whether to close the database to writers, or to open it again."""
    guard, free_bytes = look.guard, _free_bytes(look)
    if guard is not None and free_bytes >= guard.release_bytes:
        return Guarding(opens=True)
    if guard is not None and guard.state == "closed":
        return Guarding()
    is_released = guard is not None and guard.until is not None and look.now < guard.until
    reserve_bytes = decide_reserve_bytes(
        look.reserve, look.file_system, look.written_bytes_per_s, is_released=is_released
    )
    if free_bytes >= reserve_bytes:
        return Guarding(opens=guard is not None and not is_released)
    where = "its volume"
    if look.room is not None and look.room.available_bytes < look.file_system.free_bytes:
        where = f"the pool '{look.room.pool}'"
    reason = f"{where} has {format_bytes(free_bytes)} left"
    return Guarding(
        change=GuardState(
            state="closed",
            since=look.now,
            reason=reason,
            release_bytes=decide_release_bytes(look.reserve, reserve_bytes),
        )
    )


def _free_bytes(look: Look) -> int:
    """What can be written: to the file system, and to the pool below it if that was looked at."""
    free_bytes = look.file_system.free_bytes
    return free_bytes if look.room is None else min(free_bytes, look.room.available_bytes)


def describe_room(file_system: FileSystem) -> str:
    """A file system in words, such as `61% of 960 MiB used, 374 MiB free`."""
    room = (
        f"{file_system.used_ratio:.0%} of {format_bytes(file_system.size_bytes)} used, "
        f"{format_bytes(file_system.free_bytes)} free"
    )
    return f"{room}: full, so all writes wait" if file_system.is_full else room
