"""`rbd migration` and rotated keys on a cluster in memory."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grampus.ceph.journal_objects import REMOVE_JOURNAL
from grampus.ceph.migrations import END_SOURCE
from tests.fakes.image_ids import new_image_id

from .namespace_commands import place_of_name, split_name

if TYPE_CHECKING:
    from tests.fakes.clock import FakeClock

    from .cluster import Image, RbdCluster

ENOENT, EBUSY, EINVAL, ENOSPC, EROFS = 2, 16, 22, 28, 30


@dataclass
class Moving:
    """A migration by its target: what it was made of, and how far it is."""

    source: str  # POOL/NAMESPACE/IMAGE
    image: Image  # the source itself
    state: str = "prepared"
    percent: int = 0


class SlowCopy:
    """What `rbd migration execute` says when it takes 10 s for each chunk that it says.

    With each of them happens what the cluster's `copy_looks` say. A `ByteReader`.
    """

    def __init__(self, cluster: RbdCluster, clock: FakeClock, target: str) -> None:
        self._cluster = cluster
        self._clock = clock
        self._target = target
        self._events = list(cluster.copy_looks)
        self._steps = len(self._events) + 1

    def read(self, _size_bytes: int, /) -> bytes:
        moving = self._cluster.moving[self._target]
        if not self._events:
            return b"" if moving.state == "executed" else execute(self._cluster, self._target)
        moving.state = "executing"
        moving.percent = 100 * (self._steps - len(self._events)) // self._steps
        self._events.pop(0)()
        self._clock.sleep(10)
        return b"\rImage migration: %d%% complete..." % moving.percent


def answer_migrations(cluster: RbdCluster, argv: Sequence[str]) -> tuple[int, str] | None:
    """What a command answers; None for one that is about something else."""
    match list(argv):
        case ["rbd", "--rbd-default-clone-format", "2", "migration", "prepare", source, target]:
            return _prepare(cluster, source, target)
        case ["rbd", "migration", "commit", "--no-progress", target]:
            return _commit(cluster, target)
        case ["rbd", "migration", "abort", "--no-progress", source]:
            return _abort(cluster, source)
        case ["python3", "-c", script, _, _, known] if script == END_SOURCE:
            cluster.ended_sources.add(known)
            return 0, ""
        case ["rbd", "snap", "purge", "--no-progress", *_, "--image-id", known]:
            assert known in cluster.ended_sources
            cluster.left_sources[known][1].snapshots.clear()
            return 0, ""
        case ["rbd", "trash", "remove", "--no-progress", "--force", entry]:
            place, _, known = entry.rpartition("/")
            if known not in cluster.ended_sources:
                return EROFS, "rbd: remove error: (30) Read-only file system"
            found, image = cluster.left_sources.pop(known)
            assert (found, image.snapshots) == (place, {})
            return 0, ""
        case ["python3", "-c", script, pool, namespace, known] if script == REMOVE_JOURNAL:
            for name, journal_id in [*cluster.journal_ids.items()]:
                own_pool, _, own = place_of_name(name).partition("/")
                is_there = (cluster.journal_pools.get(name, own_pool), own) == (pool, namespace)
                if journal_id == known and is_there:
                    cluster.journal_pools.pop(name, None)
                    image = _image_of(cluster, known)
                    assert image is None or not image.is_journal_open, "what it held is lost"
                    cluster.journals.discard(name)
                    del cluster.journal_ids[name]
            return 0, ""
    return None


def describe_migration(cluster: RbdCluster, name: str) -> dict[str, object]:
    """What `rbd status` says more of a target."""
    moving = cluster.moving.get(name)
    if moving is None:
        return {}
    source, target = split_name(moving.source), split_name(name)
    return {
        "migration": {
            "source_pool_name": source["pool"],
            "source_image_id": moving.image.image_id,
            "dest_pool_name": target["pool"],
            "dest_image_id": cluster.images[name].image_id,
            "state": moving.state,
            "state_description": f"{moving.percent}% complete" if moving.percent else "",
        }
    }


def execute(cluster: RbdCluster, target: str) -> bytes:
    """What `rbd migration execute` says, having copied all."""
    moving = cluster.moving[target]
    assert moving.state in ("prepared", "executing"), moving.state
    moving.state = "executed"
    return b"\rImage migration: 50% complete...\rImage migration: 100% complete...done.\n"


def _prepare(cluster: RbdCluster, source: str, target: str) -> tuple[int, str]:
    if source not in cluster.images:
        return ENOENT, f"rbd: error opening image {source}"
    if cluster.watchers(source):
        return EBUSY, "rbd: preparing migration failed: (16) Device or resource busy"
    if cluster.refuses_migrations:
        return ENOSPC, "rbd: preparing migration failed: (28) No space left on device"
    assert place_of_name(target) in cluster.namespaces or place_of_name(target).count("/") == 0
    assert target not in cluster.images
    image = cluster.images.pop(source)
    assert not image.is_journal_open, "a journal does not come along"
    made = deepcopy(image)
    made.clients, made.lock, made.image_id = [], None, new_image_id()
    cluster.images[target] = made
    cluster.moving[target] = Moving(source, image)
    return 0, ""


def _commit(cluster: RbdCluster, target: str) -> tuple[int, str]:
    moving = cluster.moving.get(target)
    if moving is None or moving.state != "executed":
        return EINVAL, "rbd: committing migration failed: (22) Invalid argument"
    del cluster.moving[target]
    if cluster.cuts_commits:
        place = place_of_name(moving.source)
        cluster.left_sources[moving.image.image_id] = (place, moving.image)
        return EINVAL, "rbd: committing migration failed: the connection broke"
    return 0, ""


def _abort(cluster: RbdCluster, source: str) -> tuple[int, str]:
    for target, moving in cluster.moving.items():
        if moving.source != source:
            continue
        if cluster.watchers(target):
            return EBUSY, "rbd: aborting migration failed: (16) Device or resource busy"
        made = cluster.images.pop(target)
        assert not made.is_journal_open, "what its journal holds is lost"
        assert target not in cluster.journals, "the objects of its journal would be left"
        moving.image.data = made.data
        cluster.images[source] = moving.image
        del cluster.moving[target]
        return 0, ""
    return ENOENT, "rbd: aborting migration failed: (2) No such file or directory"


def _image_of(cluster: RbdCluster, known: str) -> Image | None:
    return next((one for one in cluster.images.values() if one.image_id == known), None)
