"""Whether a volume can move to another pool, and what becomes of a move that was cut off. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.ceph.fullness import PoolRoom
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import MIB, format_bytes
from grampus.volumes.model import VolumeRecord

# What a copy leaves free for everybody else, of all that the pool holds or could hold: as much as
# lies between `mon_osd_backfillfull_ratio` (0.90), where Ceph itself stops to put copies on an OSD,
# and `mon_osd_full_ratio` (0.95), where clients get no answers any more. The ratios are not taken
# from the cluster: they are of OSDs, and a pool may stand on a few of them only.
RESERVE_RATIO = 0.05
MIN_RESERVE_BYTES = 256 * MIB


@dataclass(frozen=True)
class Scarcity:
    """Why a copy into a pool must not go on: words without a full stop."""

    why: str
    can_go_back: bool  # a way back writes to both pools: while Ceph holds that up it has no end


class PoolFillingError(GrampusError):
    """A pool fills up while a volume is copied into it; the copy has been stopped."""

    default_code = "pool-filling"

    def __init__(self, problem: str, remedy: str, *, goes_back: bool) -> None:
        super().__init__(problem, remedy)
        self.goes_back = goes_back  # the migration is to be undone


def decide_reserve_bytes(room: PoolRoom) -> int:
    """Room that a copy must leave free in the pool that it goes to, in bytes."""
    return max(MIN_RESERVE_BYTES, int(RESERVE_RATIO * (room.stored_bytes + room.available_bytes)))


def decide_left_bytes(held_bytes: int, copied: float, taken_bytes: int) -> int:
    """What is to be copied still, in bytes, of an image that holds `held_bytes`.

    By the copy's own count (`copied`, 0 to 1), and by what its pool has taken since it began
    (`taken_bytes`), whichever leaves more. The count is ahead of the cluster's figures: they are
    some seconds old, in which a fast copy brings gigabytes. What the pool has taken is as old as
    what room it has, so these two agree; but what others write there counts as copied.
    """
    by_count = int(held_bytes * (1 - copied))
    by_pool = held_bytes - max(0, taken_bytes)
    return max(by_count, by_pool)


def find_scarcity(there: PoolRoom, former: PoolRoom, left_bytes: int) -> Scarcity | None:
    """Why the rest of a copy must not go into the pool `there`; None: it fits.

    `left_bytes` are to be copied still. What others of the cluster's OSDs say does not count: they
    may be those that the volume is to leave.
    """
    can_go_back = not (there.holds_writes or former.holds_writes)
    if there.overfull is not None:
        return Scarcity(there.overfull, can_go_back)
    reserve_bytes = decide_reserve_bytes(there)
    if left_bytes + reserve_bytes <= there.available_bytes:
        return None
    return Scarcity(
        f"{format_bytes(there.available_bytes)} are free, {format_bytes(left_bytes)} are not "
        f"copied yet, and {format_bytes(reserve_bytes)} stay free for others",
        can_go_back,
    )


def pool_filling(
    name: str, from_pool: str, to_pool: str, scarcity: Scarcity, barred: RefusedError | None
) -> PoolFillingError:
    """What becomes of a migration whose pool fills up; `barred` is why it cannot be aborted."""
    problem = (
        f"The pool '{to_pool}' does not have enough space for the copy of '{name}' ({scarcity.why})"
    )
    room = f"Free space in '{to_pool}': delete data that is not needed, or add OSDs"
    if barred is not None:
        return PoolFillingError(
            f"{problem}. Grampus has stopped the copy. It cannot return to the former pool: "
            f"{barred.problem}",
            f"{room}. Then run the same migration again: it continues.",
            goes_back=False,
        )
    if not scarcity.can_go_back:
        return PoolFillingError(
            f"{problem}. Grampus has stopped the copy. It cannot return to the former pool "
            "while Ceph blocks writes.",
            f"{room}. Then run the same migration again to continue, or with --abort to return.",
            goes_back=False,
        )
    return PoolFillingError(
        f"{problem}. Grampus returns the volume to '{from_pool}'.",
        f"{room}, or choose another pool. Then run the migration again.",
        goes_back=True,
    )


def no_lasting_room(pool: str, scarcity: Scarcity, remedy: str) -> RefusedError:
    """A copy into the pool would be stopped soon after it began."""
    return RefusedError(
        f"The pool '{pool}' has no space for the copy ({scarcity.why}).", remedy, code="pool-full"
    )


def require_exchangeable(record: VolumeRecord, *, exchanges_live: bool, is_alive: bool) -> None:
    """Raise RefusedError when the volume is attached, and not so that its image can be exchanged.

    The code is `cannot-exchange` for a driver that keeps its image, and `attachment-lost` for a
    driver that has died.
    """
    if record.host is None:
        return
    name, attachment = record.spec.name, record.attachment
    if attachment is None or (exchanges_live and not is_alive):
        raise RefusedError(
            f"The volume '{name}' is attached to {record.host}, and its driver does not answer.",
            f"Attach the volume again: `grampus volume attach {name} --host {record.host}`, "
            f"or detach it. For a database: `grampus db restart {name}`.",
            code="attachment-lost",
        )
    if not exchanges_live:
        raise RefusedError(
            f"The volume '{name}' is attached through {attachment.driver}, which cannot close "
            "its image while the volume is used.",
            f"Detach the volume (`grampus volume detach {name}`; for a database: `grampus db "
            f"stop {name}`), or attach it with --driver volumed.",
            code="cannot-exchange",
        )


def require_unfenced(record: VolumeRecord) -> None:
    """Raise RefusedError with code `fenced` while a fence's leftovers hold the former image."""
    if record.fenced:
        hosts = ", ".join(sorted({left.host for left in record.fenced}))
        raise RefusedError(
            f"Remains of the volume '{record.spec.name}' from before a fence are still on {hosts}.",
            f"Start {hosts} again, then run `grampus volume detach {record.spec.name}` to "
            "remove the remains.",
            code="fenced",
        )


def require_abortable(record: VolumeRecord, snapshots: Sequence[str], kept: Sequence[str]) -> None:
    """Raise RefusedError when the way back is closed, or would cost a snapshot.

    `snapshots` are those of the image in the new pool, `kept` those that the former one has. The
    code is `committing` or `has-snapshots`.
    """
    name, migration = record.spec.name, record.migration
    if migration is not None and migration.is_committing:
        raise RefusedError(
            f"The volume '{name}' is in the pool '{migration.to_pool}' for good: its data in "
            f"'{migration.from_pool}' is being removed.",
            "The next command finishes the removal. To return, migrate the volume again.",
            code="committing",
        )
    lost = [snapshot for snapshot in snapshots if snapshot not in kept]
    if lost:
        raise RefusedError(
            f"Snapshots of '{name}' were taken since the migration began, and a return would "
            f"lose them: {', '.join(lost)}.",
            "Remove the snapshots, or finish the migration and migrate the volume back.",
            code="has-snapshots",
        )


def not_migrating(name: str) -> RefusedError:
    """There is no migration of the volume that could be aborted."""
    return RefusedError(
        f"The volume '{name}' has no migration to abort.",
        f"`grampus volume show {name}` shows the pool. `grampus volume migrate {name} --pool "
        "POOL` moves the volume.",
        code="not-migrating",
    )
