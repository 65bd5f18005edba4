"""How a state of an earlier time is corrected by what the images of the cluster tell. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grampus.ceph.image_notes import FoundImage
from grampus.databases.rebuild.decide_noting import subject_of
from grampus.databases.rebuild.decide_rebuild import decide_rebuild
from grampus.databases.records import (
    CARRIED_KINDS,
    DATABASE_KIND,
    LEFT_KIND,
    SCRATCH_KIND,
    TRASHED_KIND,
)
from grampus.state.stored import StoredRecord
from grampus.volumes.model import Migration
from grampus.volumes.records import VOLUME_RECORD

# What images tell of. All other records (labs, benchmarks) stay as they are.
_OF_IMAGES = (
    VOLUME_RECORD,
    DATABASE_KIND,
    SCRATCH_KIND,
    TRASHED_KIND,
    LEFT_KIND,
    *CARRIED_KINDS,
)


@dataclass
class ReconcilePlan:
    """What is written, and what is removed."""

    changed: list[StoredRecord] = field(default_factory=list)  # new ones too
    removed: list[StoredRecord] = field(default_factory=list)  # what they told of is gone
    conflicts: list[str] = field(default_factory=list)  # sentences

    def names(self, records: Sequence[StoredRecord]) -> list[str]:
        """Whose records these are, each once."""
        return sorted({subject_of(record) for record in records})


def decide_reconcile(
    lab: str,
    images: Sequence[FoundImage],
    existing: Sequence[StoredRecord],
    moving: Mapping[tuple[str, str], Migration],
) -> ReconcilePlan:
    """The records of `lab` as the images tell them, which is later than the state.

    A record goes only when its image is nowhere in the cluster, so that nothing is left that it
    could tell of. One whose image says nothing stays as it is. `moving` as in `decide_rebuild`.
    """
    told = decide_rebuild(lab, images, [], moving)
    found = {(one.kind, one.name): one for one in told.records if one.kind in _OF_IMAGES}
    plan = ReconcilePlan(conflicts=told.conflicts)
    known = {(one.kind, one.name): one for one in existing if one.kind in _OF_IMAGES}
    plan.changed = [one for key, one in found.items() if known.get(key) != one]
    told_names = {name for kind, name in found if kind == VOLUME_RECORD}
    there = {(image.pool, image.name) for image in images if not image.in_trash}
    in_trash = {image.id for image in images if image.in_trash}
    kept_names = {
        one.name for one in known.values() if one.kind == VOLUME_RECORD and _image(one) in there
    }
    for key, record in known.items():
        # To clear away what is not there does nothing, and an earlier release noted none of it.
        if key in found or record.kind == LEFT_KIND:
            continue
        if record.kind == TRASHED_KIND:
            is_kept = record.body["volume"]["image_id"] in in_trash
        else:
            # What an image tells of its volume is all that there is.
            is_kept = record.name in kept_names and record.name not in told_names
        if not is_kept:
            plan.removed.append(record)
    return plan


def _image(volume: StoredRecord) -> tuple[str, str]:
    return volume.body["spec"]["pool"], volume.body["spec"]["image"]
