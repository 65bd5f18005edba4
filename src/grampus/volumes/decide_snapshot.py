"""What a snapshot of a volume needs before it, and what keeps a snapshot or an image: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from grampus.ceph.image_snapshots import ChildImage, ParentImage, RbdSnapshot
from grampus.core.errors import RefusedError, not_found
from grampus.volumes.decide_encryption import header_bytes
from grampus.volumes.model import CloneSource, EncryptionName, SnapshotInfo, VolumeRecord

_SHOWN_CLONES = 3
# As the cluster has it, or as it is told of.
SnapshotT = TypeVar("SnapshotT", RbdSnapshot, SnapshotInfo)


def decide_before_snapshot(
    record: VolumeRecord, *, is_alive: bool, is_unapplied: bool
) -> Literal["nothing", "replay"]:
    """What makes the image hold everything flushed, so that a snapshot of it does (INV-4).

    A living volumed does it by itself when librbd tells it of the snapshot. Of a detached volume
    the journal is replayed first. Raises RefusedError with code `empty` when there is nothing on
    the volume yet, and `attachment-lost` when nobody serves a journal that holds something.
    """
    name = record.spec.name
    if not record.is_formatted:
        raise RefusedError(
            f"The volume '{name}' has never been attached, so it has no data.",
            f"Attach the volume first: `grampus volume attach {name} --host HOST`.",
            code="empty",
        )
    if is_alive or not is_unapplied:
        return "nothing"
    if record.host is None:
        return "replay"
    raise RefusedError(
        f"The journal of the volume '{name}' has writes that the image lacks, and the driver "
        f"of the volume on {record.host} has ended.",
        f"Attach the volume again: `grampus volume attach {name} --host {record.host}`; for a "
        f"database: `grampus db start {name}`.",
        code="attachment-lost",
    )


def require_snapshot(
    name: str, snapshots: Sequence[SnapshotT], snapshot: str, *, list_command: str
) -> SnapshotT:
    """The snapshot of the volume `name`. Raises NotFoundError with the closest name there is."""
    for found in snapshots:
        if found.name == snapshot:
            return found
    names = [found.name for found in snapshots]
    raise not_found(f"snapshot of '{name}'", snapshot, names, list_command=list_command)


def require_no_clones(
    what: str, children: Sequence[ChildImage], volumes: Mapping[tuple[str, str], str]
) -> None:
    """Raise RefusedError with code `has-clones` when there are any.

    `what` begins the sentence: "The volume 'shop'"; `volumes` are names by pool and image.
    """
    if not children:
        return
    names = [name_child(child, volumes) for child in children]
    more = f" and {len(names) - _SHOWN_CLONES} more" if len(names) > _SHOWN_CLONES else ""
    raise RefusedError(
        f"{what} has clones that depend on it: {', '.join(names[:_SHOWN_CLONES])}{more}.",
        "Make the clones independent (`grampus db flatten NAME`, or `grampus volume flatten "
        "NAME` for a volume without a database), or delete them, also from the trash.",
        code="has-clones",
    )


def name_child(child: ChildImage, volumes: Mapping[tuple[str, str], str]) -> str:
    """A clone by its volume's name; one that is no volume, or none any more, by its image."""
    if child.is_in_trash:
        return f"{child.pool}/{child.name} (in the trash)"
    return volumes.get((child.pool, child.name), f"{child.pool}/{child.name}")


def describe_snapshot(
    snapshot: RbdSnapshot, used_bytes: int | None, encryption: EncryptionName | None
) -> SnapshotInfo:
    """The snapshot as volumes know it; `encryption` is that of its volume."""
    return SnapshotInfo(
        name=snapshot.name,
        size_bytes=snapshot.size_bytes - header_bytes(encryption),
        created_at=snapshot.created_at,
        used_bytes=used_bytes,
        protected=snapshot.is_protected,
    )


def describe_parent(parent: ParentImage | None, source: CloneSource | None) -> CloneSource | None:
    """What an image is a clone of now; `source` is what it was cloned from.

    The cluster renames a snapshot that was deleted under its clones: then `source` knows its name.
    """
    if parent is None:
        return None
    if source is not None and (source.pool, source.image) == (parent.pool, parent.image):
        return source
    return CloneSource(pool=parent.pool, image=parent.image, snapshot=parent.snapshot)
