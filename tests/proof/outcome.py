"""What a crash did, judged from what was seen: pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.proof.decide_crashes import CrashKind, WritePath
from tests.proof.ledger_cut import Cut, LostFlush

# `kept`: all that was acknowledged is there. `within-lag`: of a lost host with `cache`, only the
# last of it is missing. `violated`: a promise is broken. `unrecovered`: the volume, or what looks
# at it, did not come back.
Verdict = Literal["kept", "within-lag", "violated", "unrecovered"]
GOOD: frozenset[Verdict] = frozenset({"kept", "within-lag"})

# The default of `--max-lag`; the volumes of the proof are made with it.
MAX_LAG_MS = 100.0
# What two busy cores and the ledger's own bookkeeping add to it: the exerciser stamps an answer
# when its thread next runs, after a write to the disk of the thread before it.
MARGIN_MS = 200.0


@dataclass(frozen=True)
class Seen:
    """What was seen of a volume after a crash."""

    cut: Cut
    lost_age_ms: float | None  # of the oldest flush that is missing; None: none is
    block_faults: int  # of `ledger verify`: torn, lost, misplaced, never issued
    described: tuple[str, ...]
    filesystem: str  # what `xfs_repair -n` found; empty: nothing


@dataclass(frozen=True)
class Judgement:
    """The verdict and, if it is a bad one, why."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


def allows_loss(write_path: WritePath, kind: CrashKind) -> bool:
    """Whether the last moments may be lost: with `cache`, and only with the host's own disk."""
    return write_path == "cache" and kind == "lose-host"


@dataclass(frozen=True)
class Answer:
    """An operation of a writer that was answered with success."""

    writer: int
    answered_ns: int


def decide_lost_age_ms(cut: Cut, answers: Sequence[Answer]) -> float | None:
    """How much older than the last answered flush the oldest missing one is; None if none is.

    `answers` are those of the cut's flushes, for each writer in the order of its flushes. The lines
    of different writers can stand in another order than in the ledger. A writer stamps the answer
    before it records the flush in the ledger, so a recorded flush without a stamp is an error in
    the evidence; then the oldest answer counts.
    """
    if not cut.lost or not answers:
        return None if not cut.lost else 0.0
    of_writers: dict[int, list[int]] = {}
    for answer in answers:
        of_writers.setdefault(answer.writer, []).append(answer.answered_ns)
    first_ns = min(answer.answered_ns for answer in answers)

    def answered_ns(lost: LostFlush) -> int:
        own = of_writers.get(lost.flushed.writer, [])
        return own[lost.number] if lost.number < len(own) else first_ns

    last_ns = max(answer.answered_ns for answer in answers)
    return (last_ns - min(answered_ns(lost) for lost in cut.lost)) / 1e6


def classify_outcome(seen: Seen, *, may_lose: bool) -> Judgement:
    """The verdict on one look at a volume."""
    reasons = list(seen.cut.faults)
    if seen.cut.lost and not may_lose:
        reasons.append(f"{len(seen.cut.lost)} flushes with {seen.cut.lost_writes} writes are lost")
    limit_ms = MAX_LAG_MS + MARGIN_MS
    if may_lose and seen.lost_age_ms is not None and seen.lost_age_ms > limit_ms:
        reasons.append(
            f"what is lost reaches {seen.lost_age_ms:.0f} ms back, and {limit_ms:.0f} are allowed"
        )
    if seen.block_faults:
        reasons += [f"{seen.block_faults} blocks are wrong", *seen.described]
    if seen.filesystem:
        reasons.append(f"the file system is not clean: {seen.filesystem}")
    if reasons:
        return Judgement("violated", tuple(reasons))
    return Judgement("within-lag" if seen.cut.lost else "kept")


@dataclass(frozen=True)
class FenceTimes:
    """When what happened around a fence, in nanoseconds since 1970."""

    fenced_ns: int  # the fence was confirmed
    opened_ns: int  # the new owner served the volume
    flush_answers_ns: tuple[int, ...]  # of the old owner, answered with success
    write_answers_ns: tuple[int, ...]


def classify_fence(times: FenceTimes) -> Judgement:
    """Whether the old owner had anything acknowledged that it must not (INV-2).

    No flush once the fence is confirmed: nobody could ever find what it made durable. No write
    once the new owner serves the volume: before that, a write is in a cache that was never
    flushed, and owed to nobody.
    """
    flushes = sum(answered > times.fenced_ns for answered in times.flush_answers_ns)
    writes = sum(answered > times.opened_ns for answered in times.write_answers_ns)
    reasons = []
    if flushes:
        reasons.append(f"{flushes} flushes of the old owner were answered after the fence")
    if writes:
        reasons.append(f"{writes} writes of the old owner were answered after the takeover")
    return Judgement("violated", tuple(reasons)) if reasons else Judgement("kept")


def classify_late_writes(first: Judgement, again: Cut) -> Judgement:
    """A second look at what a new owner took over: nothing of the old one may have come since.

    After a first look that found a promise broken, the second one begins where the first did, so
    what it counts was there before.
    """
    if first.verdict == "violated" or not again.unflushed_kept:
        return Judgement("kept")
    return Judgement("violated", (f"{again.unflushed_kept} writes came in after the takeover",))


@dataclass(frozen=True)
class Row:
    """A row that a database acknowledged."""

    client: int
    number: int  # counted by its client from 1
    answered_ns: int


def decide_missing_rows(acknowledged: Sequence[Row], held: frozenset[tuple[int, int]]) -> list[Row]:
    """Acknowledged rows that the database does not hold, of (client, number), oldest first."""
    missing = [row for row in acknowledged if (row.client, row.number) not in held]
    return sorted(missing, key=lambda row: row.answered_ns)


def classify_rows(
    acknowledged: Sequence[Row], held: frozenset[tuple[int, int]], *, may_lose: bool
) -> Judgement:
    """Whether a database holds the commits that it acknowledged: all, or all but the last ones."""
    missing = decide_missing_rows(acknowledged, held)
    if not missing:
        return Judgement("kept")
    if not may_lose:
        return Judgement("violated", (f"{len(missing)} acknowledged commits are lost",))
    reasons = []
    age_ms = decide_row_age_ms(acknowledged, missing)
    limit_ms = MAX_LAG_MS + MARGIN_MS
    if age_ms > limit_ms:
        reasons.append(f"a commit {age_ms:.0f} ms old is lost, and {limit_ms:.0f} are allowed")
    first_missing: dict[int, int] = {}
    for row in missing:
        first_missing[row.client] = min(row.number, first_missing.get(row.client, row.number))
    gaps = sum(number > first_missing.get(client, number) for client, number in held)
    if gaps:
        reasons.append(f"{gaps} commits are there that followed a lost one of the same client")
    return Judgement("violated", tuple(reasons)) if reasons else Judgement("within-lag")


def decide_row_age_ms(acknowledged: Sequence[Row], missing: Sequence[Row]) -> float:
    """How much older than the last acknowledged commit the oldest missing one is."""
    if not missing:
        return 0.0
    last_ns = max(row.answered_ns for row in acknowledged)
    return (last_ns - min(row.answered_ns for row in missing)) / 1e6


def median(values: Sequence[float]) -> float | None:
    """The median, or None of nothing."""
    return statistics.median(values) if values else None
