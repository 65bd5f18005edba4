"""Whether a pool can take a volume. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import NotFoundError, RefusedError, closest_name
from grampus.core.units import format_bytes

SMALLER = "Choose a smaller size, delete data that is not needed, or add OSDs."


def require_pool(pool: str, pools: Sequence[str]) -> None:
    """Raise NotFoundError when images cannot be in the pool. `pools` are those meant for images."""
    if pool in pools:
        return
    meant = closest_name(pool, pools)
    raise NotFoundError(
        f"The pool '{pool}' does not exist, or is not for images.",
        (f"Did you mean '{meant}'? " if meant else "")
        + (
            f"Available pools: {', '.join(pools)}. `ceph osd pool create` and `rbd pool init` "
            "create another."
        ),
    )


def require_room(
    pool: str, size_bytes: int, available_bytes: int, *, remedy: str = SMALLER
) -> None:
    """Raise RefusedError with code `pool-full` when the pool cannot take `size_bytes` more."""
    if size_bytes > available_bytes:
        raise RefusedError(
            f"The pool '{pool}' has space for {format_bytes(available_bytes)}, not for "
            f"{format_bytes(size_bytes)}.",
            remedy,
            code="pool-full",
        )
