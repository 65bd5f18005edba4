"""An operation journal at whose every step a process can be stopped, and which tells of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from grampus.core.clock import Clock
from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.state.operations import Operation, OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.interruption import Fuse, Killed


class SteppedJournal(OperationJournal):
    """Burns the fuse before and after each step: some change nothing but the state, at no port."""

    def __init__(self, store: Store, clock: Clock, fuse: Fuse) -> None:
        super().__init__(store, clock)
        self._fuse = fuse
        self.met: dict[str, list[str]] = {}  # names of steps that were applied, by kind
        # Kind and step: the process dies after it, or it fails there, once.
        self.dies_after: tuple[str, str] | None = None
        self.fails_after: tuple[str, str] | None = None
        # How many calls an undo makes before the process dies; None: it comes to its end.
        self.undo_calls: int | None = None

    def apply(
        self,
        operation: Operation,
        steps: Sequence[Step],
        progress: Progress,
        *,
        undo_on_failure: bool,
        until: str = "",
        no_way_back: str = "",
    ) -> None:
        watched = [
            replace(step, apply=self._watched(step.apply, operation.kind, step.name))
            for step in steps
        ]
        super().apply(
            operation,
            watched,
            progress,
            undo_on_failure=undo_on_failure,
            until=until,
            no_way_back=no_way_back,
        )

    def undo(
        self, operation: Operation, steps: Sequence[Step], progress: Progress, *, error: str
    ) -> None:
        if self.undo_calls is not None:
            self._fuse.left, self._fuse.error = self.undo_calls, Killed()
            self.undo_calls = None
        watched = [
            step if step.undo is None else replace(step, undo=self._burning(step.undo))
            for step in steps
        ]
        super().undo(operation, watched, progress, error=error)

    def _watched(self, change: Callable[[], None], kind: str, name: str) -> Callable[[], None]:
        burning = self._burning(change)

        def apply() -> None:
            burning()
            names = self.met.setdefault(kind, [])
            if name not in names:
                names.append(name)
            if self.dies_after == (kind, name):
                self.dies_after = None
                raise Killed
            if self.fails_after == (kind, name):
                self.fails_after = None
                raise GrampusError("The disk is gone.", code="made-up")

        return apply

    def _burning(self, change: Callable[[], None]) -> Callable[[], None]:
        def burning() -> None:
            self._fuse.burn()
            change()
            self._fuse.burn()

        return burning
