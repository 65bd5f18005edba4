"""Which images are sealed with which master key, and whose they are: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from grampus.ceph.image_facts import ImageFact
from grampus.core.errors import GrampusError
from grampus.volumes.volume_keys import master_key_id


@dataclass(frozen=True)
class SealedImages:
    """The encrypted images of a cluster, by what their keys are sealed with."""

    current: tuple[ImageFact, ...]  # of this lab, with the key of what is new
    former: tuple[tuple[str, ImageFact], ...]  # of this lab, with another key of this home
    closed: tuple[ImageFact, ...]  # of this lab, with a key that is not here, or not readable
    foreign: tuple[ImageFact, ...]  # of others, with a key of this home that is not the current one

    @property
    def count(self) -> int:
        """How many are of this lab."""
        return len(self.current) + len(self.former) + len(self.closed)


def classify_sealed(
    images: Iterable[ImageFact],
    volumes: Mapping[tuple[str, str], str],
    trashed: Mapping[str, str],
    current_id: str,
    key_ids: Collection[str],
) -> SealedImages:
    """`volumes` are the lab's by pool and image, `trashed` those in its trash by the image's id.

    Images of others are none of ours to seal: another home may have no other key than theirs.
    """
    current, former, closed, foreign = [], [], [], []
    for image in images:
        own = trashed.get(image.id) if image.in_trash else volumes.get((image.pool, image.name))
        key_id = _key_id(image)
        if own is None:
            if key_id in key_ids and key_id != current_id:
                foreign.append(image)
        elif key_id == current_id:
            current.append(image)
        elif key_id in key_ids:
            former.append((own, image))
        else:
            closed.append(image)
    return SealedImages(tuple(current), tuple(former), tuple(closed), tuple(foreign))


def _key_id(image: ImageFact) -> str | None:
    try:
        return master_key_id(image.fact)
    except GrampusError:
        return None
