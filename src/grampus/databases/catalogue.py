"""Every kind of operation on a database."""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.changes import PROTECT, RESIZE, SET_WRITE_PATH
from grampus.databases.kinds import AnyOperationType
from grampus.databases.lifecycle import CREATE, DELETE, START, STOP
from grampus.databases.scratch import SCRATCH, SCRATCH_STOP

KIND_PREFIX = "db."
OPERATION_TYPES: tuple[AnyOperationType, ...] = (
    CREATE,
    DELETE,
    START,
    STOP,
    PROTECT,
    RESIZE,
    SET_WRITE_PATH,
    SCRATCH,
    SCRATCH_STOP,
)
_BY_KIND = {operation_type.kind: operation_type for operation_type in OPERATION_TYPES}


def operation_type(kind: str) -> AnyOperationType:
    """The type of a journaled operation. Raises GrampusError for one of another release."""
    found = _BY_KIND.get(kind)
    if found is None:
        raise GrampusError(
            f"An operation of the kind '{kind}' had been cut off, and this release knows no such.",
            "Run the release that began it: it finishes or undoes it.",
        )
    return found
