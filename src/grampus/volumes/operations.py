"""Journaled operations on volumes: their locks, and what becomes of one that was cut off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.names import require_name
from grampus.core.progress import Progress
from grampus.hosts.port import HostUnreachableError
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.operations import Operation, OperationJournal, Step
from grampus.state.unsettled import UnsettledWork

OPERATION_KINDS = "volume."
LOCK_TIMEOUT_S = 10.0


class Order(Protocol):
    """What an operation is journaled with: a pydantic model that names its volume."""

    @property
    def name(self) -> str: ...

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


@dataclass(frozen=True)
class VolumeOperation:
    """A kind of operation: how its steps are built again from what was journaled."""

    kind: str  # such as "volume.resize"
    what: str  # such as "resize": "The interrupted {what} of volume 'NAME' was finished."
    steps: Callable[[Mapping[str, Any]], list[Step]]  # building changes nothing
    takes_name: bool = False  # it makes a volume of that name, which nothing else may take
    is_undone: bool = False  # when it is found cut off; the others are finished
    rest: str = ""  # what is said after "was undone"
    is_first: bool = False  # settled before the others, which may wait for a host that it frees
    # Of a kind that is undone only up to some point: whether it is, by what was journaled.
    is_undone_now: Callable[[Mapping[str, Any]], bool] | None = None
    # Whether a failure undoes it wherever it is: what it did does harm where it is.
    is_undone_by: Callable[[BaseException], bool] = lambda _error: False
    # A step that may take hours while nobody waits for it: cut off there, the operation is left to
    # whoever asks for it, with these words.
    waits_at: str = ""
    waits_for: str = ""


class VolumeOperations:
    """Locks and operations of the volumes of one lab or cluster.

    Whoever finds an unfinished operation under the lock of its volume knows that its process is
    gone (INV-27).
    """

    def __init__(
        self,
        lab: str,
        home: Home,
        journal: OperationJournal,
        clock: Clock,
        progress: Progress,
        unsettled: UnsettledWork,
        identity_of: Callable[[str], str] = lambda _name: "",
    ) -> None:
        """`identity_of` tells the id of the volume of a name now; empty: none, or an older one."""
        self._identity_of = identity_of
        self._lab = lab
        self._home = home
        self._journal = journal
        self._clock = clock
        self._progress = progress
        self._unsettled = unsettled
        self._kinds: dict[str, VolumeOperation] = {}

    def register(self, *kinds: VolumeOperation) -> None:
        """Make operations of these kinds known, so that they can be settled."""
        self._kinds.update({kind.kind: kind for kind in kinds})

    @contextmanager
    def locked(self, name: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the volume against other processes. Raises RefusedError with code `busy`."""
        require_name("volume", name)  # it becomes a part of a file's name
        lock = f"volume.{self._lab}.{name}"
        with hold_lock(self._home, lock, self._clock, timeout_s=timeout_s):
            yield

    def run(self, kind: str, order: Order, steps: list[Step] | None = None) -> None:
        """Journal the operation and apply its steps; the lock is held.

        Undone as a whole when it fails, if that is what becomes of one that is cut off. `steps`
        are those of `order`, if they are more than what is built from the journal.
        """
        document = order.model_dump(mode="json")
        known = self._kinds[kind]
        operation = self._journal.begin(
            *(kind, self._lab, order.name, document),
            identity=document.get("identity") or self._identity_of(order.name),
            takes=order.name if known.takes_name else "",
        )
        applied = known.steps(document) if steps is None else steps
        if known.is_undone_now is None:
            self._apply(operation, applied, undo_on_failure=known.is_undone)
            return
        try:
            self._apply(operation, applied, undo_on_failure=False)
        except (GrampusError, KeyboardInterrupt) as error:
            if not known.is_undone_by(error) and known.is_undone_now(document):
                self._journal.undo(operation, applied, self._progress, error=str(error))
            raise

    def find(self, name: str, kind: str) -> Operation | None:
        """The volume's unfinished operation of that kind; the lock of `name` is held."""
        found = (one for one in self._unfinished() if (one.subject, one.kind) == (name, kind))
        return next(found, None)

    def undo(self, operation: Operation, why: str) -> None:
        """Undo an unfinished operation that `find` has found."""
        steps = self._kinds[operation.kind].steps(operation.spec)
        self._journal.undo(operation, steps, self._progress, error=why)

    def settle(self, name: str, *, only: str | None = None, completes: bool = True) -> list[str]:
        """Finish or undo what was interrupted; the lock of `name` is held. Says what it did.

        Without `completes`, what may take hours while nobody waits for it is left as it is.
        """
        done: list[str] = []
        for operation in sorted(self._unfinished(), key=self._rank):
            if operation.subject != name or only not in (None, operation.kind):
                continue
            kind = self._kinds[operation.kind]
            steps = kind.steps(operation.spec)
            what = f"The interrupted {kind.what} of volume '{name}'"
            now = self._identity_of(name)
            if operation.identity and now and now != operation.identity:
                self._journal.close_unapplied(operation, "another volume has its name")
                done.append(f"{what} was closed: another volume has that name now.")
            elif self._is_undone(kind, operation):
                self._journal.undo(operation, steps, self._progress, error="interrupted")
                done.append(f"{what} was undone{kind.rest}.")
            elif not completes and _can_wait(kind, operation, steps):
                if operation.step != kind.waits_at:
                    self._journal.apply(
                        *(operation, steps, self._progress),
                        undo_on_failure=False,
                        until=kind.waits_at,
                    )
                done.append(f"{what} waits; {kind.waits_for}.")
            else:
                self._apply(operation, steps, undo_on_failure=False)
                done.append(f"{what} was finished.")
        return done

    def converge(self, *, completes: bool = False) -> list[str]:
        """Settle every volume that no other process works on; says what it did. As `settle`.

        What cannot be settled now (a host is down) is said once, and stays for the commands on
        that volume and for who `completes` (the controller), which says it each time.
        """
        done: list[str] = []
        first = {operation.subject: operation.id for operation in reversed(self._unfinished())}
        for name, operation in reversed(first.items()):
            done += self._unsettled.attempt(
                f"volume.{name}",
                operation,
                partial(self._settle_now, name, completes),
                f"Interrupted work on the volume '{name}' could not be settled",
                retries=completes,
                is_cheap=lambda error: isinstance(error, HostUnreachableError),
            )
        return done

    def _settle_now(self, name: str, completes: bool) -> list[str]:
        with self.locked(name, timeout_s=0.0):
            return self.settle(name, completes=completes)

    def _apply(self, operation: Operation, steps: list[Step], *, undo_on_failure: bool) -> None:
        try:
            self._journal.apply(operation, steps, self._progress, undo_on_failure=undo_on_failure)
        except GrampusError as error:
            # A process that dies before the first undo is journaled leaves one that is found to
            # wait; whoever goes on with it meets the same failure.
            if self._kinds[operation.kind].is_undone_by(error):
                self._progress.note(error.problem)
                self._journal.undo(operation, steps, self._progress, error=str(error))
            raise

    def _is_undone(self, kind: VolumeOperation, operation: Operation) -> bool:
        if operation.status == "undoing" or kind.is_undone:
            return True
        return kind.is_undone_now is not None and kind.is_undone_now(operation.spec)

    def _unfinished(self) -> list[Operation]:
        return self._journal.unfinished(self._lab, kind_prefix=OPERATION_KINDS)

    def _rank(self, operation: Operation) -> bool:
        return not self._kinds[operation.kind].is_first


def _can_wait(kind: VolumeOperation, operation: Operation, steps: list[Step]) -> bool:
    """Whether it was cut off at the step that can wait, or before it."""
    names = [step.name for step in steps]
    if kind.waits_at not in names:
        return False
    return operation.step not in names[names.index(kind.waits_at) + 1 :]
