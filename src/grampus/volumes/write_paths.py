"""Write paths: what each of them promises, and what an image says of its journal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

from grampus.core.errors import UsageError, closest_name
from grampus.volumes.model import DEFAULT_MAX_LAG_MS, VolumeSpec, WritePath

WRITE_PATHS: tuple[WritePath, ...] = get_args(WritePath)
# Below, each flush would ship a batch of its own; above, a lost host costs what nobody expects.
MIN_MAX_LAG_MS = 10
MAX_MAX_LAG_MS = 60_000
_DURATION = re.compile(
    r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>ms|s)", re.IGNORECASE | re.ASCII
)

# Metadata of the image that volumed keeps, under our prefix (`grampus.`).
JOURNAL_KEY = "journal"
OBJECTS_KEY = "journal.objects"
LOCAL_KEY = "journal.local"  # the log on a host's disk that may hold what is nowhere else
_OPEN = "open"


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
    meant = closest_name(text.strip().lower(), WRITE_PATHS)
    raise UsageError(
        f"{text!r} is not a write path.",
        f"Did you mean '{meant}'?" if meant else f"Choose one of {', '.join(WRITE_PATHS)}.",
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
            f"Choose {format_ms(MIN_MAX_LAG_MS)} to {format_ms(MAX_MAX_LAG_MS)}.",
            code="invalid-max-lag",
        )
    return int(max_lag_ms)


def format_ms(duration_ms: float) -> str:
    """`duration_ms` for people: `100 ms`, `1.5 s`."""
    return f"{duration_ms:.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:g} s"


def describe_write_path(write_path: WritePath, max_lag_ms: int) -> str:
    """The write path for people: `journal`, `cache, at most 100 ms behind`."""
    if write_path != "cache":
        return write_path
    return f"cache, at most {format_ms(max_lag_ms)} behind"


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
            f"The write path {write_path} has no max-lag: nothing that was flushed is on the host "
            "alone.",
            "Leave --max-lag out, or choose --write-path cache.",
            code="max-lag",
        )
    return DEFAULT_MAX_LAG_MS


def decide_written(
    spec: VolumeSpec, write_path: WritePath | None, max_lag_ms: int | None
) -> VolumeSpec:
    """The volume with another write path, another max-lag, or both; None leaves one as it is.

    Raises what `decide_max_lag_ms` raises.
    """
    path = write_path or spec.write_path
    lag_ms = decide_max_lag_ms(path, max_lag_ms, former_ms=spec.max_lag_ms)
    return spec.model_copy(update={"write_path": path, "max_lag_ms": lag_ms})


def explain_losses(write_path: WritePath, max_lag_ms: int = DEFAULT_MAX_LAG_MS) -> Losses:
    """What a volume with that write path loses when its host, its host's disk, or copies are lost.

    INV-1 states it; a write that no flush followed is owed to nobody, as with a disk.
    """
    if write_path != "cache":
        return _LOSSES[write_path]
    return Losses(
        host_fails=f"commits of the last {format_ms(max_lag_ms)} before the loss, at most: they "
        "were on the host's own disk alone; what is left is one earlier moment of the volume, "
        "never a mixture, and a host that comes back with its disk keeps what it had",
        disk_fails="nothing that was flushed, while volumed lives: what the disk held is in "
        "memory too; the volume goes on by itself as with journal, and says so; host and disk "
        "lost at once are the host lost",
        copies_fail="as with journal: nothing that was flushed, while one up-to-date copy of each "
        "object of the image and of the journal survives",
    )


_NOT_THERE = "nothing: nothing of the volume is on it"
_LOSSES: dict[WritePath, Losses] = {
    "direct": Losses(
        host_fails="nothing that was answered: each write is in the image, on all copies that "
        "are up, before it is answered",
        disk_fails=_NOT_THERE,
        copies_fail="nothing that was answered, while one up-to-date copy of each object of the "
        "image survives",
    ),
    "journal": Losses(
        host_fails="nothing that was flushed, and a commit flushes: it is in the journal, on all "
        "copies that are up, and the next attach applies it; what was written after the last "
        "flush may go, as from a disk's own cache",
        disk_fails=_NOT_THERE,
        copies_fail="nothing that was flushed, while one up-to-date copy of each object of the "
        "image and of the journal survives",
    ),
}


def parse_write_options(
    write_path: str | None, max_lag: str | None
) -> tuple[WritePath | None, int | None]:
    """--write-path and --max-lag (in ms) as given. Raises UsageError."""
    return (
        None if write_path is None else parse_write_path(write_path),
        None if max_lag is None else parse_max_lag_ms(max_lag),
    )
