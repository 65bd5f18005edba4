"""What a pool of a lab holds, in all of its RBD namespaces, past Grampus."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from grampus.ceph.trash import TRASH_IDS
from tests.system.machine import lab_container

LIST_POOL = f"""
import json, subprocess, sys, rados, rbd
{TRASH_IDS}
found = {{"namespaces": [], "images": [], "trash": []}}
with rados.Rados(conffile="") as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    found["namespaces"] = rbd.RBD().namespace_list(pool)
    for namespace in ["", *found["namespaces"]]:
        pool.set_namespace(namespace)
        before = namespace + "/" if namespace else ""
        found["images"] += [before + name for name in rbd.RBD().list(pool)]
        found["trash"] += [before + one for one in trash_ids(pool, sys.argv[1], namespace, True)]
print(json.dumps(found))
"""


@dataclass(frozen=True)
class PoolContents:
    """Sorted names: NAMESPACE/IMAGE, or IMAGE in the default namespace; of the trash, ids."""

    namespaces: tuple[str, ...]
    images: tuple[str, ...]
    trash: tuple[str, ...]


def pool_contents(tag: str, pool: str = "databases") -> PoolContents:
    """What is in a pool of the lab with that tag."""
    return contents_of_pool(lambda *argv: lab_container(tag, "h1", *argv), pool)


def contents_of_pool(run: Callable[..., str], pool: str = "databases") -> PoolContents:
    """What is in a pool of the cluster on which `run` runs a command and answers what it prints."""
    found = json.loads(run("python3", "-c", LIST_POOL, pool))
    return PoolContents(**{kind: tuple(sorted(names)) for kind, names in found.items()})
