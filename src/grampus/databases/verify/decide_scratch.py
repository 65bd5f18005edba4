"""Databases that a look at another one makes for a while: their names, and whose they are. Pure."""

from __future__ import annotations

import hashlib

from grampus.core.errors import RefusedError
from grampus.core.names import MAX_NAME_LENGTH
from grampus.databases.model import DatabaseSpec


def scratch_name(purpose: str, database: str) -> str:
    """The name of the one that is made of `database` for `purpose`; always the same one."""
    digest = hashlib.sha256(database.encode()).hexdigest()[:8]
    return f"{purpose}-{digest}"[:MAX_NAME_LENGTH]


def require_scratch(spec: DatabaseSpec, label: str) -> None:
    """Raise RefusedError with code `name-taken` for a database that was not made for a while.

    Those have the label `label`. Whatever has the name alone is somebody's, and is not deleted.
    """
    if label not in spec.labels:
        raise RefusedError(
            f"The database {spec.name} has the name of one that is made here for a while, and is "
            "none.",
            f"Give it another name (`grampus db rename {spec.name} NEW`), then try again.",
            code="name-taken",
        )
