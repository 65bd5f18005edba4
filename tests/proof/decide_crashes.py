"""Which crash comes when: pure, and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

WritePath = Literal["journal", "cache"]
CrashKind = Literal["kill-volumed", "cut-append", "lose-host", "kill-osd", "kill-mon", "lose-disk"]

WRITE_PATHS: tuple[WritePath, ...] = get_args(WritePath)
# A journal keeps nothing on the host's own disk: it has none to lose.
KINDS: dict[WritePath, tuple[CrashKind, ...]] = {
    "journal": ("kill-volumed", "cut-append", "lose-host", "kill-osd", "kill-mon"),
    "cache": ("kill-volumed", "cut-append", "lose-host", "lose-disk", "kill-osd", "kill-mon"),
}

# The load before a crash, in acknowledged writes and flushes.
MIN_OPERATIONS, MAX_OPERATIONS = 60, 900
MAX_DELAY_MS = 50.0
# Of 4 KiB each: batches from a commit's size to a quarter of a MiB.
WRITES_PER_FLUSH = (1, 4, 4, 16, 64)


@dataclass(frozen=True)
class Crash:
    """One crash, with all that is left to chance decided."""

    number: int  # from 1
    write_path: WritePath
    kind: CrashKind
    operations: int  # acknowledged writes and flushes before it
    delay_ms: float  # after a flush was answered, of a `cut-append` and a fence
    writes_per_flush: int  # on average
    draw: float  # 0 to 1: which of several daemons or hosts


def decide_crash(seed: int, number: int, write_paths: Sequence[WritePath]) -> Crash:
    """Crash `number`: the write paths take turns, and for each of them its kinds.

    A longer proof of the same seed begins with the crashes of a shorter one.
    """
    write_path = write_paths[(number - 1) % len(write_paths)]
    kinds = KINDS[write_path]
    draws = random.Random(f"{seed}/{number}")  # noqa: S311
    return Crash(
        number=number,
        write_path=write_path,
        kind=kinds[(number - 1) // len(write_paths) % len(kinds)],
        operations=draws.randint(MIN_OPERATIONS, MAX_OPERATIONS),
        delay_ms=round(draws.uniform(0.0, MAX_DELAY_MS), 3),
        writes_per_flush=draws.choice(WRITES_PER_FLUSH),
        draw=draws.random(),
    )


def decide_remaining(
    seed: int, total: int, done: Collection[int], write_paths: Sequence[WritePath]
) -> list[Crash]:
    """The crashes of a proof of `total` that have no result yet."""
    numbers = (number for number in range(1, total + 1) if number not in done)
    return [decide_crash(seed, number, write_paths) for number in numbers]


def decide_victim(names: Sequence[str], draw: float) -> str:
    """One of `names`, which must not be empty."""
    return names[min(int(draw * len(names)), len(names) - 1)]


def parse_write_paths(text: str) -> tuple[WritePath, ...]:
    """The write paths in a list such as `journal,cache`. Raises ValueError."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = sorted(set(words) - set(WRITE_PATHS))
    if unknown or not words:
        raise ValueError(f"'{text}' is no list of write paths: give {' or '.join(WRITE_PATHS)}.")
    return tuple(path for path in WRITE_PATHS if path in words)
