"""Whether a pool can take a volume, or its journal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grampus.core.errors import NotFoundError, RefusedError, closest_name
from grampus.core.units import GIB, MIB, format_bytes_apart

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


def journal_bytes(size_bytes: int) -> int:
    """What the journal of a volume of that size takes of its pool at most.

    As volumed chooses it (`Config::for_volume`): a quarter, within 256 MiB and 1 GiB.
    """
    return min(max(size_bytes // 4, 256 * MIB), GIB)


@dataclass(frozen=True)
class Redundancy:
    """The copies of a replicated pool."""

    copies: int
    min_copies: int  # with fewer, the pool accepts no write (`min_size`)


def require_as_redundant(
    journal_pool: str, journal: Redundancy, pool: str, image: Redundancy
) -> None:
    """Raise RefusedError with code `weaker-journal` when the journal has fewer copies.

    What a commit was promised is in the journal alone at first.
    """
    if journal.copies < image.copies:
        problem = (
            f"The pool '{journal_pool}' has size {journal.copies} (copies of each object), and "
            f"'{pool}' has size {image.copies}."
        )
    elif journal.min_copies < image.min_copies:
        problem = (
            f"The pool '{journal_pool}' has min_size {journal.min_copies} (copies that a write "
            f"needs), and '{pool}' has min_size {image.min_copies}."
        )
    else:
        return
    raise RefusedError(
        f"{problem} New commits are only in the journal for some seconds, so a journal there "
        "would make them less safe.",
        f"Choose another pool, or change this one: `ceph osd pool set {journal_pool} size "
        f"{image.copies}` and `ceph osd pool set {journal_pool} min_size {image.min_copies}`.",
        code="weaker-journal",
    )
