"""What a crash did, judged."""

from __future__ import annotations

import pytest

from tests.proof.ledger_cut import Cut, Flushed, LostFlush
from tests.proof.outcome import (
    Answer,
    FenceTimes,
    Judgement,
    Row,
    Seen,
    allows_loss,
    classify_fence,
    classify_late_writes,
    classify_outcome,
    classify_rows,
    decide_lost_age_ms,
    median,
)

MS = 1_000_000


def cut(*lost: int, faults: tuple[str, ...] = (), unflushed_kept: int = 0) -> Cut:
    missing = tuple(LostFlush(number, Flushed(0, number), 2) for number in lost)
    return Cut(20, 40, unflushed_kept, missing, len(faults), faults)


def seen(what: Cut, age_ms: float | None = None, block_faults: int = 0, xfs: str = "") -> Seen:
    return Seen(what, age_ms, block_faults, (), xfs)


@pytest.mark.parametrize(
    ("found", "may_lose", "verdict"),
    [
        (seen(cut()), False, "kept"),
        (seen(cut()), True, "kept"),
        (seen(cut(19), 90.0), True, "within-lag"),
        (seen(cut(19), 90.0), False, "violated"),
        (seen(cut(3), 301.0), True, "violated"),
        (seen(cut(faults=("a mixture",))), True, "violated"),
        (seen(cut(), block_faults=1), False, "violated"),
        (seen(cut(), xfs="bad superblock"), False, "violated"),
    ],
)
def test_a_verdict_follows_from_what_was_seen(found: Seen, may_lose: bool, verdict: str) -> None:
    judgement = classify_outcome(found, may_lose=may_lose)
    assert judgement.verdict == verdict
    assert bool(judgement.reasons) == (verdict == "violated")


def test_only_a_cache_whose_host_is_lost_may_lose() -> None:
    assert allows_loss("cache", "lose-host")
    assert not allows_loss("cache", "lose-disk")
    assert not allows_loss("cache", "kill-volumed")
    assert not allows_loss("journal", "lose-host")


def test_the_age_of_a_loss_counts_back_from_the_last_answer() -> None:
    answers = [Answer(0, at * 10 * MS) for at in range(20)]
    assert decide_lost_age_ms(cut(), answers) is None
    assert decide_lost_age_ms(cut(19), answers) == 0.0
    assert decide_lost_age_ms(cut(10, 19), answers) == 90.0
    assert decide_lost_age_ms(cut(0), answers) == 190.0
    assert decide_lost_age_ms(cut(20), answers) == 190.0  # recorded, but without a stamp


def test_the_age_of_a_loss_is_that_of_the_writers_own_flush() -> None:
    """A stall before the last answers is not part of it, in whichever order they are noted."""
    before = [Answer(0, 1 * MS), Answer(1, 2 * MS)]
    after = [Answer(1, 400 * MS), Answer(0, 401 * MS)]
    lost = (LostFlush(1, Flushed(0, 7), 2), LostFlush(1, Flushed(1, 8), 2))
    found = Cut(4, 8, 0, lost, 0, ())
    for answers in (before + after, [*before[::-1], *after[::-1]]):
        assert decide_lost_age_ms(found, answers) == 1.0


def test_a_fence_ends_flushes_at_once_and_writes_before_the_takeover() -> None:
    assert classify_fence(FenceTimes(100, 200, (90, 100), (90, 150, 200))).verdict == "kept"
    late_flush = classify_fence(FenceTimes(100, 200, (90, 101), (90,)))
    late_write = classify_fence(FenceTimes(100, 200, (90,), (201,)))
    assert late_flush.verdict == late_write.verdict == "violated"
    assert "flushes" in late_flush.reasons[0]
    assert "writes" in late_write.reasons[0]


def test_nothing_may_come_in_after_a_takeover() -> None:
    kept, broken = Judgement("kept"), Judgement("violated", ("300 are allowed",))
    assert classify_late_writes(kept, cut()).verdict == "kept"
    assert classify_late_writes(kept, cut(unflushed_kept=1)).verdict == "violated"
    # Both looks began at the same moment: the write was there at the first one.
    assert classify_late_writes(broken, cut(unflushed_kept=1)).verdict == "kept"


ROWS = tuple(Row(client, number, number * 50 * MS) for number in range(1, 11) for client in (0, 1))
ALL = frozenset((row.client, row.number) for row in ROWS)


@pytest.mark.parametrize(
    ("missing", "may_lose", "verdict"),
    [
        ((), False, "kept"),
        (((0, 10),), False, "violated"),
        (((0, 10),), True, "within-lag"),
        (((0, 9), (0, 10), (1, 10)), True, "within-lag"),
        (((0, 9),), True, "violated"),  # a later commit of the client is there
        (tuple((0, number) for number in range(3, 11)), True, "violated"),  # 350 ms
    ],
)
def test_commits_are_there_or_the_last_ones_are_missing(
    missing: tuple[tuple[int, int], ...], may_lose: bool, verdict: str
) -> None:
    assert classify_rows(ROWS, ALL - set(missing), may_lose=may_lose).verdict == verdict


def test_a_commit_that_was_not_acknowledged_may_be_there() -> None:
    assert classify_rows(ROWS, ALL | {(0, 11)}, may_lose=False).verdict == "kept"


def test_the_median_of_nothing_is_nothing() -> None:
    assert median([]) is None
    assert median([3.0, 1.0, 2.0]) == 2.0
