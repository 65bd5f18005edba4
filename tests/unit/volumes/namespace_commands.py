"""RBD namespaces on a cluster in memory: what is made in them, and who may open what."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grampus.ceph.image_snapshots import CLONE_IMAGE, HAS_PARENTS, SWEEP_SNAPSHOTS
from grampus.ceph.namespaces import join_place, split_image
from grampus.ceph.rbd import CREATE_IMAGE, LIST_CLIENTS, METADATA_PREFIX

if TYPE_CHECKING:
    from .cluster import Image, RbdCluster

ENOENT, EBUSY, EEXIST = 2, 16, 17
_GRANT = re.compile(r'profile (?P<profile>\S+) pool=(?P<pool>\S+) namespace=(?P<namespace>\S+|"")')


def place_of_name(name: str) -> str:
    """POOL/NAMESPACE, or POOL, of POOL/NAMESPACE/IMAGE or POOL/IMAGE."""
    return name.rpartition("/")[0]


def split_name(name: str) -> dict[str, str]:
    """POOL/NAMESPACE/IMAGE as `rbd` spells it in documents."""
    pool, _, image = name.partition("/")
    namespace, bare = split_image(image)
    return {"pool": pool, "pool_namespace": namespace, "image": bare}


def answer_namespaces(cluster: RbdCluster, argv: Sequence[str]) -> tuple[int, str] | None:
    """What a script or `rbd namespace` answers; None for a command that is about something else."""
    match list(argv):
        case ["python3", "-c", script, pool, image, size, key, identity] if script == CREATE_IMAGE:
            _ensure_namespace(cluster, f"{pool}/{image}")
            cluster.before_image()
            is_new = f"{pool}/{image}" not in cluster.images
            cluster.make_image(f"{pool}/{image}", int(size))
            noted = cluster.images[f"{pool}/{image}"].metadata
            if identity and (is_new or "/" in image):
                noted.setdefault(key, identity)
            return (EEXIST, "") if identity and noted.get(key) != identity else (0, "")
        case ["python3", "-c", script, pool, parent, snapshot, to, image, wanted] if (
            script == CLONE_IMAGE
        ):
            _ensure_namespace(cluster, f"{to}/{image}")
            code, said = cluster.clone(f"{pool}/{parent}", snapshot, f"{to}/{image}")
            if code == 0 and wanted != "null":
                _make_wanted(cluster.images[f"{to}/{image}"], json.loads(wanted))
            return code, said
        case ["python3", "-c", script, pool, image] if script == LIST_CLIENTS:
            return cluster.list_clients(f"{pool}/{image}")
        case ["python3", "-c", script, pool, image] if script == HAS_PARENTS:
            found = cluster.images[f"{pool}/{image}"]
            parents = [found.parent, *(snapshot.parent for snapshot in found.snapshots.values())]
            return 0, "true" if any(parents) else "false"
        case ["python3", "-c", script, pool, image] if script == SWEEP_SNAPSHOTS:
            cluster.swept.append(f"{pool}/{image}")
            return 0, ""
        case ["rbd", "namespace", "create", place]:
            if place in cluster.namespaces:
                return EEXIST, "rbd: failed to create namespace: (17) File exists"
            cluster.namespaces.add(place)
            return 0, ""
        case ["rbd", "namespace", "remove", place]:
            return _remove(cluster, place)
    return None


def require_granted(cluster: RbdCluster, user: str, name: str) -> None:
    """Fail when the user may not open the image for writing, or read what it stands on."""
    capabilities = cluster.users[f"client.{user}"]
    if "osd" not in capabilities:
        return  # a test's own, who may do everything
    grants = _grants(capabilities["osd"])
    assert ("rbd", place_of_name(name)) in grants, f"{user} may not open {name}: {grants}"
    below = cluster.images[name].parent
    while below is not None:
        place = place_of_name(below[0])
        readable = {("rbd", place), ("rbd-read-only", place)}
        assert readable & grants, f"{user} may not read {below[0]}: {grants}"
        below = cluster.images[below[0]].snapshots[below[1]].parent


def require_place(cluster: RbdCluster, user: str, name: str, pool: str | None) -> None:
    """Fail when the user may not open the namespace of the image in another pool."""
    if pool is not None:
        place = join_place(pool, place_of_name(name).partition("/")[2])
        grants = _grants(cluster.users[f"client.{user}"]["osd"])
        assert ("rbd", place) in grants, f"{user} may not open {place}: {grants}"


def _grants(text: str) -> set[tuple[str, str]]:
    """Profile and place of each grant. None is for a whole pool."""
    found = set()
    for grant in text.split(", "):
        match = _GRANT.fullmatch(grant)
        assert match is not None, f"a grant for a whole pool: {grant}"
        namespace = match["namespace"].strip('"')
        found.add((match["profile"], join_place(match["pool"], namespace)))
    return found


def _make_wanted(clone: Image, wanted: dict[str, Any]) -> None:
    assert wanted["size_bytes"] >= clone.size_bytes, "a clone cannot be smaller than its parent"
    clone.size_bytes = wanted["size_bytes"]
    clone.metadata = {f"{METADATA_PREFIX}{key}": fact for key, fact in wanted["facts"].items()}


def _ensure_namespace(cluster: RbdCluster, name: str) -> None:
    place = place_of_name(name)
    if "/" in place:
        cluster.namespaces.add(place)


def _remove(cluster: RbdCluster, place: str) -> tuple[int, str]:
    if place not in cluster.namespaces:
        return ENOENT, "rbd: failed to remove namespace: (2) No such file or directory"
    is_used = any(place_of_name(name) == place for name in cluster.images)
    if is_used or place in (cluster.trash_places[one] for one in cluster.trash):
        return EBUSY, "rbd: namespace contains images which must be deleted first."
    cluster.namespaces.remove(place)
    return 0, ""
