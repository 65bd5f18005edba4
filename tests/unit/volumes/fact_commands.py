"""Facts on the images of a cluster in memory, as its scripts read and exchange them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grampus.ceph.image_facts import EXCHANGE_FACT, LIST_FACT

from .parent_commands import answer_parents

if TYPE_CHECKING:
    from .cluster import Image, RbdCluster


def answer_facts(
    cluster: RbdCluster, argv: Sequence[str], stdin: str | None
) -> tuple[int, str] | None:
    """What the scripts say; None for another command."""
    images = [(name, image, False) for name, image in cluster.images.items()]
    images += [(f"{cluster.trash_places[i]}/x", one[0], True) for i, one in cluster.trash.items()]
    match list(argv):
        case ["python3", "-c", script, key, *pools] if script == LIST_FACT:
            found = [
                _describe(name, image, key, in_trash)
                for name, image, in_trash in images
                if key in image.metadata and name.partition("/")[0] in pools
            ]
            return 0, json.dumps(found)
        case ["python3", "-c", script] if script == EXCHANGE_FACT:
            change = json.loads(stdin or "")
            for _, image, _ in images:
                is_former = image.metadata.get(change["key"]) == change["former"]
                if image.image_id == change["id"] and is_former:
                    image.metadata[change["key"]] = change["fact"]
            return 0, ""
    return answer_parents(cluster, argv)


def _describe(name: str, image: Image, key: str, in_trash: bool) -> dict[str, object]:
    pool, _, rest = name.partition("/")
    found = {"id": image.image_id, "in_trash": in_trash, "fact": image.metadata[key]}
    return {"pool": pool, "name": rest, **found}
