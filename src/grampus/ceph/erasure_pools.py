"""Pools of images whose data are erasure-coded.

RBD keeps an image's metadata in omaps, which erasure-coded pools have none of: such images have two
pools, a replicated one that they are named in and another for their data. The second is found by
the name of the first, which ends in the code, so that a volume's key can be decided from where its
image is.
"""

from __future__ import annotations

import re
from typing import Any

from grampus.ceph.cluster import CephCluster
from grampus.ceph.pools import ensure_empty_pool_absent
from grampus.core.errors import GrampusError

CODE = re.compile(r"k(?P<data>[2-9]|1[0-6])m(?P<coding>[1-4])")
_CODED = re.compile(rf"-{CODE.pattern}$")
_DATA_SUFFIX = "-data"
_ALLOW_REMOVAL = "mon_allow_pool_delete"


def coded_pool(pool: str, code: str) -> str:
    """The name of the pool of images with that code, beside `pool` without one."""
    return f"{pool}-{code}"


def data_pool_beside(pool: str) -> str:
    """The name of the pool with the data of images in a `coded_pool`."""
    return f"{pool}{_DATA_SUFFIX}"


def data_pool_of(pool: str) -> str | None:
    """The pool with the data of images in `pool`; None: it holds them itself."""
    return data_pool_beside(pool) if _CODED.search(pool) else None


def chunks_of(code: str) -> tuple[int, int]:
    """Data and coding chunks of a code such as `k2m1`. Raises GrampusError for anything else."""
    found = CODE.fullmatch(code)
    if found is None:
        raise GrampusError(f"'{code}' is not an erasure code.", "Write the code as k2m1 or k4m2.")
    return int(found["data"]), int(found["coding"])


def ensure_erasure_pool(
    cluster: CephCluster, pool: str, *, code: str, placement_groups: int, rule: str
) -> None:
    """An erasure-coded pool that objects can be overwritten in, its chunks on hosts of their own.

    It is on the OSDs that the CRUSH rule `rule` takes. Raises GrampusError.
    """
    if pool not in cluster.query("osd", "pool", "ls"):
        data, coding = chunks_of(code)
        cluster.ceph(
            *("osd", "erasure-code-profile", "set", pool),
            *(f"k={data}", f"m={coding}", "crush-failure-domain=host"),
            *_place_of(cluster, rule),
            "--force",
        )
        cluster.ceph(
            *("osd", "pool", "create", pool, str(placement_groups), str(placement_groups)),
            *("erasure", pool, "--autoscale-mode=off"),
        )
    cluster.ceph("osd", "pool", "set", pool, "allow_ec_overwrites", "true")
    cluster.ceph("osd", "pool", "application", "enable", pool, "rbd", "--yes-i-really-mean-it")


def ensure_data_pool_used(cluster: CephCluster, pool: str, data_pool: str) -> None:
    """Images that are made in `pool` from now on have their data in `data_pool`."""
    cluster.runner.run(["rbd", "config", "pool", "set", pool, "rbd_default_data_pool", data_pool])


def ensure_erasure_pool_absent(cluster: CephCluster, pool: str) -> None:
    """The pool removed with all objects, its rule and its profile.

    Nothing that is named in another pool may have its data there any more. Raises GrampusError.
    """
    if pool in cluster.query("osd", "pool", "ls"):
        cluster.ceph("config", "set", "global", _ALLOW_REMOVAL, "true")
        try:
            cluster.ceph("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
        finally:
            cluster.ceph("config", "rm", "global", _ALLOW_REMOVAL)
    if pool in cluster.query("osd", "crush", "rule", "ls"):
        cluster.ceph("osd", "crush", "rule", "rm", pool)
    if pool in cluster.query("osd", "erasure-code-profile", "ls"):
        cluster.ceph("osd", "erasure-code-profile", "rm", pool)


def ensure_coded_pools_absent(cluster: CephCluster, pool: str) -> bool:
    """An empty pool of coded images removed with its data pool; whether both are gone."""
    data_pool = data_pool_of(pool)
    if data_pool is None or not ensure_empty_pool_absent(cluster, pool):
        return False
    ensure_erasure_pool_absent(cluster, data_pool)
    return True


def parse_place(rule: dict[str, Any]) -> tuple[str, str | None]:
    """The CRUSH root and the device class (None: any) that a rule's document takes OSDs from."""
    taken = next(step["item_name"] for step in rule["steps"] if step["op"] == "take")
    root, _, device_class = str(taken).partition("~")
    return root, device_class or None


def _place_of(cluster: CephCluster, rule: str) -> list[str]:
    root, device_class = parse_place(cluster.query("osd", "crush", "rule", "dump", rule))
    limits = [f"crush-root={root}"]
    return limits if device_class is None else [*limits, f"crush-device-class={device_class}"]
