"""`rbd trash` and `rbd rename` on a cluster in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .namespace_commands import place_of_name

if TYPE_CHECKING:
    from .cluster import RbdCluster

ENOENT = 2


def answer_trash(cluster: RbdCluster, argv: Sequence[str]) -> tuple[int, str] | None:
    """What `rbd ARGV` answers; None for a command that is about something else."""
    match list(argv):
        case ["trash", "ls", "--all", "--format", "json", place]:
            if "/" in place and place not in cluster.namespaces:
                return ENOENT, f"rbd: namespace '{place}' does not exist."
            found = [one for one in cluster.trash if cluster.trash_places[one] == place]
            found += [one for one, left in cluster.left_sources.items() if left[0] == place]
            return 0, json.dumps([{"id": one, "name": "x"} for one in found])
        case ["trash", "mv", "--expires-at", moment, name]:
            assert moment.endswith("Z"), "a moment without its zone"
            if name not in cluster.images:
                return ENOENT, "rbd: no such image"
            assert not cluster.watchers(name), "an image moved away under its client"
            image = cluster.images.pop(name)
            cluster.trash[image.image_id] = (image, name in cluster.journals)
            cluster.trash_places[image.image_id] = place_of_name(name)
            cluster.journals.discard(name)
            return 0, ""
        case ["trash", "restore", "--image", name, entry]:
            place, _, known = entry.rpartition("/")
            if cluster.trash_places.get(known) != place:
                return ENOENT, "rbd: error: image does not exist in trash"
            assert "/" not in name, "rbd would take it for a namespace"
            target = f"{place}/{name}"
            del cluster.trash_places[known]
            assert target not in cluster.images, "an image restored over another"
            image, has_journal = cluster.trash.pop(known)
            cluster.images[target] = image
            if has_journal:  # its objects are named by the image's id
                cluster.journals.add(target)
            return 0, ""
        case ["rename", former, name]:
            assert name not in cluster.images
            if place_of_name(name) != place_of_name(former):
                return 18, "rbd: mv/rename across pools or namespaces not supported"
            assert not cluster.watchers(former), "an image renamed under its client"
            cluster.images[name] = cluster.images.pop(former)
            if former in cluster.journals:
                cluster.journals.remove(former)
                cluster.journals.add(name)
            return 0, ""
        case ["children", "--all", "--format", "json", "--pool", pool, *where, known]:
            assert where[-1] == "--image-id"
            place = "/".join([pool, *where[1:-1]])
            if cluster.trash_places.get(known) != place:
                return ENOENT, "no such image"
            children = ["clone"] if known in cluster.trashed_parents else []
            return 0, json.dumps([{"pool": "databases", "image": child} for child in children])
    return None
