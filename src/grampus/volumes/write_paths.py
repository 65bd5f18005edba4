"""Write paths: what each of them promises, and what an image says of its journal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack, get_args

from grampus.core.clock import format_duration
from grampus.core.errors import UsageError, suggest
from grampus.core.units import GIB, MIB, format_bytes, parse_bytes
from grampus.volumes.model import (
    DEFAULT_JOURNAL_MEMORY_BYTES,
    DEFAULT_MAX_LAG_MS,
    WritePath,
)

WRITE_PATHS_PAGE = "docs/guide/write-paths.md"
WRITE_PATHS: tuple[WritePath, ...] = get_args(WritePath)
# Below, each flush would ship a batch of its own; above, a lost host costs what nobody expects.
MIN_MAX_LAG_MS = 10
MAX_MAX_LAG_MS = 60_000
# As volumed takes them (`command_line.rs`).
MIN_JOURNAL_MEMORY_BYTES, MAX_JOURNAL_MEMORY_BYTES = 16 * MIB, GIB
_DURATION = re.compile(
    r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>ms|s)", re.IGNORECASE | re.ASCII
)

# Metadata of the image that volumed keeps, under our prefix (`grampus.`).
JOURNAL_KEY = "journal"
OBJECTS_KEY = "journal.objects"  # `ceph/journal_objects.py` reads what it says
LOCAL_KEY = "journal.local"  # the log on a host's disk that may hold what is nowhere else
_OPEN = "open"


class WriteBounds(TypedDict, total=False):
    """What bounds a write path, as asked for; what is None or left out is not asked for."""

    max_lag_ms: int | None  # with `cache` alone
    journal_memory_bytes: int | None  # not with `direct`
    journal_pool: str | None  # not with `direct`


class Written(Protocol):
    """A volume, or a database with one: how it is written to."""

    @property
    def pool(self) -> str: ...

    @property
    def write_path(self) -> WritePath: ...

    @property
    def max_lag_ms(self) -> int: ...

    @property
    def journal_memory_bytes(self) -> int | None: ...

    @property
    def journal_pool(self) -> str | None: ...

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """The same with other values."""
        ...


WrittenT = TypeVar("WrittenT", bound=Written)


@dataclass(frozen=True)
class JournalFacts:
    """What an image's metadata says of its journal."""

    has_objects: bool  # it has been made, and not been removed
    is_unapplied: bool  # it may hold what the image does not


@dataclass(frozen=True)
class Losses:
    """What is lost if what fails, in plain words."""

    host_fails: str
    disk_fails: str  # the host's own
    copies_fail: str


def parse_journal_facts(metadata: Mapping[str, str]) -> JournalFacts:
    """The facts in an image's metadata, whose keys come without our prefix.

    volumed marks the journal as open before the first write can be in it alone, and takes the
    mark back once it is drained. A journal that was removed leaves an empty name.
    """
    return JournalFacts(
        has_objects=bool(metadata.get(OBJECTS_KEY)),
        is_unapplied=metadata.get(JOURNAL_KEY) == _OPEN,
    )


def parse_write_path(text: str) -> WritePath:
    """The write path named `text`. Raises UsageError, with a suggestion where one is likely."""
    for path in WRITE_PATHS:
        if path == text:
            return path
    raise UsageError(
        f"{text!r} is not a write path.",
        suggest(text.strip().lower(), WRITE_PATHS, f"Choose one of {', '.join(WRITE_PATHS)}."),
        code="unknown-write-path",
    )


