"""The operation journal: multi-step changes that survive being stopped at any step.

An operation is a list of idempotent steps, rebuilt at any time from the spec that was
journaled before its first step. Each step is journaled before it begins. Whoever holds the
subject's lock and finds an unfinished operation knows that its process is gone, and either
finishes it (apply all steps again: they are idempotent) or undoes it (undo all steps in
reverse: an undo is right whether its step ran wholly, partly or not at all).
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from grampus.core.clock import Clock, format_moment
from grampus.core.errors import GrampusError, RefusedError, SupersededError
from grampus.core.failpoints import failpoint
from grampus.core.progress import Progress
from grampus.state.store import Store

OperationStatus = Literal["running", "undoing", "done", "undone"]
# Codes of errors that name a program and a host, and not what they worked for.
_OF_COMMANDS = frozenset({"command-failed", "timeout"})
UNFINISHED: tuple[OperationStatus, ...] = ("running", "undoing")
_BEGIN = (
    "INSERT INTO operations "
    "(kind, lab, subject, spec, status, step, error, started_at, changed_at, actor, process, "
    "identity, takes) VALUES (?, ?, ?, ?, 'running', '', '', ?, ?, ?, ?, ?, ?)"
)
# The condition on the status is that of the index of unfinished operations, word for word
# (`schema.py`): SQLite would read all that there ever were otherwise.
_HOLDER = (
    "SELECT kind, subject, started_at FROM operations "
    "WHERE lab = ? AND status IN ('running', 'undoing') "
    "AND (subject = ? OR takes = ?) ORDER BY id LIMIT 1"
)
UNFINISHED_OF_LAB = (
    "SELECT * FROM operations WHERE lab = ? AND status IN ('running', 'undoing') ORDER BY id"
)
_MARK = (
    "UPDATE operations SET status = ?, step = ?, title = ?, detail = '', error = ?, process = ?, "
    "changed_at = ? WHERE id = ?"
)
_OUTCOME = "UPDATE operations SET outcome = ? WHERE id = ?"
_DETAIL = "UPDATE operations SET detail = ? WHERE id = ?"
# How often what a step does is written down: others look at it, and each time costs a write.
DETAIL_EVERY_S = 1.0
# How old the answer may be that this machine still controls the site, before a step.
CONTROLLER_SEEN_S = 1.0
_log = logging.getLogger("grampus.operations")


@dataclass(frozen=True)
class Step:
    """One idempotent change. `title` is what the user reads while it runs, and in a plan."""

    name: str
    title: str
    apply: Callable[[], None]
    undo: Callable[[], None] | None = None


@dataclass(frozen=True)
class Operation:
    """One journaled operation, as it stands."""

    id: int
    kind: str
    lab: str
    subject: str
    spec: dict[str, Any]
    status: OperationStatus
    step: str
    error: str
    started_at: str
    # The id of what it is on, which nothing else of that name has; empty: nobody noted it.
    identity: str = ""
    # It was met unfinished: another process began it.
    is_found: bool = False


class JournalRoom(Protocol):
    """The room in which operations are recorded."""

    def require_room(self, kind: str) -> None:
        """Raise RefusedError when no new operation of that kind may begin."""
        ...

    def release_if_full(self) -> None:
        """Give what was kept back to the operations that have begun, if there is no other room."""
        ...


class _AtWork(threading.local):
    """The operations in whose steps this thread is: one may begin within another one."""

    def __init__(self) -> None:
        self.ids: list[int] = []


_at_work = _AtWork()


class OperationJournal:
    """Runs operations and remembers how far each has come."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        actor: str = "",
        process: str = "",
        require_current: Callable[[Operation], None] = lambda _: None,
        require_controller: Callable[[float], None] = lambda _: None,
        room: JournalRoom | None = None,
    ) -> None:
        """`actor` is who asks for the operations that are begun here; empty: nobody knows.
        `process` describes this process to those who look at them (`operations/watching.py`).

        `require_current` is called before an operation that was found is finished or undone. It
        raises when the state may be a copy of an earlier time (INV-58). `require_controller` is
        called before each operation, step and undo, with the age in seconds that its answer may
        have. It raises when another machine controls the site (INV-93).
        """
        self._require_current = require_current
        self._require_controller = require_controller
        self._room = room
        self._store = store
        self._clock = clock
        self._actor = actor
        self._process = process
        self._detailed_s: float | None = None
        self._begun: set[tuple[str, str]] = set()

    def begun(self, lab: str, *, kind_prefix: str = "", but: Collection[str] = ()) -> list[str]:
        """What this process has begun operations on of other kinds than `but`, also under new
        names; sorted names."""
        begun, left_out = f"{lab}/{kind_prefix}", {f"{lab}/{kind}" for kind in but}
        return sorted(
            {name for kind, name in self._begun if kind.startswith(begun) and kind not in left_out}
        )

    def begin(
        self,
        kind: str,
        lab: str,
        subject: str,
        spec: dict[str, Any],
        *,
        identity: str = "",
        takes: str = "",
    ) -> Operation:
        """Journal a new operation before anything is changed.

        `identity` is kept with it. `takes` is a name that the operation gives to something new:
        it stays reserved until the operation ends. Raises RefusedError with code `name-held` when
        another operation, on a volume or on a database, is on that name or takes it, with code
        `home-full` when there is no room to record it, and what `require_controller` raises. What
        an operation that has begun begins itself is never refused for the last two.
        """
        if not is_within_operation():
            self._require_controller(0.0)
            if self._room is not None:
                self._room.require_room(kind)
        now = self._clock.now().isoformat()
        asked_by = (self._actor, self._process)
        values = (kind, lab, subject, json.dumps(spec), now, now, *asked_by, identity, takes)

        def write(connection: sqlite3.Connection) -> int | None:
            # Looking and taking are one step: nobody else begins an operation meanwhile.
            if takes:
                holder = connection.execute(_HOLDER, (lab, takes, takes)).fetchone()
                if holder is not None:
                    raise _name_held(takes, holder["kind"], holder["subject"], holder["started_at"])
            return connection.execute(_BEGIN, values).lastrowid

        number = self._store.change(write)
        if number is None:
            raise GrampusError("The operation journal assigned no number to a new operation.")
        self._begun |= {(f"{lab}/{kind}", name) for name in (subject, takes) if name}
        operation = Operation(number, kind, lab, subject, spec, "running", "", "", now, identity)
        _log.info("operation.begun", extra=_fields(operation))
        failpoint(f"{kind}/begun")
        return operation

    def unfinished(self, lab: str, *, kind_prefix: str = "") -> list[Operation]:
        """Operations of `lab` that neither ended nor were undone, oldest first."""
        with self._store.transaction() as connection:
            rows = connection.execute(UNFINISHED_OF_LAB, (lab,)).fetchall()
        found = [
            Operation(
                row["id"],
                row["kind"],
                row["lab"],
                row["subject"],
                json.loads(row["spec"]),
                row["status"],
                row["step"],
                row["error"],
                row["started_at"],
                row["identity"],
                is_found=True,
            )
            for row in rows
        ]
        return [operation for operation in found if operation.kind.startswith(kind_prefix)]

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
        """Apply every step in order; on failure or Ctrl-C undo them if asked, then re-raise.

        With `undo_on_failure` false a failed operation stays unfinished, for the next command
        to go on with. So does one that fails in the step `no_way_back` or in a later one, and one
        that is applied `until` the step of that name only.
        """
        if operation.is_found:
            self._require_controller(0.0)
            self._require_current(operation)
        title = ""
        try:
            for step in steps:
                title = step.title
                if step.name == until:
                    self._mark(operation, "running", step)
                    return
                progress.phase(step.title)
                self._require_controller(CONTROLLER_SEEN_S)
                _log.info("operation.step", extra=_fields(operation, step))
                undo_on_failure = undo_on_failure and step.name != no_way_back
                self._mark(operation, "running", step)
                failpoint(f"{operation.kind}/{step.name}/before")
                with _within_operation(operation):
                    step.apply()
                failpoint(f"{operation.kind}/{step.name}/after")
            self._mark(operation, "done")
            _log.info("operation.done", extra=_fields(operation))
        except (Exception, KeyboardInterrupt) as error:
            # The other machine has closed the operation, or will.
            undo_on_failure = undo_on_failure and not isinstance(error, SupersededError)
            _name_subject(error, operation.subject, title)
            failed = _fields(operation) | {"title": title, "error": _sentence(error)}
            _log.warning("operation.failed", extra=failed | {"is_undone": undo_on_failure})
            if self._room is not None:  # to undo it, and to record that, takes room
                self._room.release_if_full()
            if undo_on_failure:
                progress.note(f"Undoing: {_sentence(error)}")
                self.undo(operation, steps, progress, error=_sentence(error))
            raise

    def undo(
        self, operation: Operation, steps: Sequence[Step], progress: Progress, *, error: str
    ) -> None:
        """Undo every step, last first; not what another machine controls now."""
        self._require_controller(0.0)
        if operation.is_found:
            self._require_current(operation)
        for step in reversed(steps):
            if step.undo is None:
                continue
            progress.phase(f"Undo: {step.title}")
            _log.info("operation.undo", extra=_fields(operation, step))
            self._mark(operation, "undoing", step, error)
            failpoint(f"{operation.kind}/{step.name}/undo")
            with _within_operation(operation):
                step.undo()
        self._mark(operation, "undone", error=error)
        _log.warning("operation.undone", extra=_fields(operation) | {"error": error})

    def close_unapplied(self, operation: Operation, why: str) -> None:
        """Mark an operation as undone whose subject is known to be gone altogether."""
        self._mark(operation, "undone", error=why)
        _log.warning("operation.closed", extra=_fields(operation) | {"error": why})

    def note_outcome(self, operation: Operation, outcome: Mapping[str, Any]) -> None:
        """Keep with an operation what was measured of it, for its history."""
        values = (json.dumps(outcome), operation.id)
        self._store.change(lambda connection: connection.execute(_OUTCOME, values))

    def detail(self, text: str) -> None:
        """Write down what the step that this thread is in does, or what it waits for."""
        now_s = self._clock.monotonic_s()
        if not _at_work.ids or (
            self._detailed_s is not None and now_s - self._detailed_s < DETAIL_EVERY_S
        ):
            return
        self._detailed_s = now_s
        values = (text, _at_work.ids[0])
        self._store.change(lambda connection: connection.execute(_DETAIL, values))

    def _mark(
        self,
        operation: Operation,
        status: OperationStatus,
        step: Step | None = None,
        error: str = "",
    ) -> None:
        name, title = ("", "") if step is None else (step.name, step.title)
        now = self._clock.now().isoformat()
        values = (status, name, title, error, self._process, now, operation.id)
        self._store.change(lambda connection: connection.execute(_MARK, values))


