"""The trash of RBD pools, through the `rbd` command on any reachable host."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from grampus.ceph.cluster import CephCluster
from grampus.ceph.namespaces import place_of, split_image, split_place
from grampus.ceph.ports import CommandOutput
from grampus.ceph.rbd import ENOENT, RbdImages
from grampus.core.errors import GrampusError

# For scripts on a host: ids of the images that users put into the trash of a namespace, and with
# `every` also the sources of migrations. python3-rbd 20.2 ends with an IndexError at one of those,
# which `rbd` lists without a fault.
TRASH_IDS = """
def trash_ids(context, pool, namespace, every):
    try:
        return [one["id"] for one in rbd.RBD().trash_list(context)]
    except IndexError:
        place = pool + "/" + namespace if namespace else pool
        argv = ["rbd", "trash", "ls", *(["--all"] if every else []), "--format", "json", place]
        listed = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
        return [one["id"] for one in json.loads(listed)]
"""


class RbdTrash:
    """Images that were removed and can be had back, known by the id that each keeps for life.

    Each namespace has a trash of its own, and no image ever leaves its namespace. A `place` is
    POOL/NAMESPACE or POOL; names are IMAGE or NAMESPACE/IMAGE.

    `rbd trash purge` of anybody removes those alone whose time has come.
    """

    def __init__(self, cluster: CephCluster, images: RbdImages) -> None:
        self._cluster = cluster
        self._images = images

    def image_id(self, pool: str, name: str) -> str:
        """The id of an image that is there. Raises GrampusError when there is none."""
        document = json.loads(self._rbd("info", "--format", "json", f"{pool}/{name}").stdout)
        return str(document["id"])

    def contains(self, place: str, image_id: str) -> bool:
        """Whether the image is in the trash there."""
        result = self._rbd("trash", "ls", "--all", "--format", "json", place, check=False)
        if result.returncode == ENOENT:
            return False  # with its last image the namespace has gone
        if result.returncode != 0:
            # Once more, so that the runner raises its own error.
            result = self._rbd("trash", "ls", "--all", "--format", "json", place)
        return any(entry["id"] == image_id for entry in json.loads(result.stdout or "[]"))

    def ensure_trashed(self, pool: str, name: str, image_id: str, expires_at: datetime) -> None:
        """The image in the trash, kept there until `expires_at`; one of another id is left alone.

        Snapshots go with it, and clones of them live on. Waits for a client that has just gone
        (its watch ends in 30 s).
        """
        if self._images.find(pool, name) is None or self.image_id(pool, name) != image_id:
            return
        moment = expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._images.take_away(pool, name, "trash", "mv", "--expires-at", moment)

    def ensure_restored(self, pool: str, image_id: str, name: str) -> None:
        """The image out of the trash, as `name`; nothing happens when it is there already.

        Raises GrampusError with code `not-in-trash` when it is gone for good.
        """
        place, bare = place_of(pool, name), split_image(name)[1]
        if self.contains(place, image_id):
            self._rbd("trash", "restore", "--image", bare, f"{place}/{image_id}")
        elif self._images.find(pool, name) is None or self.image_id(pool, name) != image_id:
            raise GrampusError(
                f"The image {image_id} is not in the trash of {place}, and is not "
                f"{pool}/{name} either.",
                "The image was removed: restore the database from a backup, if there is one.",
                code="not-in-trash",
            )

    def ensure_renamed(self, pool: str, name: str, new_name: str) -> None:
        """The image called `new_name`, which is in the same namespace; may be repeated."""
        if self._images.find(pool, name) is not None:
            self._rbd("rename", f"{pool}/{name}", f"{pool}/{new_name}")

    def has_children(self, place: str, image_id: str) -> bool:
        """Whether clones stand on snapshots of an image in the trash."""
        pool, namespace = split_place(place)
        where = ("--pool", pool, *(("--namespace", namespace) if namespace else ()))
        argv = ("children", "--all", "--format", "json", *where, "--image-id", image_id)
        result = self._rbd(*argv, check=False)
        if result.returncode == ENOENT:
            return False
        if result.returncode != 0:
            result = self._rbd(*argv)  # once more, so that the runner raises its own error
        return bool(json.loads(result.stdout or "[]"))

    def _rbd(self, *arguments: str, check: bool = True) -> CommandOutput:
        return self._cluster.runner.run(["rbd", *arguments], check=check)
