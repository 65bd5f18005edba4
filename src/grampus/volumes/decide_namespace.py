"""Which RBD namespace an image is made in, and what its volume's key may do. All pure but one name.

What the profiles grant (Ceph 20.2, `OSDCapGrant::expand_profile` and `MonCapGrant`):

- `profile rbd` with a pool and a namespace: all reads, writes and class methods there, and nothing
  else but three objects that RBD keeps for a pool: `rbd_info` (read; its settings), `rbd_children`
  and `rbd_mirroring` (class reads). No other namespace can be listed, opened or watched.
- `profile rbd-read-only`: reads and class reads there; besides, a clone may note itself on, and
  take itself off, the header of its parent.
- On the MONs, `profile rbd` reads the maps and may add any client's address to the blocklist:
  librbd needs that to take a dead client's lock.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from grampus.ceph.erasure_pools import data_pool_of
from grampus.ceph.namespaces import join_image, join_place, place_of, split_image, split_place
from grampus.volumes.model import CloneSource, VolumeRecord, VolumeSpec


def make_namespace(volume: str) -> str:
    """A new namespace for a volume, after its name: it stays when the volume is renamed.

    Another volume of that name never gets the same one: the first may be in the trash, or be
    called otherwise by now.
    """
    return f"{volume}.{secrets.token_hex(4)}"


def needs_namespace(spec: VolumeSpec) -> bool:
    """Whether the image, which is yet to be made, gets a namespace of its own."""
    return spec.namespace == "own" and not split_image(spec.image)[0]


def decide_renamed(image: str, name: str) -> str:
    """An image under the name `name`: no image ever changes its namespace."""
    return join_image(split_image(image)[0], name)


def decide_shared(
    source: CloneSource, below: VolumeRecord | None, found_below: tuple[str, ...]
) -> tuple[str, ...]:
    """The places that a clone of `source` shares data with, the nearest first, each once.

    `below` is the record of the volume whose image `source` is, if it is one; of another image,
    `found_below` are the places of what it stands on.
    """
    further = found_below if below is None else shared_places(below)
    return tuple(dict.fromkeys((place_of(source.pool, source.image), *further)))


def shared_places(record: VolumeRecord) -> tuple[str, ...]:
    """The places that the volume may share data with, the nearest first."""
    if record.shares_with is not None:
        return record.shares_with
    source = record.source
    return () if source is None else (place_of(source.pool, source.image),)


def read_places(record: VolumeRecord) -> tuple[str, ...]:
    """Those of them that its key must be able to read besides its own."""
    own = place_of(record.spec.pool, record.spec.image)
    return tuple(place for place in shared_places(record) if place != own)


def decide_capabilities(record: VolumeRecord) -> Mapping[str, str]:
    """What the volume's cephx user may do: all in its own place, and read what it shares.

    While it migrates it has a place in either pool. Of a journal in another pool it has the place
    there that has the name of its own.

    The default namespace is named too, else all of the pool's namespaces would be granted.
    """
    places = [place_of(pool, record.spec.image) for pool in _pools(record)]
    grants = [("rbd", place) for place in places]
    grants += [("rbd-read-only", place) for place in read_places(record) if place not in places]
    return {
        "mon": "profile rbd",
        "osd": ", ".join(
            _render_grant(profile, where)
            for profile, place in grants
            for where in _with_data_place(place)
        ),
    }


def _with_data_place(place: str) -> tuple[str, ...]:
    """The place, and that of the data if the images of its pool have it in another one."""
    pool, namespace = split_place(place)
    data_pool = data_pool_of(pool)
    return (place,) if data_pool is None else (place, join_place(data_pool, namespace))


def _pools(record: VolumeRecord) -> tuple[str, ...]:
    """Where the image is (while it migrates, in two pools), and its journal."""
    migration = record.migration
    pools = () if migration is None else (migration.from_pool, migration.to_pool)
    journal_pool = record.spec.journal_pool
    journal_pools = () if journal_pool is None else (journal_pool,)
    return tuple(dict.fromkeys((*pools, record.spec.pool, *journal_pools)))


def _render_grant(profile: str, place: str) -> str:
    pool, namespace = split_place(place)
    return f"profile {profile} pool={pool} namespace=" + (namespace or '""')
