"""Whether an operation that was cut off is still about what has the name now. All pure."""

from __future__ import annotations

from grampus.databases.model import DatabaseRecord


def is_still_about(operation_id: str, record: DatabaseRecord | None, *, is_undone: bool) -> bool:
    """Whether the operation may be finished or undone on the database of the name.

    `operation_id` is the id of the database that it began on; empty: an older release began it.
    Such a one is undone only as long as the database is not in use (`is_undone`: that is what
    becomes of it). Without a record nothing else has the name, and what is left of the operation is
    its own; volumes have ids of their own.
    """
    if record is None:
        return True
    if operation_id:
        return record.id in ("", operation_id)
    return not is_undone or record.phase == "creating"
