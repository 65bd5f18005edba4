"""Operations as users look at them: listed, waited for, cancelled.

An operation is at work while its process is alive. One that neither ended nor has a process is
`interrupted`: the next command recovers it (INV-27).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from grampus.core.clock import Clock, format_duration
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.processes import OperationProcess, parse_process
from grampus.core.progress import Progress
from grampus.state.history import JournaledOperation, OperationHistory
from grampus.state.shared_locks import find_machine_at
from grampus.state.store import Store

# `undoing`: it failed or was cancelled, and its steps are being undone.
OperationState = Literal["running", "undoing", "interrupted", "done", "undone"]
AT_WORK: frozenset[OperationState] = frozenset({"running", "undoing"})
CONTROLLER_COMMAND = "serve"
POLL_S = 0.2


@dataclass(frozen=True)
class OperationView:
    """An operation now."""

    operation: JournaledOperation
    state: OperationState
    process: OperationProcess | None  # None: a release before 0.2 began it
    machine: str | None  # the other machine of the site that is at it
    looked_at: datetime

    @property
    def took_s(self) -> float:
        """Seconds from its beginning until it ended, or was last heard of; until now, if it runs.

        Another machine of the site may have begun it by a clock that is ahead.
        """
        until = self.looked_at if self.state in AT_WORK else self.operation.changed_at
        return max(0.0, (until - self.operation.started_at).total_seconds())

    @property
    def started_at(self) -> datetime:
        return self.operation.started_at

    @property
    def what(self) -> str:
        """The operation in the words of the command line, such as `db create`."""
        return self.operation.kind.replace(".", " ")

    @property
    def doing(self) -> str:
        """Its step and what that does; of one that was undone, why."""
        operation = self.operation
        if self.state not in AT_WORK:
            return operation.error or operation.title
        return ": ".join(part for part in (operation.title, operation.detail) if part)


def classify_state(operation: JournaledOperation, *, is_alive: bool) -> OperationState:
    """`is_alive`: the process that was last at it has not ended."""
    if operation.status in ("done", "undone"):
        return "done" if operation.status == "done" else "undone"
    if not is_alive:
        return "interrupted"
    return "running" if operation.status == "running" else "undoing"


class OperationWatch:
    """The operations of one lab or cluster, whoever is at them."""

    def __init__(self, store: Store, lab: str, clock: Clock) -> None:
        self._history = OperationHistory(store, lab)
        self._store = store
        self._lab = lab
        self._clock = clock

    def unfinished(self) -> list[OperationView]:
        """Those that neither ended nor were undone, oldest first."""
        return [self._view(one) for one in self._history.unfinished()]

    def last(self, most: int) -> list[OperationView]:
        """The last so many, oldest first."""
        return [self._view(one) for one in self._history.last(most)]

    def get(self, number: int) -> OperationView:
        """The operation of that number. Raises NotFoundError."""
        found = self._history.find(number)
        if found is None:
            raise NotFoundError(
                f"The operation {number} does not exist.",
                "`grampus operation list --last 100` shows more operations.",
            )
        return self._view(found)

    def find_of(self, token: str) -> OperationView | None:
        """The last operation of the command that was started in the background with `token`."""
        found = self._history.of_process(token)
        return self._view(found[0]) if found else None

    def wait(self, number: int, progress: Progress, *, timeout_s: float | None) -> OperationView:
        """The operation once it has ended, or is interrupted; of a command in the background, its
        last one. Raises NotFoundError, and GrampusError with code `timeout`."""
        deadline_s = None if timeout_s is None else self._clock.monotonic_s() + timeout_s
        shown = ""
        while True:
            self._store.refresh()
            view = self._follow(self.get(number))
            if view.state not in AT_WORK and not self._is_in_background(view):
                return view
            operation = view.operation
            title = operation.title or "Wait"
            if title != shown:
                progress.phase(title)
                shown = title
            progress.detail(operation.detail)
            if deadline_s is not None and self._clock.monotonic_s() >= deadline_s:
                within = "" if timeout_s is None else f" within {format_duration(timeout_s)}"
                raise GrampusError(
                    f"Operation {number} has not ended{within}.",
                    f"`grampus operation wait {number}` continues to wait.",
                    code="timeout",
                )
            self._clock.sleep(POLL_S)

    def require_cancellable(self, number: int) -> OperationView:
        """The operation, if its process can be ended.

        Raises NotFoundError, RefusedError with code `not-running`, `of-other-machine` or
        `of-controller`.
        """
        view = self.get(number)
        if view.state == "interrupted":
            raise RefusedError(
                f"The operation {number} was interrupted, so no command runs it.",
                "The next command finishes or undoes it: `grampus db list`.",
                code="not-running",
            )
        if view.state not in AT_WORK or view.process is None:
            raise RefusedError(f"Operation {number} has ended: {view.state}.", code="not-running")
        if view.machine is not None:
            raise RefusedError(
                f"The operation {number} runs on {view.machine}.",
                f"Run `grampus operation cancel {number}` there.",
                code="of-other-machine",
            )
        if view.process.command == CONTROLLER_COMMAND:
            raise RefusedError(
                f"`grampus serve` runs the operation {number}, and ends with it.",
                "Wait until the operation ends, or end `grampus serve` itself.",
                code="of-controller",
            )
        return view

    def cancel(self, number: int, progress: Progress, *, timeout_s: float) -> OperationView:
        """End the operation's process, as Ctrl-C does, and wait until it has.

        What it had begun is undone, or waits for the next command. Raises what
        `require_cancellable` and `wait` raise.
        """
        view = self.require_cancellable(number)
        if view.process is not None:
            view.process.id.request_end()
        return self.wait(number, progress, timeout_s=timeout_s)

    def _view(self, operation: JournaledOperation) -> OperationView:
        process = parse_process(operation.process)
        is_over = operation.status in ("done", "undone")
        is_alive = not is_over and process is not None and process.id.is_alive()
        machine = None
        if not is_over and not is_alive:
            machine = find_machine_at(self._store, self._lab, operation.subject, operation.kind)
        state = classify_state(operation, is_alive=is_alive or machine is not None)
        return OperationView(operation, state, process, machine, self._clock.now())

    def _follow(self, view: OperationView) -> OperationView:
        """The last operation of the same command in the background."""
        if view.process is None or not view.process.token:
            return view
        return self.find_of(view.process.token) or view

    def _is_in_background(self, view: OperationView) -> bool:
        process = view.process
        return process is not None and process.token != "" and process.id.is_alive()
