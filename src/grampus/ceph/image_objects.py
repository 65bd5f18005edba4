"""Which RADOS objects an image consists of, those of the images that it is a clone of included."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict

from grampus.ceph.cluster import CephCluster

# librbd tells what is allocated from the image's object map, without reading data. All layers over
# one connection: `rbd` connects anew for each image and each snapshot.
LIST_OBJECTS = """
import json, sys, rados, rbd
ABSENT_IN_A_ROW = 64
def exists(context, name):
    try:
        context.stat(name)
    except rados.ObjectNotFound:
        return False
    return True
def describe(context, pool, image):
    size, numbers, snapshots = image.stat()["obj_size"], set(), list(image.list_snaps())
    def note(offset, length, is_there):
        if is_there:
            numbers.update(range(offset // size, (offset + length - 1) // size + 1))
    for name in [None, *(snapshot["name"] for snapshot in snapshots)]:
        image.set_snap(name)
        if image.size():
            image.diff_iterate(
                0, image.size(), None, note, include_parent=False, whole_object=True
            )
    id = image.id()
    others = ["rbd_header." + id, "rbd_object_map." + id]
    others += [name for name in ["rbd_id." + image.get_name()] if exists(context, name)]
    others += ["rbd_object_map.%s.%016x" % (id, snapshot["id"]) for snapshot in snapshots]
    journal, slot, absent = "grampus_journal." + id, 0, 0
    if exists(context, journal):
        others.append(journal)
        while absent < ABSENT_IN_A_ROW:
            name = "%s.%04x" % (journal, slot)
            found = exists(context, name)
            absent = 0 if found else absent + 1
            others += [name] if found else []
            slot += 1
    return {
        "pool": pool,
        "image": image.get_name(),
        "prefix": image.stat()["block_name_prefix"],
        "numbers": sorted(numbers),
        "others": others,
    }
found, pool, named = [], sys.argv[1], {"name": sys.argv[2]}
with rados.Rados(conffile="") as cluster:
    while pool is not None:
        with cluster.open_ioctx(pool) as context:
            with rbd.Image(context, read_only=True, **named) as image:
                found.append(describe(context, pool, image))
                try:
                    parent = image.get_parent_image_spec()
                    pool, named = parent["pool_name"], {"image_id": parent["image_id"]}
                except rbd.ImageNotFound:
                    pool = None
print(json.dumps(found))
"""
LIST_TIMEOUT_S = 600.0


class ImageLayer(BaseModel):
    """The objects of one image, without those of its parent."""

    model_config = ConfigDict(frozen=True)

    pool: str
    image: str
    prefix: str  # what the names of its data objects begin with
    numbers: tuple[int, ...]  # of its data objects that exist, in the image or in a snapshot
    others: tuple[str, ...]  # header, object maps, and its write journal

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

    Raises GrampusError when there is no such image.
    """
    argv = ["python3", "-c", LIST_OBJECTS, pool, image]
    output = cluster.runner.run(argv, timeout_s=LIST_TIMEOUT_S)
    return [ImageLayer.model_validate(layer) for layer in json.loads(output.stdout)]
