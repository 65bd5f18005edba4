"""What a kind of operation on a database is: its document, its steps, and what a cut-off one needs.

A feature defines its kinds beside its steps; `catalogue.py` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from grampus.databases.model import DatabaseRecord
from grampus.databases.records import new_database_id
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Operation, Step

DocumentT = TypeVar("DocumentT", bound=BaseModel)
# `finish`: applied to its end. `finish-or-undo`: the same, and undone when that fails.
# `undo`: undone, as it is when it fails.
WhenCutOff = Literal["finish", "finish-or-undo", "undo"]
# Operations of one lane of a database exclude one another. What changes the database runs in
# `main`; what reads a snapshot of it, or copies what it shares, for hours, has a lane of its own,
# and `main` stays free: above all for growth by rule.
# Its read-only endpoint is kept up beside all of that.
Lane = Literal["main", "backup", "flatten", "endpoint"]


def no_address(_document: BaseModel) -> str | None:
    """The operation holds no address."""
    return None


def no_name(_document: BaseModel) -> str:
    """The operation takes no name."""
    return ""


def new_identity(_document: BaseModel) -> str:
    """The operation makes a database, or a volume, with an id that nothing else has."""
    return new_database_id()


@dataclass(frozen=True)
class OperationType(Generic[DocumentT]):
    """One kind of operation."""

    kind: str  # as journaled, such as `db.create`
    what: str  # in sentences, before the database's name: `creation of the database`
    document: type[DocumentT]  # all that its steps need
    build: Callable[[StepPorts, DocumentT], list[Step]]  # changes nothing
    subject: Callable[[DocumentT], str]  # the database's name
    when_cut_off: WhenCutOff
    # The step that destroys what cannot be made again, of a kind that is finished when cut off.
    # Before that step such an operation is undone, cut off or failed; from it on it is finished.
    no_way_back: str = ""
    # Addresses that it holds until it is over.
    address: Callable[[DocumentT], str | None] = no_address
    endpoint_address: Callable[[DocumentT], str | None] = no_address
    # The name that something new gets by it, reserved among databases and volumes until it ends.
    takes: Callable[[DocumentT], str] = no_name
    # The id of the database that it makes, or brings back. None: it is on the one of that name.
    identity: Callable[[DocumentT], str] | None = None
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
    # Of a kind that can be undone only up to some point: whether this one can be, as seen now.
    # Then `when_cut_off` is `finish`, which holds from that point on.
    is_undone_now: Callable[[StepPorts, DocumentT], bool] | None = None
    # One that was cut off is settled before the others, which may wait for a host that it leaves.
    is_first: bool = False
    # Whether it is said that one that was cut off was finished or undone.
    is_told_when_settled: bool = True

    @property
    def touches_volume(self) -> bool:
        """The volume is another one, or opened by another client, before it ends."""
        return self.takes_volume or self.closes_image or self.opens_volume

    @property
    def is_undone_on_failure(self) -> bool:
        return self.when_cut_off != "finish" or bool(self.no_way_back)

    def left_to_finish(self, operation: Operation, steps: Sequence[Step]) -> Sequence[Step] | None:
        """The steps that finish an operation of this kind that was cut off; None: it is undone."""
        if operation.status != "running" or self.when_cut_off == "undo":
            return None
        if not self.no_way_back:
            return steps
        names = [step.name for step in steps]
        at = names.index(self.no_way_back)
        # Not those before it: they are done, and to begin with them again would be noted as if
        # there were a way back.
        return steps[at:] if operation.step in names[at:] else None

    def parse(self, document: Mapping[str, object]) -> DocumentT:
        """What an operation of this kind was journaled with."""
        return self.document.model_validate(document)


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
AnyOperationType = OperationType[Any]
