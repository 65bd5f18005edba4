"""How much more a pool takes, and whether the cluster says that it is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grampus.ceph.cluster import CephCluster, parse_available_bytes
from grampus.core.errors import GrampusError

# Health checks of Ceph (its documentation, "Health checks") after which nothing should be promised
# any more room. FULL ones hold up every write; the NEAR ones come first.
_OF_THE_CLUSTER = ("OSD_FULL", "OSD_BACKFILLFULL", "OSD_NEARFULL")
_OF_POOLS = ("POOL_FULL", "POOL_BACKFILLFULL", "POOL_NEARFULL")
# Of a pool, when an OSD that it is on (or its quota) takes no more copies, or no more writes.
_HOLDS_WRITES = "POOL_FULL"
_OVERFULL = (_HOLDS_WRITES, "POOL_BACKFILLFULL")


@dataclass(frozen=True)
class PoolRoom:
    """What a client may still store in a pool, in bytes (copies taken into account)."""

    pool: str
    available_bytes: int  # until Ceph holds up writes
    until_nearly_full_bytes: int  # until Ceph warns
    problem: str | None = None  # what is full already, without a full stop
    stored_bytes: int = 0
    # What is wrong with this pool alone, whatever else the cluster has: more than nearly full.
    overfull: str | None = None
    holds_writes: bool = False


def observe_pool_room(cluster: CephCluster, pool: str) -> PoolRoom:
    """The pool's room now. Raises GrampusError with code `no-pool`."""
    return observe_pool_rooms(cluster, [pool])[0]


def observe_pool_rooms(cluster: CephCluster, pools: Sequence[str]) -> list[PoolRoom]:
    """The room of each pool, at one moment. Raises as `observe_pool_room`."""
    usage, osd_map = cluster.ask("df", detail="detail"), cluster.ask("osd dump")
    health = cluster.ask("health", detail="detail")
    return [parse_pool_room(pool, usage, osd_map, health) for pool in pools]


def parse_pool_room(
    pool: str, usage: Mapping[str, Any], osd_map: Mapping[str, Any], health: Mapping[str, Any]
) -> PoolRoom:
    """A PoolRoom from what `ceph df detail`, `osd dump` and `health detail` say.

    `max_avail` reaches to the full ratio of the OSD that is full first; what lies between the
    nearfull ratio and the full ratio of all OSDs together is taken off it.
    Raises GrampusError with code `no-pool`.
    """
    stats = next((entry["stats"] for entry in usage["pools"] if entry["name"] == pool), None)
    copies = next((entry["size"] for entry in osd_map["pools"] if entry["pool_name"] == pool), None)
    if stats is None or copies is None:
        raise GrampusError(f"The cluster has no pool named '{pool}'.", code="no-pool")
    between_ratio = float(osd_map["full_ratio"]) - float(osd_map["nearfull_ratio"])
    between_bytes = int(between_ratio * usage["stats"]["total_bytes"] / copies)
    available_bytes = parse_available_bytes(stats)
    until_nearly_full_bytes = int(stats["max_avail"]) - between_bytes
    checks = health.get("checks", {})
    return PoolRoom(
        pool=pool,
        available_bytes=available_bytes,
        until_nearly_full_bytes=max(0, min(until_nearly_full_bytes, available_bytes)),
        problem=_find_problem(pool, checks),
        stored_bytes=int(stats.get("stored", 0)),
        overfull=_find_of_pool(pool, checks, _OVERFULL),
        holds_writes=_find_of_pool(pool, checks, (_HOLDS_WRITES,)) is not None,
    )


def _find_problem(pool: str, checks: Mapping[str, Any]) -> str | None:
    for code in _OF_THE_CLUSTER:
        if code in checks:
            return f"{checks[code]['summary']['message']} ({code})"
    return _find_of_pool(pool, checks, _OF_POOLS)


def _find_of_pool(pool: str, checks: Mapping[str, Any], codes: Sequence[str]) -> str | None:
    for code in codes:
        # `pool 'databases' is full (no quota)`, one entry a pool
        for entry in checks.get(code, {}).get("detail", ()):
            if f"'{pool}'" in entry["message"]:
                return f"{entry['message'].rstrip('.')} ({code})"
    return None
