"""A cluster that does nothing of its own accord: no scrub, no balancing, no scaling of pools.

What was on is in the state before it is switched off, so that whoever comes after a killed run
switches it on again. What was off stays off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from grampus.bench.environments.environment_records import QUIET, QUIET_RECORD, BenchQuiet
from grampus.state.store import Store

FLAGS = ("noscrub", "nodeep-scrub")
# What `ceph balancer on` and `off` write into the configuration.
BALANCER_SETTING = ("mgr", "mgr/balancer/active")


class QuietableCluster(Protocol):
    """The `ceph` command, as of `CephCluster`."""

    def ceph(self, *arguments: str) -> object:
        """Run `ceph ARGUMENTS`. Raises GrampusError on a non-zero code."""
        ...

    def query(self, *arguments: str) -> Any:
        """The JSON document that it prints."""
        ...


@contextmanager
def quiet_cluster(cluster: QuietableCluster, store: Store, lab: str) -> Iterator[None]:
    """Quiet for the block, and as it was after it."""
    restore_cluster(cluster, store, lab)
    found = decide_quiet(
        cluster.query("osd", "dump"),
        cluster.query("balancer", "status"),
        _pools(cluster),
        cluster.query("config", "dump"),
    )
    store.put(QUIET_RECORD, lab, QUIET, found)
    try:
        for flag in found.flags:
            cluster.ceph("osd", "set", flag)
        if found.balancer:
            cluster.ceph("balancer", "off")
        for pool in found.pools:
            cluster.ceph("osd", "pool", "set", pool, "pg_autoscale_mode", "off")
        yield
    finally:
        restore_cluster(cluster, store, lab)


def restore_cluster(cluster: QuietableCluster, store: Store, lab: str) -> None:
    """Switch on again what a run switched off; nothing happens when there is nothing."""
    found = store.get(QUIET_RECORD, lab, QUIET, BenchQuiet)
    if found is None:
        return
    for flag in found.flags:
        cluster.ceph("osd", "unset", flag)
    if found.balancer:
        cluster.ceph("balancer", "on")
        if not found.balancer_is_set:
            cluster.ceph("config", "rm", *BALANCER_SETTING)
    there = _pools(cluster)
    for pool, mode in found.pools.items():
        # Whoever set another mode meanwhile wants that.
        if there.get(pool) == "off":
            cluster.ceph("osd", "pool", "set", pool, "pg_autoscale_mode", mode)
    store.remove(QUIET_RECORD, lab, QUIET)


def decide_quiet(
    osd_dump: Mapping[str, Any],
    balancer: Mapping[str, Any],
    pools: Mapping[str, str],
    configuration: Sequence[Mapping[str, Any]],
) -> BenchQuiet:
    """What is to be switched off: no more than what is on.

    `pools`: how each one scales; `configuration`: its entries, as `ceph config dump` has them.
    """
    flags = set(osd_dump.get("flags_set", ()))
    return BenchQuiet(
        flags=tuple(flag for flag in FLAGS if flag not in flags),
        balancer=bool(balancer.get("active")),
        balancer_is_set=any(
            (entry["section"], entry["name"]) == BALANCER_SETTING for entry in configuration
        ),
        pools={pool: mode for pool, mode in pools.items() if mode == "on"},
    )


def _pools(cluster: QuietableCluster) -> dict[str, str]:
    return {
        pool["pool_name"]: pool.get("pg_autoscale_mode", "off")
        for pool in cluster.query("osd", "pool", "ls", "detail")
    }
