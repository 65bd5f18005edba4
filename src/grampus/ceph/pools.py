"""Pools whose redundancy is less than Ceph takes without a word: copies by choice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.journal_objects import count_journals
from grampus.ceph.trash import TRASH_IDS
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import RefusedError

# Ceph's switch for pools of one copy, for all pools at once: on only while ours is set.
_ALLOW_ONE = "mon_allow_pool_size_one"
_ALLOW_REMOVAL = "mon_allow_pool_delete"
_NO_REDUNDANCY = "POOL_NO_REDUNDANCY"
_POOL_IN_DETAIL = re.compile(r"pool '(?P<pool>[^']+)' has no replicas configured")
# The MONs look at their checks every few seconds (`mon_tick_interval`).
_TICK_TIMEOUT_S = 30.0
# Images of a pool, also those in its trash, in all of its namespaces.
COUNT_IMAGES = f"""
{CONNECT}
import json, subprocess, sys, rbd
{TRASH_IDS}
count = 0
with connect() as cluster, cluster.open_ioctx(sys.argv[1]) as pool:
    for namespace in ["", *rbd.RBD().namespace_list(pool)]:
        pool.set_namespace(namespace)
        count += len(rbd.RBD().list(pool))
        count += len(trash_ids(pool, sys.argv[1], namespace, True))
print(json.dumps(count))
"""


def ensure_pool_of_copies(
    cluster: CephCluster,
    clock: Clock,
    pool: str,
    *,
    placement_groups: int,
    copies: int,
    rule: str | None = None,
) -> None:
    """A replicated pool for RBD images with so many copies, also with one.

    `rule` is the CRUSH rule of a new one; None: the cluster's own.

    A pool of one copy takes Ceph's leave, which is given for that moment alone, and raises a
    health warning. That is muted while it is about this pool alone: when another pool is found
    without redundancy Ceph itself lifts the mute, because there are more of them.

    Raises RefusedError with code `osds-down`.
    """
    if _observe_copies(cluster, pool) == copies:
        return
    _require_osds_up(cluster, pool)
    if copies > 1:
        cluster.ensure_pool(
            pool,
            placement_groups=placement_groups,
            copies=copies,
            min_size=copies - 1,
            rule=rule,
        )
        return
    # With the cluster's own redundancy at first: no leave is needed for that.
    cluster.ensure_pool_created(pool, placement_groups=placement_groups, rule=rule)
    cluster.ceph("config", "set", "global", _ALLOW_ONE, "true")
    try:
        cluster.ceph("osd", "pool", "set", pool, "size", "1", "--yes-i-really-mean-it")
        cluster.ceph("osd", "pool", "set", pool, "min_size", "1")
    finally:
        cluster.ceph("config", "rm", "global", _ALLOW_ONE)
    cluster.runner.run(["rbd", "pool", "init", pool])
    _mute_warning_of(cluster, clock, pool)


def ensure_empty_pool_absent(cluster: CephCluster, pool: str) -> bool:
    """The pool removed if no image and no journal is in it, in any namespace or trash; whether it
    is gone.

    While an OSD is down nobody can say so, and it stays. Ceph's leave to remove pools is given for
    that moment alone.
    """
    if pool not in cluster.query("osd", "pool", "ls"):
        return True
    status = cluster.observe_status()
    if status.osds_up < status.osds:
        return False
    if count_images(cluster, pool) or count_journals(cluster, pool):
        return False
    cluster.ceph("config", "set", "global", _ALLOW_REMOVAL, "true")
    try:
        cluster.ceph("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
    finally:
        cluster.ceph("config", "rm", "global", _ALLOW_REMOVAL)
    return True


def count_images(cluster: CephCluster, pool: str) -> int:
    """Images of the pool, also those in its trash, in all of its namespaces. All OSDs are up."""
    listed = cluster.runner.run(["python3", "-c", COUNT_IMAGES, pool], timeout_s=60)
    return int(json.loads(listed.stdout))


def parse_unredundant_pools(document: Mapping[str, Any]) -> set[str]:
    """The pools without redundancy that `ceph health detail` complains of."""
    detail = document.get("checks", {}).get(_NO_REDUNDANCY, {}).get("detail", ())
    found = (_POOL_IN_DETAIL.search(entry["message"]) for entry in detail)
    return {match["pool"] for match in found if match is not None}


def _observe_copies(cluster: CephCluster, pool: str) -> int | None:
    if pool not in cluster.query("osd", "pool", "ls"):
        return None
    return int(cluster.query("osd", "pool", "get", pool, "size")["size"])


def _require_osds_up(cluster: CephCluster, pool: str) -> None:
    """A placement group of one copy whose OSD is away waits for it, and so would the caller."""
    status = cluster.observe_status()
    if status.osds_up < status.osds:
        raise RefusedError(
            f"{status.osds - status.osds_up} of {status.osds} OSDs are down, so the pool "
            f"'{pool}' cannot be created now.",
            "Start the OSDs (`grampus lab status` shows them), then try again.",
            code="osds-down",
        )


def _mute_warning_of(cluster: CephCluster, clock: Clock, pool: str) -> None:
    found: list[set[str]] = []

    def is_raised() -> bool:
        found.append(parse_unredundant_pools(cluster.query("health", "detail")))
        return pool in found[-1]

    wait_until(
        clock,
        is_raised,
        what=f"the cluster to notice that the pool '{pool}' has one copy",
        timeout_s=_TICK_TIMEOUT_S,
        interval_s=0.5,
    )
    if found[-1] == {pool}:
        cluster.ceph("health", "mute", _NO_REDUNDANCY)