def _fields(operation: Operation, step: Step | None = None) -> dict[str, object]:
    """Of a line in the log; never the document, which is nobody's business there."""
    fields: dict[str, object] = {
        "operation": operation.id,
        "kind": operation.kind,
        "lab": operation.lab,
        "subject": operation.subject,
    }
    return fields if step is None else fields | {"step": step.name, "title": step.title}


def is_within_operation() -> bool:
    """Whether this thread is in a step of an operation."""
    return bool(_at_work.ids)


@contextmanager
def _within_operation(operation: Operation) -> Iterator[None]:
    _at_work.ids.append(operation.id)
    try:
        yield
    finally:
        _at_work.ids.pop()


def _name_held(name: str, kind: str, subject: str, started_at: str) -> RefusedError:
    begun = datetime.fromisoformat(started_at)
    return RefusedError(
        f"The name '{name}' is reserved by the operation {kind} on '{subject}', which began at "
        f"{format_moment(begun)} and has not ended.",
        "If its command still runs, wait until it ends. Otherwise `grampus db list` finishes or "
        "undoes the operation. Then try again, or choose another name.",
        code="name-held",
    )


def _name_subject(error: BaseException, subject: str, title: str) -> None:
    """Have the error of a command on a host say what it was for."""
    if not isinstance(error, GrampusError) or error.code not in _OF_COMMANDS:
        return
    if f"'{subject}'" not in error.problem:
        error.problem += f" This was the step \"{title}\" for '{subject}'."


def _sentence(error: BaseException) -> str:
    return "interrupted by Ctrl-C" if isinstance(error, KeyboardInterrupt) else str(error)
