"""Which moment of its past a volume shows, from the ledger of what was written to it: pure.

The exerciser's own `ledger verify` judges each block by itself: whole, and no older than the last
flush. Here the blocks are judged together (INV-1): all of them must show one moment.

- A writer's writes follow each other, each begun when the one before was answered. So for each
  writer there is one last write that the volume shows, and every block of that writer must hold
  what was written to it last up to there.
- A batch of one writer that was flushed before a batch of another was begun (the ledger's lines
  are in that order) must be there if anything of the later one is.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
MAGIC = int.from_bytes(b"GrLedger", "little")
_HEADER = struct.Struct("<QQQQ")  # magic, run, block, version
DESCRIBED = 8  # faults described; all are counted


@dataclass(frozen=True)
class Issued:
    """A writer is about to write these versions of these blocks, in this order."""

    writer: int
    batch: int
    writes: tuple[tuple[int, int], ...]  # block, version


@dataclass(frozen=True)
class Flushed:
    """All of the batch was written, and then a flush was answered."""

    writer: int
    batch: int


Event = Issued | Flushed


@dataclass(frozen=True)
class LostFlush:
    """A batch that a flush had made durable, and that is not wholly there."""

    number: int  # among the judged flushes of its writer, from 0
    flushed: Flushed
    writes: int  # of it, that are not there


@dataclass(frozen=True)
class Cut:
    """What a volume shows of what was written since it was last looked at."""

    flushes: int  # answered
    flushed_writes: int
    unflushed_kept: int  # writes that are there, though no flush had followed them
    lost: tuple[LostFlush, ...]
    fault_count: int
    faults: tuple[str, ...]  # the first of them, in words

    @property
    def lost_writes(self) -> int:
        """Writes that a flush had made durable, and that are not there."""
        return sum(lost.writes for lost in self.lost)


def parse_run(text: str) -> int:
    """The run that is in every block of a ledger. Raises ValueError when it has no first line."""
    for record in _parse_records(text):
        if record["kind"] == "begun":
            return int(record["run"])
    raise ValueError("the ledger does not begin with what it is about")


def parse_events(text: str) -> list[Event]:
    """What was issued and flushed, in the ledger's order; a line that was cut off is left out."""
    events: list[Event] = []
    for record in _parse_records(text):
        if record["kind"] == "issued":
            writes = tuple((int(block), int(version)) for block, version in record["writes"])
            events.append(Issued(int(record["writer"]), int(record["batch"]), writes))
        elif record["kind"] == "flushed":
            events.append(Flushed(int(record["writer"]), int(record["batch"])))
    return events


def parse_versions(content: bytes, run: int) -> list[int | None]:
    """The version that each block names; None for one that is torn, foreign or another's.

    Checksums are not looked at: `ledger verify` does that.
    """
    versions: list[int | None] = []
    for number in range(len(content) // BLOCK_BYTES):
        start = number * BLOCK_BYTES
        headers = {
            _HEADER.unpack_from(content, start + sector)
            for sector in range(0, BLOCK_BYTES, SECTOR_BYTES)
        }
        magic, of_run, block, version = headers.pop()
        is_whole = not headers and (magic, of_run, block) == (MAGIC, run, number)
        versions.append(version if is_whole else None)
    return versions


def classify_cut(base: Sequence[int], events: Sequence[Event], found: Sequence[int | None]) -> Cut:
    """Hold `found`, the version of each block, to `events`, written onto `base`.

    Each block belongs to one writer. A flush that is answered after its writer's host was looked
    at counts like any other.
    """
    writers = {event.writer: _Writer() for event in events}
    for event in events:
        if isinstance(event, Issued):
            writers[event.writer].issue(event)
    faults: list[str] = []
    if len(found) != len(base):
        faults.append(f"there are {len(found)} blocks instead of {len(base)}")
    found = [*found, *[None] * (len(base) - len(found))]
    for writer in writers.values():
        writer.look(found)
    faults += _describe_blocks(base, writers.values(), found)
    faults += _describe_order(events, writers)
    flushed = [event for event in events if isinstance(event, Flushed)]
    lost = []
    numbers = Counter[int]()
    for event in flushed:
        missing = writers[event.writer].missing(event.batch)
        if missing:
            lost.append(LostFlush(numbers[event.writer], event, missing))
        numbers[event.writer] += 1
    flushed_writes = sum(writers[event.writer].count(event.batch) for event in flushed)
    shown = sum(writer.shown for writer in writers.values())
    kept_flushed = flushed_writes - sum(one.writes for one in lost)
    return Cut(
        flushes=len(flushed),
        flushed_writes=flushed_writes,
        unflushed_kept=max(0, shown - kept_flushed),
        lost=tuple(lost),
        fault_count=len(faults),
        faults=tuple(faults[:DESCRIBED]),
    )


def forget_flushes(text: str, lost: Iterable[LostFlush]) -> str:
    """The ledger without the word that these batches were flushed: they are owed no longer."""
    forgotten = {(one.flushed.writer, one.flushed.batch) for one in lost}

    def is_kept(line: str) -> bool:
        record = _parse_record(line)
        if record is None or record["kind"] != "flushed":
            return True
        return (int(record["writer"]), int(record["batch"])) not in forgotten

    return "".join(line for line in text.splitlines(keepends=True) if is_kept(line))


class _Writer:
    """One writer's writes in their order, and how many of them the volume shows."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []
        self.ranges: dict[int, range] = {}  # of each batch, within `writes`
        self.shown = 0  # the writes up to here are there, or were overwritten by one that is

    def issue(self, event: Issued) -> None:
        start = len(self.writes)
        self.writes += event.writes
        self.ranges[event.batch] = range(start, len(self.writes))

    def look(self, found: Sequence[int | None]) -> None:
        for index, (block, version) in enumerate(self.writes):
            if found[block] == version:
                self.shown = index + 1

    def count(self, batch: int) -> int:
        return len(self.ranges.get(batch, range(0)))

    def missing(self, batch: int) -> int:
        numbers = self.ranges.get(batch, range(0))
        return max(0, numbers.stop - max(numbers.start, self.shown))


def _describe_blocks(
    base: Sequence[int], writers: Iterable[_Writer], found: Sequence[int | None]
) -> list[str]:
    """Blocks that do not hold what was written to them last at the moment that is shown."""
    expected = list(base)
    for writer in writers:
        for block, version in writer.writes[: writer.shown]:
            expected[block] = version
    faults = []
    for block, (want, have) in enumerate(zip(expected, found, strict=False)):
        if have is None:
            faults.append(f"block {block} is torn, or nothing that was written there")
        elif have != want:
            faults.append(f"block {block} holds version {have}, and at that moment it held {want}")
    return faults


def _describe_order(events: Sequence[Event], writers: dict[int, _Writer]) -> list[str]:
    """Batches that are missing, though something that was begun after their flush is there."""
    later: Issued | None = None
    for event in events:
        if isinstance(event, Issued):
            batch = writers[event.writer].ranges[event.batch]
            if batch.start < writers[event.writer].shown:
                later = event  # the last of all that shows
    if later is None:
        return []
    faults = []
    for event in events:
        if event is later:
            break
        if isinstance(event, Flushed) and writers[event.writer].missing(event.batch):
            faults.append(
                f"batch {event.batch} of writer {event.writer} is missing; it was flushed before "
                f"batch {later.batch} of writer {later.writer} was begun, which is there"
            )
    return faults


def _parse_records(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        record = _parse_record(line)
        if record is not None:
            yield record


def _parse_record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None  # empty, or cut off by a crash
    return record if isinstance(record, dict) and "kind" in record else None