def parse_max_lag_ms(text: str) -> int:
    """Milliseconds in `text`, such as `100ms` or `0.5s`.

    Raises UsageError when it is no time, or not within 10 ms and 60 s.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a time.",
            "Write a number and a unit, such as 100ms or 0.5s.",
            code="invalid-max-lag",
        )
    factor = 1 if match["unit"].lower() == "ms" else 1000
    max_lag_ms = Fraction(match["number"]) * factor
    if not MIN_MAX_LAG_MS <= max_lag_ms <= MAX_MAX_LAG_MS:
        word = "short" if max_lag_ms < MIN_MAX_LAG_MS else "long"
        raise UsageError(
            f"A max-lag of {text.strip()} is too {word}.",
            f"Choose {format_duration(MIN_MAX_LAG_MS / 1000)} to "
            f"{format_duration(MAX_MAX_LAG_MS / 1000)}.",
            code="invalid-max-lag",
        )
    return int(max_lag_ms)


def describe_write_path(
    write_path: WritePath,
    max_lag_ms: int,
    journal_memory_bytes: int | None = None,
    journal_pool: str | None = None,
) -> str:
    """The write path for people: `journal`, `cache, at most 100 ms behind`; with the memory and the
    pool of its journal if they are not the default ones.
    """
    words: list[str] = [write_path]
    if write_path == "cache":
        words.append(f"at most {format_duration(max_lag_ms / 1000)} behind")
    if journal_memory_bytes is not None:
        words.append(f"at most {format_bytes(journal_memory_bytes)} of memory for its journal")
    if journal_pool is not None:
        words.append(f"its journal in the pool {journal_pool}")
    return ", ".join(words)


def describe_written(spec: Written) -> str:
    """The same of a volume or a database."""
    memory_bytes, pool = spec.journal_memory_bytes, spec.journal_pool
    return describe_write_path(spec.write_path, spec.max_lag_ms, memory_bytes, pool)


def describe_safety(spec: Written) -> str:
    """The same, with what a lost host costs and the page that says more."""
    loss = {
        "direct": "loses no completed write",
        "journal": "loses no commit",
        "cache": f"can lose the commits of the last {format_duration(spec.max_lag_ms / 1000)}",
    }[spec.write_path]
    return f"{describe_written(spec)}; a lost host {loss} ({WRITE_PATHS_PAGE})"


def decide_max_lag_ms(
    write_path: WritePath, wanted_ms: int | None, *, former_ms: int = DEFAULT_MAX_LAG_MS
) -> int:
    """The max-lag of a volume with that write path: as wanted, else as it was.

    It means nothing but with `cache`: without it, it goes back to the default. Raises UsageError
    when one is wanted all the same.
    """
    if write_path == "cache":
        return former_ms if wanted_ms is None else wanted_ms
    if wanted_ms is not None:
        raise UsageError(
            f"The write path {write_path} has no max-lag: all flushed data is in the cluster.",
            "Remove --max-lag, or choose --write-path cache.",
            code="max-lag",
        )
    return DEFAULT_MAX_LAG_MS


def parse_journal_memory_bytes(text: str) -> int:
    """Bytes in `text`, such as `64M`. Raises UsageError when it is not within 16 MiB and 1 GiB."""
    memory_bytes = parse_bytes(text, what="journal memory")
    if not MIN_JOURNAL_MEMORY_BYTES <= memory_bytes <= MAX_JOURNAL_MEMORY_BYTES:
        word = "little" if memory_bytes < MIN_JOURNAL_MEMORY_BYTES else "much"
        raise UsageError(
            f"A journal memory of {format_bytes(memory_bytes)} is too {word}.",
            f"Choose {format_bytes(MIN_JOURNAL_MEMORY_BYTES)} to "
            f"{format_bytes(MAX_JOURNAL_MEMORY_BYTES)}.",
            code="invalid-journal-memory",
        )
    return memory_bytes


def decide_journal_memory_bytes(
    write_path: WritePath, wanted_bytes: int | None, *, former_bytes: int | None = None
) -> int | None:
    """The journal memory of a volume with that write path: as wanted, else as it was.

    None is the default. Raises UsageError when one is wanted without a journal.
    """
    if write_path != "direct":
        chosen_bytes = former_bytes if wanted_bytes is None else wanted_bytes
        return None if chosen_bytes == DEFAULT_JOURNAL_MEMORY_BYTES else chosen_bytes
    if wanted_bytes is not None:
        raise UsageError(
            "The write path direct has no journal, so it needs no memory for one.",
            "Remove --journal-memory, or choose --write-path journal or cache.",
            code="journal-memory",
        )
    return None


def decide_journal_pool(
    write_path: WritePath, wanted: str | None, *, pool: str, former: str | None = None
) -> str | None:
    """The pool of the journal of a volume in `pool`: as wanted, else as it was.

    None: the pool of the image, also when it is named. Raises UsageError when one is wanted without
    a journal.
    """
    if write_path != "direct":
        chosen = former if wanted is None else wanted
        return None if chosen == pool else chosen
    if wanted is not None:
        raise UsageError(
            "The write path direct has no journal, so it needs no pool for one.",
            "Remove --journal-pool, or choose --write-path journal or cache.",
            code="journal-pool",
        )
    return None


def journal_pool_of(spec: Written) -> str | None:
    """The pool that its journal is in, or will be in; None: it has no journal."""
    return None if spec.write_path == "direct" else spec.journal_pool or spec.pool


def journal_memory_of(spec: Written) -> int | None:
    """The most that its journal may take of the host's memory; None: it has no journal."""
    if spec.write_path == "direct":
        return None
    return spec.journal_memory_bytes or DEFAULT_JOURNAL_MEMORY_BYTES


