"""Write paths: what each of them promises, and what an image says of its journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.volumes.model import WritePath

# Metadata of the image that volumed keeps, under our prefix (`grampus.`).
JOURNAL_KEY = "journal"
OBJECTS_KEY = "journal.objects"
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


def explain_losses(write_path: WritePath) -> Losses:
    """What a volume with that write path loses when its host, or copies of it, are lost.

    INV-1 states it; a write that no flush followed is owed to nobody, as with a disk.
    """
    return _LOSSES[write_path]


_LOSSES: dict[WritePath, Losses] = {
    "direct": Losses(
        host_fails="nothing that was answered: each write is in the image, on all copies that "
        "are up, before it is answered",
        copies_fail="nothing that was answered, while one up-to-date copy of each object of the "
        "image survives",
    ),
    "journal": Losses(
        host_fails="nothing that was flushed, and a commit flushes: it is in the journal, on all "
        "copies that are up, and the next attach applies it; what was written after the last "
        "flush may go, as from a disk's own cache",
        copies_fail="nothing that was flushed, while one up-to-date copy of each object of the "
        "image and of the journal survives",
    ),
}
