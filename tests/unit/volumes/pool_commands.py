"""What a cluster in memory says of its pools, their room and its health."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grampus.core.units import GIB

if TYPE_CHECKING:
    from .cluster import RbdCluster


def answer_pools(cluster: RbdCluster, argv: Sequence[str]) -> tuple[int, str] | None:
    """None for another command."""
    if argv[0] != "ceph":
        return None
    match list(argv[3:]):
        case ["df", "detail", *_]:
            stats = {
                "stored": cluster.stored_bytes,
                "max_avail": cluster.available_bytes,
                "quota_bytes": cluster.quota_bytes,
            }
            counted = [pool for pool in cluster.pools if not _is_uncounted(cluster, pool)]
            pools = [{"name": pool, "stats": stats} for pool in counted]
            return 0, json.dumps({"stats": {"total_bytes": 500 * GIB}, "pools": pools})
        case ["osd", "dump", *_]:
            ratios = {"full_ratio": 0.95, "nearfull_ratio": 0.85}
            pools = [
                {
                    "pool_name": pool,
                    "size": 3,
                    "flags_names": "full" if pool in cluster.full_pools else "",
                }
                for pool in cluster.pools
            ]
            return 0, json.dumps({**ratios, "pools": pools})
        case ["health", "detail", *_]:
            said = {code: [{"message": text}] for code, text in cluster.warnings.items()}
            checks = {
                code: {"summary": {"message": code}, "detail": detail}
                for code, detail in said.items()
            }
            return 0, json.dumps({"checks": checks})
        case ["osd", "pool", "ls", "detail", *_]:
            rbd = {"application_metadata": {"rbd": {}}}
            pools = [{"pool_name": pool, **rbd} for pool in cluster.pools]
            return 0, json.dumps([*pools, {"pool_name": ".mgr"}])
        case ["osd", "pool", "get", pool, key, *_]:
            usual = 3 if key == "size" else 2
            return 0, json.dumps({key: cluster.redundancy.get((pool, key), usual)})
    return None


def _is_uncounted(cluster: RbdCluster, pool: str) -> bool:
    """Whether the MGR has not counted a pool yet; each question brings that nearer."""
    left = cluster.uncounted_looks.get(pool, 0)
    cluster.uncounted_looks[pool] = max(0, left - 1)
    return left > 0