def bounds_of(spec: Written) -> WriteBounds:
    """What bounds its write path, each as it would be asked for."""
    return WriteBounds(
        max_lag_ms=spec.max_lag_ms if spec.write_path == "cache" else None,
        journal_memory_bytes=journal_memory_of(spec),
        journal_pool=journal_pool_of(spec),
    )


def decide_written(
    spec: WrittenT, write_path: WritePath | None, **bounds: Unpack[WriteBounds]
) -> WrittenT:
    """The volume, or the database, with another write path, other bounds, or both.

    What is None stays as it is. Raises what `decide_max_lag_ms`, `decide_journal_memory_bytes` and
    `decide_journal_pool` raise.
    """
    path = write_path or spec.write_path
    lag_ms = decide_max_lag_ms(path, bounds.get("max_lag_ms"), former_ms=spec.max_lag_ms)
    memory_bytes = decide_journal_memory_bytes(
        path, bounds.get("journal_memory_bytes"), former_bytes=spec.journal_memory_bytes
    )
    journal_pool = decide_journal_pool(
        path, bounds.get("journal_pool"), pool=spec.pool, former=spec.journal_pool
    )
    return spec.model_copy(
        update={
            "write_path": path,
            "max_lag_ms": lag_ms,
            "journal_memory_bytes": memory_bytes,
            "journal_pool": journal_pool,
        }
    )


def explain_losses(write_path: WritePath, max_lag_ms: int = DEFAULT_MAX_LAG_MS) -> Losses:
    """What a volume with that write path loses when its host, its host's disk, or copies are lost.

    INV-1 states it; a write that no flush followed is owed to nobody, as with a disk.
    """
    if write_path != "cache":
        return _LOSSES[write_path]
    return Losses(
        host_fails=f"at most the commits of the last {format_duration(max_lag_ms / 1000)}; the "
        "volume returns to one earlier moment, never a mixture",
        disk_fails="no flushed data while volumed runs: volumed switches to the write path journal",
        copies_fail=_LOSSES["journal"].copies_fail,
    )


_NOT_THERE = "nothing: the host's disk holds no data of the volume"
_LOSSES: dict[WritePath, Losses] = {
    "direct": Losses(
        host_fails="no completed write: each write completes on all available copies of the image",
        disk_fails=_NOT_THERE,
        copies_fail="no completed write while each object of the image has one up-to-date copy",
    ),
    "journal": Losses(
        host_fails="no flushed data, so no commit: the next attach applies the journal; writes "
        "after the last flush can be lost",
        disk_fails=_NOT_THERE,
        copies_fail="no flushed data while each object of the image and the journal has one "
        "up-to-date copy",
    ),
}


def parse_write_options(
    write_path: str | None,
    max_lag: str | None,
    journal_memory: str | None = None,
    journal_pool: str | None = None,
) -> tuple[WritePath | None, WriteBounds]:
    """The options of the write path, as they are given. Raises UsageError."""
    memory = journal_memory
    return (
        None if write_path is None else parse_write_path(write_path),
        WriteBounds(
            max_lag_ms=None if max_lag is None else parse_max_lag_ms(max_lag),
            journal_memory_bytes=None if memory is None else parse_journal_memory_bytes(memory),
            journal_pool=journal_pool,
        ),
    )


def is_asked_for(write_path: WritePath | None, bounds: WriteBounds) -> bool:
    """Whether any of it was asked for."""
    return write_path is not None or any(value is not None for value in bounds.values())
