"""Which records a lost state is rebuilt from, and what stands against it. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from pydantic import BaseModel, ValidationError

from grampus.ceph.image_notes import FoundImage
from grampus.ceph.journal_objects import has_own_journal, parse_journal_pool
from grampus.databases.model import (
    DatabaseRecord,
    LeftInstance,
    ReadEndpoint,
    ScratchSpec,
    TrashedDatabase,
)
from grampus.databases.rebuild.decide_noting import NotedRecords
from grampus.databases.records import (
    DATABASE_KIND,
    LEFT_KIND,
    READ_ENDPOINT_KIND,
    SCRATCH_KIND,
    TRASHED_KIND,
)
from grampus.state.stored import StoredRecord
from grampus.volumes.decide_encryption import header_bytes
from grampus.volumes.model import Migration, VolumeRecord
from grampus.volumes.records import VOLUME_RECORD

_MODELS: Mapping[str, type[BaseModel]] = {
    VOLUME_RECORD: VolumeRecord,
    DATABASE_KIND: DatabaseRecord,
    SCRATCH_KIND: ScratchSpec,
    READ_ENDPOINT_KIND: ReadEndpoint,
    TRASHED_KIND: TrashedDatabase,
    LEFT_KIND: LeftInstance,
}


@dataclass
class RebuildPlan:
    """What is put back, and what is not."""

    records: list[StoredRecord] = field(default_factory=list)
    kept: int = 0  # records that the state has already
    foreign: int = 0  # images of others, or of another lab: left alone
    conflicts: list[str] = field(default_factory=list)  # sentences

    def names(self, kind: str) -> list[str]:
        """The records of a kind that are put back, by name."""
        return sorted(record.name for record in self.records if record.kind == kind)


def decide_movable(lab: str, images: Sequence[FoundImage]) -> list[FoundImage]:
    """Images whose notes name another pool, or a migration: the cluster knows better."""
    return [image for image in images if _is_movable(lab, image)]


def decide_rebuild(
    lab: str,
    images: Sequence[FoundImage],
    existing: Sequence[StoredRecord],
    moving: Mapping[tuple[str, str], Migration],
) -> RebuildPlan:
    """The records of `lab` that its images tell of and the state lacks.

    A record that is there is never touched, whatever an image says. An image without a note, or
    with one that names another lab, is not ours. `moving` has the migrations of `decide_movable`'s
    images, by pool and name.
    """
    plan = RebuildPlan()
    stood = {(image.pool, image.name) for image in images if not image.in_trash}
    there = {(record.kind, record.name) for record in existing}
    places = _places_of(existing)
    taken: dict[tuple[str, str], FoundImage] = {}
    for image in sorted(images, key=lambda one: (one.in_trash, one.pool, one.name)):
        if image.noted is None:
            plan.foreign += 1
            continue
        try:
            noted = NotedRecords.model_validate_json(image.noted)
            if noted.lab != lab:
                plan.foreign += 1
                continue
            found = [_as_seen(record, image, stood, moving) for record in noted.records]
        except ValidationError as error:
            plan.conflicts.append(
                f"The metadata of {_shown(image)} is not valid: {str(error).splitlines()[0]}"
            )
            continue
        problem = _problem_with(image, found, places, taken)
        if problem:
            plan.conflicts.append(problem)
            continue
        for record in found:
            taken[record.kind, record.name] = image
            if (record.kind, record.name) in there:
                plan.kept += 1
            else:
                plan.records.append(record)
    return plan


def _is_movable(lab: str, image: FoundImage) -> bool:
    if image.noted is None or image.in_trash:
        return False
    try:
        noted = NotedRecords.model_validate_json(image.noted)
        volumes = [
            VolumeRecord.model_validate(record.body)
            for record in noted.records
            if record.kind == VOLUME_RECORD
        ]
    except ValidationError:
        return False
    return noted.lab == lab and any(
        one.migration is not None or one.spec.pool != image.pool for one in volumes
    )


def _as_seen(
    record: StoredRecord,
    image: FoundImage,
    stood: Set[tuple[str, str]],
    moving: Mapping[tuple[str, str], Migration],
) -> StoredRecord:
    """A record that this release can read; a volume's with what is seen of the image itself.

    It has the size that the image has, and is never formatted anew if that holds anything. It is
    in the pool that the image is in, if nothing is where it was: it went there by a migration that
    nobody has noted any more. Raises ValidationError.
    """
    if record.kind in _MODELS:
        _MODELS[record.kind].model_validate(record.body)
    if record.kind not in (VOLUME_RECORD, DATABASE_KIND):
        return record
    spec = record.body["spec"]
    if spec["pool"] != image.pool and not image.in_trash:
        # A database has its volume's name for its image's, and no other.
        was_here = (spec["pool"], spec.get("image", image.name)) in stood
        is_same = spec.get("image", image.name) == image.name
        if is_same and not was_here:
            spec = {**spec, "pool": image.pool}
    if has_own_journal(image.journal, image.id):
        # Where it is, whatever was noted: a command was cut off before it could note the change.
        journal_pool = parse_journal_pool(image.journal, image.id)
        spec = {
            **spec,
            "journal_pool": None if spec.get("write_path", "direct") == "direct" else journal_pool,
        }
    if record.kind == DATABASE_KIND:
        return record.model_copy(update={"body": {**record.body, "spec": spec}})
    migration = moving.get((image.pool, image.name))
    noted = record.body.get("migration")
    if migration is not None:
        noted = {**(noted or {}), **migration.model_dump(mode="json", exclude_defaults=True)}
    elif noted is not None and noted["to_pool"] != image.pool:
        noted = None  # it has not gone over
    seen_bytes = image.size_bytes - header_bytes(spec.get("encryption"))
    size_bytes = max(spec["size_bytes"], seen_bytes)
    is_formatted = bool(record.body.get("is_formatted")) or image.has_data
    changes: dict[str, object] = {
        "spec": {**spec, "size_bytes": size_bytes},
        "is_formatted": is_formatted,
    }
    if noted != record.body.get("migration"):
        changes["migration"] = noted
    return record.model_copy(update={"body": {**record.body, **changes}})


def _problem_with(
    image: FoundImage,
    found: Sequence[StoredRecord],
    places: Mapping[tuple[str, str], str],
    taken: Mapping[tuple[str, str], FoundImage],
) -> str | None:
    """Why nothing of an image is put back, in a sentence; None: it is."""
    for record in found:
        other = taken.get((record.kind, record.name))
        if other is not None:
            return (
                f"{_shown(image)} and {_shown(other)} both have the metadata of the "
                f"{record.kind} '{record.name}'. Grampus uses the second one."
            )
        if record.kind == VOLUME_RECORD:
            spec = record.body["spec"]
            if image.in_trash:
                return (
                    f"{_shown(image)} is in use as the volume '{record.name}', according "
                    "to its metadata."
                )
            if (spec["pool"], spec["image"]) != (image.pool, image.name):
                return (
                    f"{_shown(image)} is {spec['pool']}/{spec['image']} according to its "
                    "metadata: it was renamed or copied."
                )
        elif record.kind == TRASHED_KIND and (
            not image.in_trash or record.body["volume"]["image_id"] != image.id
        ):
            return (
                f"{_shown(image)} is in the trash as '{record.name}' according to its "
                "metadata, but it is not there."
            )
    for record in found:
        place = places.get((record.kind, record.name))
        if place is not None and place != f"{image.pool}/{image.name}":
            return (
                f"{_shown(image)} is the {record.kind} '{record.name}' according to its "
                f"metadata, which is {place} here."
            )
    if not found:
        return f"{_shown(image)} belongs to this lab, but has no record in its metadata."
    return None


def _places_of(existing: Sequence[StoredRecord]) -> dict[tuple[str, str], str]:
    """The images of the volumes that the state knows."""
    return {
        (record.kind, record.name): f"{record.body['spec']['pool']}/{record.body['spec']['image']}"
        for record in existing
        if record.kind == VOLUME_RECORD
    }


def _shown(image: FoundImage) -> str:
    where = "in the trash of" if image.in_trash else "in"
    return f"The image {image.name} ({image.id}) {where} the pool {image.pool}"
