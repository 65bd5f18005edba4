"""Whether what has a volume's name is the volume that is meant. All pure.

A name is given again. An operation that was cut off is finished or undone later, and must then
change nothing that somebody else made under the name.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from grampus.ceph.namespaces import split_image
from grampus.volumes.decide_namespace import decide_capabilities
from grampus.volumes.model import VolumeRecord, VolumeSpec


def new_identity() -> str:
    """An id that no other volume has, in any state or cluster."""
    return uuid.uuid4().hex


def is_same_volume(found: VolumeSpec, meant: VolumeSpec) -> bool:
    """Whether the volume `found` under the name is the one that `meant` describes.

    One that an older release made has no id: then the name of its image in its namespace counts,
    which differs between the volume of a database and one that a user made.
    """
    if found.identity:
        return found.identity == meant.identity
    return split_image(found.image)[1] == split_image(meant.image)[1]


def is_own_image(spec: VolumeSpec, noted: str | None) -> bool:
    """Whether an image of the volume's name is the volume's own, by what its fact says.

    An image in a namespace that was made for the volume is its own: nobody else makes images
    there. In the default namespace somebody may have made one of the same name.
    """
    if split_image(spec.image)[0] or not spec.identity:
        return True
    return noted == spec.identity


def is_own_client(record: VolumeRecord, capabilities: Mapping[str, str]) -> bool:
    """Whether a cephx user of the volume's name is the volume's own, by what it may do."""
    spec = record.spec
    if not spec.identity:
        return True  # an older release made it, perhaps with other capabilities
    namespace = split_image(spec.image)[0]
    if namespace:
        return f"namespace={namespace}" in capabilities.get("osd", "").replace(",", " ").split()
    return dict(capabilities) == dict(decide_capabilities(record))
