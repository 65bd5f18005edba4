"""Whether a volume can move to another pool, and what becomes of a move that was cut off. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import RefusedError
from grampus.volumes.model import VolumeRecord


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
            f"Attach it anew: `grampus volume attach {name} --host {record.host}`, or detach it; "
            f"of a database: `grampus db restart {name}`.",
            code="attachment-lost",
        )
    if not exchanges_live:
        raise RefusedError(
            f"The volume '{name}' is attached through {attachment.driver}, which cannot let go of "
            "its image while it is used.",
            f"Detach it (`grampus volume detach {name}`; a database on it: `grampus db stop "
            f"{name}`), or attach it with --driver volumed.",
            code="cannot-exchange",
        )


def require_unfenced(record: VolumeRecord) -> None:
    """Raise RefusedError with code `fenced` while a fence's leftovers hold the former image."""
    if record.fenced:
        hosts = ", ".join(sorted({left.host for left in record.fenced}))
        raise RefusedError(
            f"What a fence left of the volume '{record.spec.name}' is still on {hosts}.",
            f"Bring it back, then `grampus volume detach {record.spec.name}` clears it away.",
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
            f"The volume '{name}' is in the pool '{migration.to_pool}' for good: what it had in "
            f"'{migration.from_pool}' is being removed.",
            "The next command finishes that; to go back, migrate it once more.",
            code="committing",
        )
    lost = [snapshot for snapshot in snapshots if snapshot not in kept]
    if lost:
        raise RefusedError(
            f"Snapshots of '{name}' were taken since its migration began, and going back would "
            f"lose them: {', '.join(lost)}.",
            "Remove them, or finish the migration and migrate it back.",
            code="has-snapshots",
        )


def not_migrating(name: str) -> RefusedError:
    """There is no migration of the volume that could be aborted."""
    return RefusedError(
        f"The volume '{name}' is not on its way to another pool.",
        f"`grampus volume show {name}` says where it is; `grampus volume migrate` moves it.",
        code="not-migrating",
    )
