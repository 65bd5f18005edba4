"""Where on an OSD's device the bytes of an object lie, and which of them to spoil. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grampus.ceph.scrubs import ScrubbedGroup
from grampus.core.errors import NotFoundError, RefusedError

# BlueStore's mark of an extent without a place on the device.
_NOWHERE = 0xFFFF_FFFF_FFFF_FFFF


def decide_device_offset_bytes(onode: Mapping[str, Any]) -> int | None:
    """A byte of the object's data on the device, or None when none has a checksum there.

    `onode` is what `ceph-objectstore-tool OBJECT dump` says under that name. BlueStore keeps a
    checksum of each chunk of a blob (4 KiB by default) and compares it at every read. The longest
    extent is taken: short ones are where somebody writes in small pieces (see `decide_objects`).
    """
    extents = sorted(onode.get("extents", ()), key=lambda extent: -extent["length"])
    for extent in extents:
        blob = extent["blob"]
        if not blob.get("csum_data"):
            continue
        # A compressed blob lies elsewhere than its logical offsets say: its first byte will do.
        wanted = 0 if blob.get("compressed_length") else extent["blob_offset"]
        for place in blob["extents"]:
            if wanted < place["length"]:
                if place["offset"] < _NOWHERE:
                    return int(place["offset"]) + wanted
                break
            wanted -= place["length"]
    return None


def decide_osd(asked: int | None, acting: Sequence[Sequence[int]]) -> int:
    """The OSD whose copies are spoilt: the one asked for, or the last of the first object's.

    That one is no primary: no client reads its copy, so a scrub alone can find the damage.
    Raises NotFoundError when the OSD holds none of the objects.
    """
    if asked is None:
        return acting[0][-1]
    if not any(asked in osds for osds in acting):
        known = sorted({osd for osds in acting for osd in osds})
        raise NotFoundError(
            f"The OSD {asked} has no copy of the image's data.",
            f"Choose one of {', '.join(str(osd) for osd in known)}."
            if known
            else "Write data to the volume first.",
        )
    return asked


def decide_objects(
    acting: Mapping[str, Sequence[int]],
    written_at_s: Mapping[str, float],
    osd: int,
    count: int,
    *,
    spares_readers: bool,
) -> list[str]:
    """`count` objects with a copy on that OSD, those first that were not written to for longest.

    With `spares_readers`, those whose primary it is come last: clients read that copy, and the
    first read puts it right before any scrub has found it.

    A write of less than a chunk (4 KiB) reads the rest of it, and BlueStore ends the whole OSD when
    that cannot be read (20.2: an assertion in `_do_write_small`). Logs of a file system or of a
    server are written so, over and over, and where nobody has written for long nobody soon will.
    """
    held = [name for name, osds in acting.items() if osd in osds]

    def rank(name: str) -> tuple[bool, float, str]:
        return spares_readers and acting[name][0] == osd, written_at_s.get(name, 0.0), name

    return sorted(held, key=rank)[:count]


def require_whole(groups: Sequence[ScrubbedGroup]) -> None:
    """Raise RefusedError unless every copy is there, and none is known to be damaged.

    A bit flipped in the last right copy of an object could never be put right.
    """
    for group in groups:
        if not group.is_clean or group.is_inconsistent:
            raise RefusedError(
                f"The placement group {group.id} is {group.state}: another copy may be damaged or "
                "missing already.",
                "Heal the lab (`grampus lab fault heal`) and repair the damage (`grampus db "
                "verify NAME --repair`) first.",
                code="not-whole",
            )
