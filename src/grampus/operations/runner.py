"""The one runner of operations: it journals, applies, undoes and recovers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from grampus.core.errors import GrampusError, Planned
from grampus.core.progress import Progress
from grampus.hosts.port import HostUnreachableError
from grampus.operations.operation_type import (
    NOT_RECOVERED,
    AnyOperationType,
    DocumentT,
    OperationType,
    PortsT,
    Recovery,
)
from grampus.state.operations import (
    Operation,
    OperationJournal,
    Step,
    is_within_operation,
)
from grampus.state.unsettled import UnsettledWork


@dataclass(frozen=True)
class Subject:
    """What an operation is on: its name, its id and the name that something new gets."""

    name: str
    identity: str = ""
    takes: str = ""


class OperationRunner:
    """Runs the operations of one lab. The caller holds the lock of each operation's subject."""

    def __init__(
        self, lab: str, journal: OperationJournal, unsettled: UnsettledWork, progress: Progress
    ) -> None:
        self._lab = lab
        self._journal = journal
        self._unsettled = unsettled
        self._progress = progress
        self._is_planning = False
        self._planned: list[str] = []

    @property
    def is_planning(self) -> bool:
        """Whether this is a dry run, and no interrupted operation is being recovered in it."""
        return self._is_planning and not is_within_operation()

    @contextmanager
    def planning(self) -> Iterator[None]:
        """A dry run: the first operation that would begin in it raises Planned instead.

        Interrupted operations are still recovered. If nothing would change, the end raises Planned
        without any step.
        """
        self._is_planning = True
        try:
            yield
            raise Planned(self._planned)
        finally:
            self._is_planning = False
            self._planned = []

    @contextmanager
    def part_of_plan(self) -> Iterator[None]:
        """One of several operations: in a dry run, what follows is a part of the plan, too."""
        try:
            yield
        except Planned as planned:
            self._planned = list(planned.titles)

    def run(
        self,
        kind: OperationType[PortsT, DocumentT],
        ports: PortsT,
        document: DocumentT,
        subject: Subject,
        *,
        steps: Sequence[Step] | None = None,
        supersedes: Iterable[Operation] = (),
    ) -> None:
        """Journal an operation and apply its steps.

        On failure or Ctrl-C it is undone if its kind asks for that, otherwise it is left to the
        next command; the error is raised again. `steps` are those of the document, if they are
        more than what is built from the journal. `supersedes` are unfinished operations whose
        place it takes. In a dry run it raises Planned and changes nothing.
        """
        operation = self.begin(kind, ports, document, subject, supersedes=supersedes)
        self.apply(operation, kind, ports, document, steps=steps)

    def begin(
        self,
        kind: OperationType[PortsT, DocumentT],
        ports: PortsT,
        document: DocumentT,
        subject: Subject,
        *,
        supersedes: Iterable[Operation] = (),
    ) -> Operation:
        """Journal an operation before anything is changed. Raises what `OperationJournal.begin`
        raises, and Planned in a dry run."""
        self.propose(lambda: [step.title for step in kind.build(ports, document)])
        operation = self.note(kind, document, subject)
        for older in supersedes:
            self.close(older, f"taken over by operation {operation.id}")
        return operation

    def note(
        self, kind: OperationType[PortsT, DocumentT], document: DocumentT, subject: Subject
    ) -> Operation:
        """Journal an operation that the next command recovers. Raises as `begin`."""
        return self._journal.begin(
            *(kind.kind, self._lab, subject.name, document.model_dump(mode="json")),
            identity=subject.identity,
            takes=subject.takes,
        )

    def propose(self, describe: Callable[[], Sequence[str]]) -> None:
        """In a dry run, raise Planned with the steps that `describe` tells; otherwise do nothing.

        For changes that are no operation. What an interrupted operation begins itself, while it
        is recovered, is done.
        """
        if self.is_planning:
            raise Planned([*self._planned, *describe()])

    def apply(
        self,
        operation: Operation,
        kind: OperationType[PortsT, DocumentT],
        ports: PortsT,
        document: DocumentT,
        *,
        steps: Sequence[Step] | None = None,
        after: Mapping[str, Callable[[], None]] | None = None,
    ) -> None:
        """Apply the steps of an operation that `begin` has journaled.

        `after` is called as soon as the steps that it names are applied.
        """
        built = kind.build(ports, document) if steps is None else steps
        steps = [_followed(step, (after or {}).get(step.name)) for step in built]
        try:
            self._journal.apply(
                *(operation, steps, self._progress),
                undo_on_failure=kind.is_undone_on_failure,
                no_way_back=kind.no_way_back,
            )
        except (Exception, KeyboardInterrupt) as error:
            if not self._undo_if_harmful(kind, operation, steps, error) and _is_undone_now(
                kind, ports, document
            ):
                self.undo(operation, steps, str(error))
            raise

    def recover(
        self,
        operation: Operation,
        kind: OperationType[PortsT, DocumentT],
        ports: PortsT,
        document: DocumentT,
        *,
        completes: bool = True,
    ) -> Recovery:
        """Finish or undo an operation whose process is gone.

        Without `completes`, what may take hours while nobody waits for it is left as it is.
        """
        steps = kind.build(ports, document)
        left = kind.left_to_finish(operation, steps)
        if left is None or _is_undone_now(kind, ports, document):
            self.undo(operation, steps, operation.error or "its process was interrupted")
            return "undone"
        if not completes and kind.can_wait(operation, steps):
            if operation.step != kind.waits_at:
                self._journal.apply(
                    *(operation, left, self._progress), undo_on_failure=False, until=kind.waits_at
                )
            return "waits"
        try:
            self._journal.apply(
                *(operation, left, self._progress),
                undo_on_failure=kind.is_undone_on_failure and not kind.no_way_back,
            )
        except GrampusError as error:
            self._undo_if_harmful(kind, operation, steps, error)
            raise
        return "finished"

    def undo(self, operation: Operation, steps: Sequence[Step], why: str) -> None:
        """Undo every step, last first."""
        self._journal.undo(operation, steps, self._progress, error=why)

    def close(self, operation: Operation, why: str) -> None:
        """Mark an operation as undone of which nothing is left to undo."""
        self._journal.close_unapplied(operation, why)

    def note_outcome(self, operation: Operation, outcome: Mapping[str, object]) -> None:
        """Keep with an operation what was measured of it, for its history."""
        self._journal.note_outcome(operation, outcome)

    def unfinished(self, prefix: str, subject: str | None = None) -> list[Operation]:
        """Operations that neither ended nor were undone, oldest first."""
        found = self._journal.unfinished(self._lab, kind_prefix=prefix)
        return [one for one in found if subject in (None, one.subject)]

    def recover_all(
        self,
        prefix: str,
        kind_of: Callable[[str], AnyOperationType | None],
        place: Callable[[Operation], str],
        recover: Callable[[Operation], list[str]],
        *,
        retries: bool,
    ) -> list[str]:
        """Recover what is unfinished, place by place; what was done, in sentences.

        `place` says what an operation excludes others from; `recover` takes the lock of the place
        of an operation without waiting, and recovers all that is unfinished there. Places that
        another process works on are left to it. What cannot be recovered now (a host is down) is
        said once, and stays for the commands on its subject and for who `retries` (the
        controller), which says it each time.
        """
        sentences: list[str] = []
        first = {place(operation): operation for operation in reversed(self.unfinished(prefix))}
        for where, operation in reversed(first.items()):
            kind, name = kind_of(operation.kind), operation.subject
            began = f"An operation {operation.kind} on {name} was interrupted"
            said = began if kind is None else kind.describe_interrupted(name)
            sentences += self._unsettled.attempt(
                *(where, operation.id, partial(recover, operation), f"{said} and {NOT_RECOVERED}"),
                retries=retries,
                is_cheap=lambda error: isinstance(error, HostUnreachableError),
            )
        return sentences

    def _undo_if_harmful(
        self,
        kind: OperationType[PortsT, DocumentT],
        operation: Operation,
        steps: Sequence[Step],
        error: BaseException,
    ) -> bool:
        """Whether the operation was undone because its kind asks for that after such a failure.

        A process that dies before the first undo is journaled leaves one that is found to wait;
        whoever resumes it meets the same failure.
        """
        if not kind.is_undone_by(error):
            return False
        if isinstance(error, GrampusError):
            self._progress.note(error.problem)
        self.undo(operation, steps, str(error))
        return True


def _is_undone_now(
    kind: OperationType[PortsT, DocumentT], ports: PortsT, document: DocumentT
) -> bool:
    return kind.is_undone_now is not None and kind.is_undone_now(ports, document)


def _followed(step: Step, then: Callable[[], None] | None) -> Step:
    if then is None:
        return step

    def apply() -> None:
        step.apply()
        then()

    return replace(step, apply=apply)
