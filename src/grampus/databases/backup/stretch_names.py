"""How the stretches of an archive are named, and whose they are by that (pure).

A stretch of a database with an id is `ID/NUMBER`, in a directory of its own: databases of the same
name that archive into one place never meet. Earlier releases named it `NUMBER` alone.
"""

from __future__ import annotations

from collections.abc import Iterable

_ID_LENGTH = 32  # hexadecimal digits


def split_stretch(name: str) -> tuple[str, str]:
    """The stretch that a name below an archive is in, and the rest of the name."""
    first, _, rest = name.partition("/")
    if len(first) != _ID_LENGTH:
        return first, rest
    number, _, rest = rest.partition("/")
    return f"{first}/{number}", rest


def owner_of_stretch(stretch_id: str) -> str:
    """The id of the database that the stretch belongs to; empty: of an earlier release."""
    owner, slash, _ = stretch_id.partition("/")
    return owner if slash else ""


def following_stretch(database_id: str, former: str | None) -> str:
    """The name of the stretch that is begun after `former`, which may be of an earlier release."""
    number = int(former.rpartition("/")[2]) + 1 if former is not None else 1
    return f"{database_id}/{number:04d}" if database_id else f"{number:04d}"


def stretch_order(stretch_id: str) -> tuple[bool, str]:
    """Sorts the stretches of one database as they were begun."""
    return bool(owner_of_stretch(stretch_id)), stretch_id


def newest_stretch(stretch_ids: Iterable[str]) -> str | None:
    """The one that was begun last, of one database's."""
    return max(stretch_ids, key=stretch_order, default=None)
