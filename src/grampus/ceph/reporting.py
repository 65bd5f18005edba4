"""Long commands of `rbd`, which say how far they are while they work.

Where another client holds the image's lock, that client does the work and tells the command how far
it is (Ceph 20.2, `librbd/ImageWatcher.cc`), so it is said all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from grampus.ceph.ports import CommandRunner
from grampus.core.errors import GrampusError

Report = Callable[[float], None]  # how much is done, 0 to 1
# The tool writes how far it is to stderr.
REPORT = 'exec rbd "$@" 2>&1'
_PERCENT = re.compile(rb"(\d{1,3})% complete")
# What it says of one percent: a reader waits until it has so much.
_CHUNK_BYTES = 32
_TAIL_BYTES = 600


def report_nowhere(_done: float) -> None:
    """Nobody is told."""


def run_reporting(
    runner: CommandRunner,
    arguments: Sequence[str],
    report: Report,
    failed: Callable[[str], GrampusError],
) -> None:
    """`rbd ARGUMENTS` to its end, however long it takes; `report` is told of each percent.

    Raises what `failed` makes of the last line that the tool said, and what the runner raises when
    it said nothing.
    """
    tail = b""
    try:
        with runner.reading(["sh", "-c", REPORT, "rbd", *arguments]) as output:
            while chunk := output.read(_CHUNK_BYTES):
                tail = (tail + chunk)[-_TAIL_BYTES:]
                done = parse_done(tail)
                if done is not None:
                    report(done)
    except GrampusError as error:
        said = tail.decode(errors="replace").replace("\r", "\n").strip().splitlines()
        if not said:
            raise
        raise failed(said[-1]) from error


def parse_done(tail: bytes) -> float | None:
    """How much is done (0 to 1), by the last word of the tool; None: it has not said."""
    found = _PERCENT.findall(tail)
    return min(int(found[-1]), 100) / 100 if found else None
