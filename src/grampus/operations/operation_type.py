"""What a kind of operation is: its document, its steps, and what an interrupted one needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from grampus.state.operations import Operation, Step

PortsT = TypeVar("PortsT")
DocumentT = TypeVar("DocumentT", bound=BaseModel)
# `finish`: applied to its end. `finish-or-undo`: the same, and undone when that fails.
# `undo`: undone, as it is when it fails.
WhenCutOff = Literal["finish", "finish-or-undo", "undo"]
# What became of an interrupted operation; `waits`: its long step is left to whoever asks for it.
Recovery = Literal["finished", "undone", "waits"]
# In the sentence about an interrupted operation that could be neither finished nor undone.
NOT_RECOVERED = "could not be recovered"


def no_name(_document: BaseModel) -> str:
    """The operation takes no name."""
    return ""


def undoes_nothing(_error: BaseException) -> bool:
    """No failure undoes the operation wherever it is."""
    return False


@dataclass(frozen=True)
class OperationType(Generic[PortsT, DocumentT]):
    """One kind of operation; `PortsT` is what its steps work with."""

    kind: str  # as journaled, such as `db.create`
    what: str  # in sentences, before the subject's name: `creation of the database`
    document: type[DocumentT]  # all that its steps need
    build: Callable[[PortsT, DocumentT], list[Step]]  # changes nothing
    when_cut_off: WhenCutOff
    # The name of what it is on; empty: its caller knows that.
    subject: Callable[[DocumentT], str] = no_name
    # The step that destroys what cannot be made again, of a kind that is finished when cut off.
    # Before that step such an operation is undone, cut off or failed; from it on it is finished.
    no_way_back: str = ""
    # The name that something new gets by it, reserved among databases and volumes until it ends.
    takes: Callable[[DocumentT], str] = no_name
    # The id of what it makes, or brings back. None: it is on what has the subject's name.
    identity: Callable[[DocumentT], str] | None = None
    # Of a kind that can be undone only up to some point: whether this one can be, as seen now.
    # Then `when_cut_off` is `finish`, which holds from that point on.
    is_undone_now: Callable[[PortsT, DocumentT], bool] | None = None
    # Whether a failure undoes it wherever it is, also when it is recovered: what it did does harm.
    is_undone_by: Callable[[BaseException], bool] = undoes_nothing
    # An interrupted one is recovered before the others, which may wait for a host that it frees.
    is_first: bool = False
    # A step that may take hours while nobody waits for it: interrupted there, the operation is left
    # to whoever asks for it, with these words.
    waits_at: str = ""
    waits_for: str = ""
    # Follows "it is now undone" in a sentence.
    rest: str = ""
    # Whether it is said that an interrupted one was finished or undone.
    is_told_when_settled: bool = True

    @property
    def is_undone_on_failure(self) -> bool:
        return self.when_cut_off != "finish" or bool(self.no_way_back)

    def left_to_finish(self, operation: Operation, steps: Sequence[Step]) -> Sequence[Step] | None:
        """The steps that finish an interrupted operation of this kind; None: it is undone."""
        if operation.status != "running" or self.when_cut_off == "undo":
            return None
        if not self.no_way_back:
            return steps
        names = [step.name for step in steps]
        at = names.index(self.no_way_back)
        # Not those before it: they are done, and to begin with them again would be noted as if
        # there were a way back.
        return steps[at:] if operation.step in names[at:] else None

    def can_wait(self, operation: Operation, steps: Sequence[Step]) -> bool:
        """Whether it was interrupted at the step that can wait, or before it."""
        names = [step.name for step in steps]
        if self.waits_at not in names:
            return False
        return operation.step not in names[names.index(self.waits_at) + 1 :]

    def describe_recovered(self, name: str, recovery: Recovery) -> str:
        """What became of an interrupted operation, as a sentence."""
        if recovery == "waits":
            return f"{self.describe_interrupted(name)}. It waits: {self.waits_for}."
        rest = self.rest if recovery == "undone" else ""
        return f"{self.describe_interrupted(name)}. It is now {recovery}{rest}."

    def describe_closed(self, name: str) -> str:
        """What became of one whose subject is gone, as a sentence."""
        return (
            f"{self.describe_interrupted(name)}. It is closed without a change, because "
            "another one has that name now."
        )

    def describe_interrupted(self, name: str) -> str:
        """The beginning of a sentence about an interrupted operation."""
        return f"The {self.what} {name} was interrupted"

    def parse(self, document: Mapping[str, object]) -> DocumentT:
        """What an operation of this kind was journaled with."""
        return self.document.model_validate(document)


# Where kinds stand side by side, each with ports and a document of its own.
AnyOperationType = OperationType[Any, Any]
