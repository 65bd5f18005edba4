"""What Grampus remembers of an image, noted on it: on all images of a cluster at once.

Notes are written without the images' locks: `rbd.HEADER_METADATA`.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT, CONNECT_SOON
from grampus.ceph.journal_objects import OBJECTS_KEY
from grampus.ceph.rbd import HEADER_METADATA, METADATA_PREFIX
from grampus.ceph.trash import TRASH_IDS
from grampus.core.models import Model

# One fact, asked for by its name: python3-rbd 20.2 lists keys beside the wrong values as soon as
# one value is empty.
RECORDS_KEY = f"{METADATA_PREFIX}records"
# A look at every image in one process on a host, since a command for each takes 40 ms.
# `describe(pool, namespace, image, in_trash)` is called with each open image, of all namespaces and
# of the trash too; what it answers is listed, unless it is None. An image that goes away meanwhile
# is left out.
WALK_IMAGES = f"""
{CONNECT}
import json, subprocess, sys, rbd
{TRASH_IDS}
def walk_images(cluster, pools, describe):
    found = []
    for pool in pools:
        with cluster.open_ioctx(pool) as context:
            for namespace in ["", *rbd.RBD().namespace_list(context)]:
                context.set_namespace(namespace)
                named = [({{"name": name}}, False) for name in rbd.RBD().list(context)]
                ids = trash_ids(context, pool, namespace, False)
                for which, in_trash in named + [({{"image_id": one}}, True) for one in ids]:
                    try:
                        with rbd.Image(context, read_only=True, **which) as image:
                            found.append(describe(pool, namespace, image, in_trash))
                    except rbd.ImageNotFound:
                        pass
    return [one for one in found if one is not None]
"""
# `has_data` is told by the object map, and asked for only where it may matter: a volume whose facts
# do not say that it has a file system.
LIST_NOTES = f"""
{WALK_IMAGES}
class Found(Exception):
    pass
def stop(offset, length, exists):
    if exists:
        raise Found
def has_data(image):
    try:
        image.diff_iterate(0, image.size(), None, stop, include_parent=True, whole_object=True)
    except Found:
        return True
    return False
def fact(image, key):
    try:
        return image.metadata_get(key)
    except KeyError:
        return None
def describe(pool, namespace, image, in_trash):
    noted = fact(image, sys.argv[1])
    return {{
        "pool": pool,
        "name": (namespace + "/" if namespace else "") + image.get_name(),
        "id": image.id(),
        "size_bytes": image.size(),
        "in_trash": in_trash,
        "has_data": noted is not None and image.size() > 0 and has_data(image),
        "noted": noted,
        "journal": fact(image, "{OBJECTS_KEY}"),
    }}
with {CONNECT_SOON} as cluster:
    found = walk_images(cluster, sys.argv[2:], describe)
print(json.dumps(found))
"""
# One that is not there (any more) is left out of the answer. The generation of the state goes
# first: what is noted on images is never of a later one than the MONs know of.
WRITE_NOTES = f"""
{CONNECT}
import json, sys
{HEADER_METADATA}
noted = []
with {CONNECT_SOON} as cluster:
    put = {{"prefix": "config-key set", "key": sys.argv[2], "val": sys.argv[3]}}
    code, _, said = cluster.mon_command(json.dumps(put), b"")
    if code:
        sys.exit(f"the generation of the state cannot be noted: {{said}}")
    for number, change in enumerate(json.load(sys.stdin)):
        try:
            with cluster.open_ioctx(change["pool"]) as context:
                context.set_namespace(change["namespace"])
                name, image_id = change["image"].get("name"), change["image"].get("image_id")
                image_id = image_id_of(context, name) if name else image_id
                change_metadata(context, image_id, {{sys.argv[1]: change["text"]}})
        except rados.ObjectNotFound:
            continue
        noted.append(number)
print(json.dumps(noted))
"""
LIST_TIMEOUT_S = 600.0
NOTE_TIMEOUT_S = 60.0


class FoundImage(Model):
    """An image of the cluster, with what was noted on it."""

    model_config = ConfigDict(frozen=True)

    pool: str
    name: str  # with its namespace
    id: str
    size_bytes: int
    in_trash: bool
    has_data: bool  # of one with a note: something was ever written to it
    noted: str | None  # None: nothing, so it is not ours
    journal: str | None = None  # where its journal is, as volumed marks it (`journal_objects`)


class ImageNote(Model):
    """What is to be noted on an image, which is named, or known by its id (also in the trash)."""

    model_config = ConfigDict(frozen=True)

    pool: str
    namespace: str = ""  # the default one
    name: str | None = None  # in its namespace
    image_id: str | None = None
    text: str


def observe_images(cluster: CephCluster) -> list[FoundImage]:
    """Every image of the pools for images, in all of their namespaces."""
    argv = ["python3", "-c", LIST_NOTES, RECORDS_KEY, *observe_image_pools(cluster)]
    output = cluster.runner.run(argv, timeout_s=LIST_TIMEOUT_S)
    return [FoundImage.model_validate(found) for found in json.loads(output.stdout)]


def observe_image_pools(cluster: CephCluster) -> list[str]:
    """Pools that are meant for images and that Grampus may open, by name."""
    pools = cluster.ask("osd pool ls", detail="detail")
    return sorted(
        pool["pool_name"]
        for pool in pools
        if "rbd" in pool.get("application_metadata", {})
        and (cluster.image_pools is None or pool["pool_name"] in cluster.image_pools)
    )


def write_notes(
    cluster: CephCluster, notes: Collection[ImageNote], generation: tuple[str, str]
) -> list[ImageNote]:
    """Note it on the images, and answer with what could be: the image was there.

    `generation` is the key that the MONs keep the generation of the state under, and its text.
    """
    documents = [
        {
            "pool": note.pool,
            "namespace": note.namespace,
            "image": {"name": note.name} if note.name else {"image_id": note.image_id},
            "text": note.text,
        }
        for note in notes
    ]
    if not documents:
        return []
    argv = ["python3", "-c", WRITE_NOTES, RECORDS_KEY, *generation]
    output = cluster.runner.run(argv, stdin=json.dumps(documents), timeout_s=NOTE_TIMEOUT_S)
    written = set(json.loads(output.stdout))
    return [note for number, note in enumerate(notes) if number in written]
