"""One fact on all images of a cluster, those in the trash too: read at once, and exchanged."""

from __future__ import annotations

import json

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT, CONNECT_SOON
from grampus.ceph.image_notes import (
    LIST_TIMEOUT_S,
    NOTE_TIMEOUT_S,
    WALK_IMAGES,
    observe_image_pools,
)
from grampus.ceph.namespaces import split_image
from grampus.ceph.rbd import HEADER_METADATA, METADATA_PREFIX
from grampus.core.models import Model

LIST_FACT = f"""
{WALK_IMAGES}
def describe(pool, namespace, image, in_trash):
    try:
        fact = image.metadata_get(sys.argv[1])
    except KeyError:
        return None
    name = (namespace + "/" if namespace else "") + image.get_name()
    return {{
        "pool": pool, "name": name, "id": image.id(), "in_trash": in_trash, "fact": fact
    }}
with {CONNECT_SOON} as cluster:
    found = walk_images(cluster, sys.argv[2:], describe)
print(json.dumps(found))
"""
# The OSD compares the former fact as it changes it: another image, or a fact that somebody changed
# meanwhile, is left alone.
EXCHANGE_FACT = f"""
{CONNECT}
import json, sys
{HEADER_METADATA}
change = json.load(sys.stdin)
with {CONNECT_SOON} as cluster, cluster.open_ioctx(change["pool"]) as context:
    context.set_namespace(change["namespace"])
    key, former = change["key"], {{change["key"]: change["former"]}}
    try:
        change_metadata(context, change["id"], {{key: change["fact"]}}, former=former)
    except rados.ObjectNotFound:
        pass
"""


class ImageFact(Model):
    """An image of the cluster, and a fact on it."""

    model_config = ConfigDict(frozen=True)

    pool: str
    name: str  # with its namespace; in the trash, as it was called
    id: str
    in_trash: bool
    fact: str


def observe_fact(cluster: CephCluster, fact: str) -> list[ImageFact]:
    """Every image that has the fact, in all namespaces of the pools for images."""
    pools = observe_image_pools(cluster)
    argv = ["python3", "-c", LIST_FACT, f"{METADATA_PREFIX}{fact}", *pools]
    output = cluster.runner.run(argv, timeout_s=LIST_TIMEOUT_S)
    return [ImageFact.model_validate(found) for found in json.loads(output.stdout)]


def exchange_fact(cluster: CephCluster, image: ImageFact, fact: str, value: str) -> None:
    """The fact on the image changed to `value`, if it is still what was observed.

    One call of the cluster does it: whoever reads it, or dies, finds the one or the other.
    """
    document = {
        "pool": image.pool,
        "namespace": split_image(image.name)[0],
        "id": image.id,
        "key": f"{METADATA_PREFIX}{fact}",
        "former": image.fact,
        "fact": value,
    }
    argv = ["python3", "-c", EXCHANGE_FACT]
    cluster.runner.run(argv, stdin=json.dumps(document), timeout_s=NOTE_TIMEOUT_S)
