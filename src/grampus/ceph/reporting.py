"""Long commands of `rbd`, which say how far they are while they work.

Where another client holds the image's lock, that client does the work and tells the command how far
it is (Ceph 20.2, `librbd/ImageWatcher.cc`), so it is said all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from grampus.ceph.ports import CommandRunner
from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader

Report = Callable[[float], None]  # how much is done, 0 to 1
# The tool writes how far it is to stderr.
REPORT = 'exec rbd "$@" 2>&1'
_PERCENT = re.compile(rb"(\d{1,3})% complete")
# What it says of one percent: a reader waits until it has so much.
_CHUNK_BYTES = 32
_TAIL_BYTES = 600


@dataclass(frozen=True)
class Watch:
    """What is looked at while a command runs, also while the command says nothing."""

    look: Callable[[], GrampusError | None]  # why the command is to be ended; None: it goes on
    every_s: float
    monotonic_s: Callable[[], float]


def report_nowhere(_done: float) -> None:
    """Nobody is told."""


def run_reporting(
    runner: CommandRunner,
    arguments: Sequence[str],
    report: Report,
    failed: Callable[[str], GrampusError],
    *,
    watch: Watch | None = None,
) -> None:
    """`rbd ARGUMENTS` to its end, however long it takes; `report` is told of each percent.

    Raises what `failed` makes of the last line that the tool said, and what the runner raises when
    it said nothing; and, having ended the command, what `watch` gives as the reason for that.
    """
    tail = b""
    argv = ["sh", "-c", REPORT, "rbd", *arguments]
    try:
        # The thread outlives the command: only the command's end ends its last read.
        with ThreadPoolExecutor(max_workers=1) as thread, runner.reading(argv) as output:
            watched = None if watch is None else _WatchedReader(output, watch, thread)
            while chunk := (watched or output).read(_CHUNK_BYTES):
                tail = (tail + chunk)[-_TAIL_BYTES:]
                done = parse_done(tail)
                if done is not None:
                    report(done)
                if watched is not None:
                    watched.look_if_due()
    except _EndedError as ended:
        raise ended.why from None
    except GrampusError as error:
        said = tail.decode(errors="replace").replace("\r", "\n").strip().splitlines()
        if not said:
            raise
        raise failed(said[-1]) from error


class _EndedError(Exception):
    """A command is ended by its watch; no GrampusError, which would be the command's own."""

    def __init__(self, why: GrampusError) -> None:
        super().__init__(str(why))
        self.why = why


class _WatchedReader:
    """Reads in a thread, and looks in its caller's whenever it is time.

    A command that gets no answers from its cluster says nothing at all, and that is when its watch
    is needed most.
    """

    def __init__(self, output: ByteReader, watch: Watch, thread: ThreadPoolExecutor) -> None:
        self._output = output
        self._watch = watch
        self._thread = thread
        self._looked_at_s = watch.monotonic_s()

    def read(self, size_bytes: int, /) -> bytes:
        read = self._thread.submit(self._output.read, size_bytes)
        while not wait({read}, timeout=self._watch.every_s).done:
            self._look()
        return read.result()

    def look_if_due(self) -> None:
        """Look, unless that was done a moment ago; raises _EndedError."""
        if self._watch.monotonic_s() - self._looked_at_s >= self._watch.every_s:
            self._look()

    def _look(self) -> None:
        why = self._watch.look()
        self._looked_at_s = self._watch.monotonic_s()
        if why is not None:
            raise _EndedError(why)


def parse_done(tail: bytes) -> float | None:
    """How much is done (0 to 1), by the last word of the tool; None: it has not said."""
    found = _PERCENT.findall(tail)
    return min(int(found[-1]), 100) / 100 if found else None
