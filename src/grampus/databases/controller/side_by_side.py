"""Something done for several subjects at once, so that one that hangs holds up no other."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

from grampus.databases.controller.due_jobs import SessionT

ResultT = TypeVar("ResultT")

HEARD_WITHIN_S = 0.5


class _SharedSession(Generic[SessionT]):
    """A session of all that was begun at one time, closed by the last that is done with it."""

    def __init__(self, opened: AbstractContextManager[SessionT], users: int) -> None:
        self._stack = ExitStack()
        self.session = self._stack.enter_context(opened)
        self._users = users
        self._lock = threading.Lock()

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            self._stack.close()


@dataclass(frozen=True)
class _Turn(Generic[SessionT, ResultT]):
    """One subject that is to have its turn."""

    subject: str
    lane: str
    shared: _SharedSession[SessionT]
    work: Callable[[SessionT, str], ResultT]


class SideBySide(Generic[SessionT, ResultT]):
    """Work on subjects in threads, which outlast the call that began them.

    At most `most` subjects of one lane are worked on at a time, the others wait; lanes do not wait
    for one another. A lane is what its subjects may hang at together, such as a service.
    """

    def __init__(
        self, open_session: Callable[[], AbstractContextManager[SessionT]], *, most: int
    ) -> None:
        self._open_session = open_session
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[_Turn[SessionT, ResultT]] = deque()
        self._at_work: dict[str, str] = {}  # lanes by subject
        self._threads: Counter[str] = Counter()  # by lane
        self._results: dict[str, ResultT] = {}
        self._errors: list[Exception] = []
        # A lock of C, which an interrupt cannot strike between its taking and its block.
        self._interrupting = threading.Lock()
        self._interruptible: set[int] = set()  # threads that are inside of `work`
        self._is_interrupted = False

    def run(
        self,
        wanted: Mapping[str, str],
        work: Callable[[SessionT, str], ResultT],
        *,
        patience_s: float | None,
    ) -> dict[str, ResultT]:
        """Begin with all of `wanted` (lanes by subject) that is neither at work nor waiting.

        Answers with what has come since the last call, once all has or after `patience_s` (None:
        once all has). What is still at work is not begun again. Raises what `open_session` raises,
        and what `work` raised, in this call or a later one.
        """
        with self._changed:
            dropped = [turn for turn in self._waiting if turn.subject not in wanted]
            self._waiting = deque(turn for turn in self._waiting if turn.subject in wanted)
            known = {*self._at_work, *(turn.subject for turn in self._waiting)}
        for turn in dropped:
            turn.shared.release()
        fresh = [subject for subject in wanted if subject not in known]
        if fresh:
            shared = _SharedSession(self._open_session(), len(fresh))
            self._begin([_Turn(subject, wanted[subject], shared, work) for subject in fresh])
        with self._changed:
            if patience_s is None:
                self._wait_for_all()
            else:
                self._changed.wait_for(self._is_idle, patience_s)
            if self._errors:
                raise self._errors.pop(0)
            results, self._results = self._results, {}
        return results

    def interrupt(self, wake: Callable[[], None]) -> None:
        """End what is at work as Ctrl-C does in the main thread, and wait until it has ended.

        Python tells the main thread alone of a Ctrl-C: work in others would end half done with the
        process. Each gets a KeyboardInterrupt here, so it is undone as any work is. `wake` ends
        what they wait for outside Python, such as commands. Nothing is begun any more.
        """
        with self._changed:
            dropped, self._waiting = self._waiting, deque()
        for turn in dropped:
            turn.shared.release()
        with self._interrupting:
            self._is_interrupted = True
            for thread in self._interruptible:
                _interrupt_thread(thread)
            self._interruptible.clear()
        wake()
        with self._changed:
            self._wait_for_all()

    def _begin(self, turns: list[_Turn[SessionT, ResultT]]) -> None:
        with self._changed:
            self._waiting += turns
            wanted = Counter(turn.lane for turn in self._waiting)
            for lane, count in wanted.items():
                for _ in range(min(count, self._most - self._threads[lane])):
                    self._threads[lane] += 1
                    # One that hangs keeps nobody from ending: nothing is left half done by it.
                    threading.Thread(target=self._serve, args=(lane,), daemon=True).start()

    def _serve(self, lane: str) -> None:
        while (turn := self._next(lane)) is not None:
            try:
                result = self._work(turn)
                with self._changed:
                    self._results[turn.subject] = result
            except KeyboardInterrupt:
                pass  # whoever asked for it waits for the end alone
            except Exception as error:  # noqa: BLE001 - `run` raises it again
                with self._changed:
                    self._errors.append(error)
            finally:
                turn.shared.release()
                with self._changed:
                    del self._at_work[turn.subject]
                    self._changed.notify_all()

    def _work(self, turn: _Turn[SessionT, ResultT]) -> ResultT:
        thread = threading.get_ident()
        with self._interrupting:
            if self._is_interrupted:
                raise KeyboardInterrupt
            self._interruptible.add(thread)
        try:
            return turn.work(turn.shared.session, turn.subject)
        finally:
            # One that was sent strikes here at the latest, never in what comes after.
            with self._interrupting:
                self._interruptible.discard(thread)

    def _next(self, lane: str) -> _Turn[SessionT, ResultT] | None:
        with self._changed:
            turn = next((turn for turn in self._waiting if turn.lane == lane), None)
            if turn is None:
                self._threads[lane] -= 1
                return None
            self._waiting.remove(turn)
            self._at_work[turn.subject] = lane
            return turn

    def _wait_for_all(self) -> None:
        # In pieces: a Ctrl-C right before a wait without an end would be heard after it.
        while not self._changed.wait_for(self._is_idle, HEARD_WITHIN_S):
            pass

    def _is_idle(self) -> bool:
        return not self._at_work and not self._waiting


def _interrupt_thread(thread: int) -> None:
    """A KeyboardInterrupt in another thread, as soon as it is in Python code (C API)."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt)
    )
