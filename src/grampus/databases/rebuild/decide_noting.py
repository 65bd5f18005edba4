"""What each image has to say of its volume and database, so that no state is needed. All pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from pydantic import ConfigDict

from grampus.ceph.image_notes import ImageNote
from grampus.ceph.namespaces import split_image
from grampus.core.models import Model
from grampus.databases.records import LEFT_KIND, TRASHED_KIND
from grampus.state.stored import StoredRecord
from grampus.volumes.records import VOLUME_RECORD

NOTED_KIND = "noted-records"


class NotedRecords(Model):
    """The records that an image is noted in, as they stand on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lab: str
    records: tuple[StoredRecord, ...]


class NotedDigest(Model):
    """What an image was last told, as a digest: it is not asked each time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str


def decide_notes(lab: str, records: Sequence[StoredRecord]) -> dict[str, ImageNote]:
    """What is to stand on each image, by the name that the digest of it is kept under.

    Records of every kind belong to the volume whose name they have (`subject_of`); one of a deleted
    database to its image, which is known by its id. What is to stand on an image depends on the
    records of its name alone: `records` may be those of some names.
    """
    notes: dict[str, ImageNote] = {}
    by_name: dict[str, list[StoredRecord]] = {}
    for one in records:
        if one.kind not in (NOTED_KIND, TRASHED_KIND):
            by_name.setdefault(subject_of(one), []).append(one)
    for one in records:
        if one.kind == TRASHED_KIND:
            volume = one.body["volume"]
            notes[one.name] = ImageNote(
                pool=volume["record"]["spec"]["pool"],
                namespace=split_image(volume["record"]["spec"]["image"])[0],
                image_id=volume["image_id"],
                text=_render(lab, [one]),
            )
        elif one.kind == VOLUME_RECORD:
            spec = one.body["spec"]
            text = _render(lab, by_name[one.name])
            namespace, name = split_image(spec["image"])
            notes[one.name] = ImageNote(
                pool=spec["pool"], namespace=namespace, name=name, text=text
            )
    return notes


def subject_of(record: StoredRecord) -> str:
    """The database or volume that a record is about: what one left on a host has both names."""
    return name_in(record.name) if record.kind == LEFT_KIND else record.name


def name_in(name: str) -> str:
    """The database's name in the name of any record (`LeftInstance.key`)."""
    return name.rpartition("/")[2]


def decide_unwritten(
    notes: Mapping[str, ImageNote], noted: Mapping[str, NotedDigest]
) -> dict[str, ImageNote]:
    """What has changed since it was noted."""
    return {
        name: note
        for name, note in notes.items()
        if name not in noted or noted[name].digest != digest_of(note)
    }


def digest_of(note: ImageNote) -> str:
    """The same for the same note on the same image."""
    return hashlib.sha256(note.model_dump_json().encode()).hexdigest()


def _render(lab: str, records: Sequence[StoredRecord]) -> str:
    return NotedRecords(lab=lab, records=tuple(records)).model_dump_json()
