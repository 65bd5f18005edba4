"""`rbd trash` and `rbd rename` on a cluster in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cluster import FakeCluster, Image

ENOENT = 2


def image_id(image: Image) -> str:
    """An image keeps it whatever it is called."""
    return f"{id(image):x}"


def answer_trash(cluster: FakeCluster, argv: Sequence[str]) -> tuple[int, str] | None:
    """What `rbd ARGV` answers; None for a command that is about something else."""
    match list(argv):
        case ["trash", "ls", "--all", "--format", "json", _]:
            return 0, json.dumps([{"id": known, "name": "x"} for known in cluster.trash])
        case ["trash", "mv", "--expires-at", moment, name]:
            assert moment.endswith("Z"), "a moment without its zone"
            if name not in cluster.images:
                return ENOENT, "rbd: no such image"
            assert not cluster.watchers(name), "an image moved away under its client"
            image = cluster.images.pop(name)
            cluster.trash[image_id(image)] = (image, name in cluster.journals)
            cluster.journals.discard(name)
            return 0, ""
        case ["trash", "restore", "--image", name, entry]:
            pool, _, known = entry.partition("/")
            if known not in cluster.trash:
                return ENOENT, "rbd: error: image does not exist in trash"
            target = f"{pool}/{name}"
            assert target not in cluster.images, "an image restored over another"
            image, has_journal = cluster.trash.pop(known)
            cluster.images[target] = image
            if has_journal:  # its objects are named by the image's id
                cluster.journals.add(target)
            return 0, ""
        case ["rename", former, name]:
            assert name not in cluster.images
            assert not cluster.watchers(former), "an image renamed under its client"
            cluster.images[name] = cluster.images.pop(former)
            if former in cluster.journals:
                cluster.journals.remove(former)
                cluster.journals.add(name)
            return 0, ""
        case ["children", "--all", "--format", "json", "--pool", _, "--image-id", known]:
            if known not in cluster.trash:
                return ENOENT, "no such image"
            children = ["clone"] if known in cluster.trashed_parents else []
            return 0, json.dumps([{"pool": "databases", "image": child} for child in children])
    return None
