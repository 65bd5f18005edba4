"""Work on several databases at a time: shown as one phase, ended as a whole by Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from grampus.cli.progress_bar import PlainProgress
from grampus.core.progress import Progress
from grampus.databases.controller.side_by_side import SideBySide
from grampus.hosts.process import ask_to_end, commands_at_work

# Of one lane. A backup reads its volume, and compresses it, as fast as it can: more of them would
# take from clients what they win.
AT_ONCE = 2

SessionT = TypeVar("SessionT")
ResultT = TypeVar("ResultT")


class SharedProgress(PlainProgress):
    """What threads do, each for a subject of its own, as one phase of another progress.

    On a terminal that is a line that moves, in a log a line for each phase of each subject.
    """

    def __init__(self, whole: Progress, title: str, subjects: int) -> None:
        super().__init__()
        self._whole = whole
        self._subjects = subjects
        self._lock = threading.Lock()
        self._at_work: list[str] = []
        self._done = 0
        self._of_thread = threading.local()
        whole.phase(title)

    @contextmanager
    def at(self, subject: str) -> Iterator[None]:
        """What this thread tells in the block is about `subject`."""
        self._of_thread.subject = subject
        with self._lock:
            self._at_work.append(subject)
            self._draw()
        try:
            yield
        finally:
            with self._lock:
                self._at_work.remove(subject)
                self._done += 1
                self._draw()

    def phase(self, name: str) -> None:
        if isinstance(self._whole, PlainProgress):
            self._whole.phase(self._about(name))

    def note(self, text: str) -> None:
        self._whole.note(self._about(text))

    def _about(self, text: str) -> str:
        subject = getattr(self._of_thread, "subject", None)
        return text if subject is None else f"{subject}: {text}"

    def _draw(self) -> None:
        at_work = f"; working on {', '.join(self._at_work)}" if self._at_work else ""
        said = f"{self._done} of {self._subjects} done{at_work}"
        self._whole.detail(said, fraction=self._done / self._subjects)


def for_each(
    lanes: Mapping[str, str],
    work: Callable[[SessionT, str], ResultT],
    *,
    session: SessionT,
    open_shared: Callable[[PlainProgress], AbstractContextManager[SessionT]],
    progress: Progress,
    title: str,
) -> list[ResultT]:
    """What `work` answers for each subject, in the order of `lanes` (lanes by subject).

    At most AT_ONCE of a lane are worked on at a time, in threads with a session that `open_shared`
    opens for all of them; one subject alone has `session`, and is shown as ever. Whatever `work`
    tells of in its answer keeps no other from its turn. At Ctrl-C all that is at work is undone
    as it is when it is alone; a second one leaves that to the next command.
    """
    if len(lanes) < 2:
        return [work(session, subject) for subject in lanes]
    shown = SharedProgress(progress, title, len(lanes))
    side = SideBySide[SessionT, ResultT](lambda: open_shared(shown), most=AT_ONCE)

    def work_shown(shared: SessionT, subject: str) -> ResultT:
        with shown.at(subject):
            return work(shared, subject)

    try:
        done = side.run(lanes, work_shown, patience_s=None)
    except KeyboardInterrupt:
        progress.note(
            "Ending the running work. Press Ctrl-C again to leave it to the next command."
        )
        # Those that run before anybody is told: what a thread undoes takes commands too.
        running = commands_at_work()
        side.interrupt(lambda: ask_to_end(running))
        raise
    return [done[subject] for subject in lanes]
