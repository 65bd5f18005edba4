"""What an operation may and must do to acknowledged rows, by when its commands ran: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.proof.operations.commit_watch import Acknowledged


@dataclass(frozen=True)
class Ran:
    """A command that was run, and when, on the monotonic clock."""

    command: tuple[str, ...]
    began_s: float
    ended_s: float


def decide_times_s(ran: Sequence[Ran], timed: tuple[str, ...]) -> list[float]:
    """How long each command took that begins with the words `timed`; none: no command is timed."""
    if not timed:
        return []
    return [
        round(one.ended_s - one.began_s, 2) for one in ran if one.command[: len(timed)] == timed
    ]


def decide_before(rows: Sequence[Acknowledged], at_s: float) -> set[int]:
    """Rows that were acknowledged before that moment."""
    return {row.number for row in rows if row.at_s < at_s}


def decide_may_go(rows: Sequence[Acknowledged], snapshot: Ran, rollback: Ran) -> set[int]:
    """Rows that a rollback may take: acknowledged since the snapshot was asked for.

    Those that were acknowledged after the rollback had ended are not among them.
    """
    return decide_before(rows, rollback.ended_s) - decide_before(rows, snapshot.began_s)


def decide_must_go(rows: Sequence[Acknowledged], snapshot: Ran, rollback: Ran) -> set[int]:
    """Rows that a rollback must take: acknowledged once the snapshot was there."""
    return decide_before(rows, rollback.began_s) - decide_before(rows, snapshot.ended_s)
