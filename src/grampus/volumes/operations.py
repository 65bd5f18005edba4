"""Operations on volumes: their locks, and what becomes of one that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from grampus.core.clock import Clock
from grampus.core.names import require_name
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.locks import hold_lock, recovery_patience_s
from grampus.state.operations import Operation, Step
from grampus.volumes import kinds
from grampus.volumes.kinds import KIND_PREFIX, OrderT, VolumeOperation, VolumeStepParts

LOCK_TIMEOUT_S = 10.0
_KINDS = {kind.kind: kind for kind in kinds.ALL}


class VolumeOperations:
    """Locks and operations of the volumes of one lab or cluster.

    Whoever finds an unfinished operation under the lock of its volume knows that its process is
    gone (INV-27).
    """

    def __init__(
        self,
        lab: str,
        home: Home,
        runner: OperationRunner,
        clock: Clock,
        parts: VolumeStepParts,
        identity_of: Callable[[str], str] = lambda _name: "",
    ) -> None:
        """`identity_of` tells the id of the volume of a name now; empty: none, or an older one."""
        self._identity_of = identity_of
        self._lab = lab
        self._home = home
        self.runner = runner
        self._clock = clock
        self._parts = parts

    @contextmanager
    def locked(self, name: str, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the volume against other processes. Raises RefusedError with code `busy`."""
        require_name("volume", name)  # it becomes a part of a file's name
        lock = f"volume.{self._lab}.{name}"
        with hold_lock(self._home, lock, self._clock, timeout_s=timeout_s):
            yield

    def run(
        self,
        kind: VolumeOperation[OrderT],
        order: OrderT,
        steps: Sequence[Step] | None = None,
    ) -> None:
        """Journal the operation and apply its steps; the lock is held. As `OperationRunner.run`."""
        name = kind.subject(order)
        identity = getattr(order, "identity", "") or self._identity_of(name)
        subject = Subject(name, identity, kind.takes(order))
        self.runner.run(kind, self._parts, order, subject, steps=steps)

    def find(self, name: str, kind: VolumeOperation[Any]) -> Operation | None:
        """The volume's unfinished operation of that kind; the lock of `name` is held."""
        return next(iter(self.runner.unfinished(kind.kind, name)), None)

    def undo(self, operation: Operation, why: str) -> None:
        """Undo an unfinished operation that `find` has found."""
        kind = _KINDS[operation.kind]
        steps = kind.build(self._parts, kind.parse(operation.spec))
        self.runner.undo(operation, steps, why)

    def settle(
        self, name: str, *, only: VolumeOperation[Any] | None = None, completes: bool = True
    ) -> list[str]:
        """Finish or undo what was interrupted; the lock of `name` is held. Says what it did.

        Without `completes`, and in a dry run, what may take hours while nobody waits for it is
        left as it is.
        """
        done: list[str] = []
        completes = completes and not self.runner.is_planning
        for operation in sorted(self.runner.unfinished(KIND_PREFIX, name), key=_rank):
            kind = _KINDS[operation.kind]
            if only not in (None, kind):
                continue
            now = self._identity_of(name)
            if operation.identity and now and now != operation.identity:
                self.runner.close(operation, "another volume has its name")
                done.append(kind.describe_closed(name))
                continue
            document = kind.parse(operation.spec)
            recovery = self.runner.recover(
                operation, kind, self._parts, document, completes=completes
            )
            done.append(kind.describe_recovered(name, recovery))
        return done

    def converge(self, *, completes: bool = False) -> list[str]:
        """Settle every volume that no other process works on; says what it did. As `settle`."""

        def recover(operation: Operation) -> list[str]:
            with self.locked(operation.subject, timeout_s=recovery_patience_s(self._home)):
                return self.settle(operation.subject, completes=completes)

        return self.runner.recover_all(
            *(KIND_PREFIX, _KINDS.get, lambda operation: f"volume.{operation.subject}", recover),
            retries=completes,
        )


def _rank(operation: Operation) -> bool:
    """Those that are recovered first have the lower rank."""
    return not _KINDS[operation.kind].is_first
