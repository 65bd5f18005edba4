"""Whether a pool can take a volume. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.errors import NotFoundError, RefusedError, closest_name
from grampus.core.units import format_bytes_apart

SMALLER = "Choose a smaller size, delete data that is not needed, or add OSDs."


def require_pool(pool: str, pools: Sequence[str], *, of_site: bool = False) -> None:
    """Raise NotFoundError when images cannot be in the pool.

    `pools` are those meant for images; `of_site`: of the cluster's, those of the site.
    """
    if pool in pools:
        return
    meant = closest_name(pool, pools)
    problem, more = (
        (
            f"The pool '{pool}' is not one of the site, or is not for images.",
            "`grampus site adopt NAME` with one more --pool adds a pool of the cluster.",
        )
        if of_site
        else (
            f"The pool '{pool}' does not exist, or is not for images.",
            "`ceph osd pool create` and `rbd pool init` create another.",
        )
    )
    suggestion = f"Did you mean '{meant}'? " if meant else ""
    raise NotFoundError(problem, f"{suggestion}Available pools: {', '.join(pools)}. {more}")


def require_room(
    pool: str, size_bytes: int, available_bytes: int, *, remedy: str = SMALLER
) -> None:
    """Raise RefusedError with code `pool-full` when the pool cannot take `size_bytes` more."""
    if size_bytes > available_bytes:
        available, wanted = format_bytes_apart(available_bytes, size_bytes)
        raise RefusedError(
            f"The pool '{pool}' has space for {available}, not for {wanted}.",
            remedy,
            code="pool-full",
        )
