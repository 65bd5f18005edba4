"""Grampus's own writes to a server that nobody else may write to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grampus.databases.administrator import Administrator


@contextmanager
def writing_as_administrator(administrator: Administrator, *, is_replica: bool) -> Iterator[None]:
    """Meanwhile the administrator may write to a replica; still nobody else may (INV-40).

    `read_only` stays on, which holds for all users without CONNECTION_ADMIN. MariaDB's
    administrator may write past it anyway. One that was cut off is followed by another, or by a
    start, which sets both.
    """
    if not is_replica or administrator.flavour != "mysql":
        yield
        return
    administrator.query("SET GLOBAL super_read_only = OFF")
    try:
        yield
    finally:
        administrator.query("SET GLOBAL super_read_only = ON")
