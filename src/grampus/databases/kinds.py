"""What a kind of operation on a database is, beyond what every kind of operation is.

A feature defines its kinds beside its steps; `catalogue.py` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal

from pydantic import BaseModel

from grampus.databases.model import DatabaseRecord
from grampus.databases.records import new_database_id
from grampus.databases.step_ports import StepPorts
from grampus.operations.operation_type import DocumentT, OperationType

# Operations of one lane of a database exclude one another. What changes the database runs in
# `main`; what reads a snapshot of it, or copies what it shares, for hours, has a lane of its own,
# and `main` stays free: above all for growth by rule.
# Its read-only endpoint is kept up beside all of that.
Lane = Literal["main", "backup", "flatten", "endpoint"]


def no_address(_document: BaseModel) -> str | None:
    """The operation holds no address."""
    return None


def new_identity(_document: BaseModel) -> str:
    """The operation makes a database, or a volume, with an id that nothing else has."""
    return new_database_id()


@dataclass(frozen=True)
class DatabaseOperation(OperationType[StepPorts, DocumentT], Generic[DocumentT]):
    """One kind of operation on a database."""

    # Addresses that it holds until it is over.
    address: Callable[[DocumentT], str | None] = no_address
    endpoint_address: Callable[[DocumentT], str | None] = no_address
    # What has the name that it is on is not, or not always, what it changes.
    subject_is_gone: bool = False
    # All that it changes is in the database and its secrets: a deletion for good need not wait for
    # it, which may need a server that never answers again.
    goes_with_database: bool = False
    lane: Lane = "main"
    # The volume goes, or gets another name: refused while another lane reads it.
    takes_volume: bool = False
    # The image is closed, or opened by another client: refused while it is being flattened, since
    # the command that flattens it would take its lock and keep others from opening it.
    closes_image: bool = False
    # The volume is opened anew, as after it was detached, or its encrypted image grown: refused
    # without the key for that, and while its pool is full.
    opens_volume: bool = False

    @property
    def touches_volume(self) -> bool:
        """The volume is another one, or opened by another client, before it ends."""
        return self.takes_volume or self.closes_image or self.opens_volume


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


# Where kinds stand side by side, each with a document of its own.
AnyDatabaseOperation = DatabaseOperation[Any]
