"""Which RADOS objects an image consists of, those of the images that it is a clone of included."""

from __future__ import annotations

import json

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.journal_objects import JOURNAL_OBJECTS
from grampus.ceph.namespaces import split_image
from grampus.core.models import Model

# librbd tells what is allocated from the image's object map, without reading data. All layers over
# one connection: `rbd` connects anew for each image and each snapshot.
LIST_OBJECTS = f"""
{CONNECT}
import json, sys, rados, rbd
{JOURNAL_OBJECTS}
def exists(context, name):
    try:
        context.stat(name)
    except rados.ObjectNotFound:
        return False
    return True
def list_journal(context, image_id):
    if not exists(context, journal_of(image_id)):
        return []
    slots = each_slot(image_id, lambda name: exists(context, name))
    return [journal_of(image_id), *slots]
def describe(cluster, context, pool, namespace, image):
    size, numbers, snapshots = image.stat()["obj_size"], set(), list(image.list_snaps())
    def note(offset, length, is_there):
        if is_there:
            numbers.update(range(offset // size, (offset + length - 1) // size + 1))
    # By id: those that were deleted under clones have no name to be found by.
    for snapshot in [None, *snapshots]:
        if snapshot is not None:
            image.set_snap_by_id(snapshot["id"])
        if image.size():
            image.diff_iterate(
                0, image.size(), None, note, include_parent=False, whole_object=True
            )
    id = image.id()
    others = ["rbd_header." + id, "rbd_object_map." + id]
    others += [name for name in ["rbd_id." + image.get_name()] if exists(context, name)]
    others += ["rbd_object_map.%s.%016x" % (id, snapshot["id"]) for snapshot in snapshots]
    name = (namespace + "/" if namespace else "") + image.get_name()
    prefix = image.stat()["block_name_prefix"]
    layer = {{"pool": pool, "image": name, "prefix": prefix, "numbers": sorted(numbers)}}
    own = journal_pool(image, pool)
    if own == pool:
        return [{{**layer, "others": others + list_journal(context, id)}}]
    with cluster.open_ioctx(own) as elsewhere:
        elsewhere.set_namespace(namespace)
        journal = list_journal(elsewhere, id)
    beside = {{**layer, "pool": own, "numbers": [], "others": journal}}
    return [{{**layer, "others": others}}, beside]
namespace, _, name = sys.argv[2].rpartition("/")
found, pool, named = [], sys.argv[1], {{"name": name}}
with connect() as cluster:
    while pool is not None:
        with cluster.open_ioctx(pool) as context:
            context.set_namespace(namespace)
            with rbd.Image(context, read_only=True, **named) as image:
                found += describe(cluster, context, pool, namespace, image)
                try:
                    parent = image.get_parent_image_spec()
                    pool, namespace = parent["pool_name"], parent["pool_namespace"]
                    named = {{"image_id": parent["image_id"]}}
                except rbd.ImageNotFound:
                    pool = None
print(json.dumps(found))
"""
LIST_TIMEOUT_S = 600.0


class ImageLayer(Model):
    """The objects of one image, without those of its parent; or its journal in another pool."""

    model_config = ConfigDict(frozen=True)

    pool: str
    image: str  # with its namespace
    prefix: str  # what the names of its data objects begin with
    numbers: tuple[int, ...]  # of its data objects that exist, in the image or in a snapshot
    others: tuple[str, ...]  # header and object maps, and its write journal

    @property
    def namespace(self) -> str:
        """Where all of them are; empty: the pool's default namespace."""
        return split_image(self.image)[0]

    @property
    def data_objects(self) -> list[str]:
        """Names of its data objects (librbd: prefix, then the number in 16 hexadecimal digits)."""
        return [f"{self.prefix}.{number:016x}" for number in self.numbers]

    @property
    def objects(self) -> list[str]:
        """Names of all its objects."""
        return [*self.others, *self.data_objects]


def observe_layers(cluster: CephCluster, pool: str, image: str) -> list[ImageLayer]:
    """The image's own objects, then those of its parent, and so on down.

    A journal in another pool follows its image as a layer of its own.

    Raises GrampusError when there is no such image.
    """
    argv = ["python3", "-c", LIST_OBJECTS, pool, image]
    output = cluster.runner.run(argv, timeout_s=LIST_TIMEOUT_S)
    return [ImageLayer.model_validate(layer) for layer in json.loads(output.stdout)]
