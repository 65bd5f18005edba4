"""What `ceph status --format json` of Ceph 20 says, shortened to what has a meaning here."""

from __future__ import annotations

import copy
from typing import Any

HEALTHY: dict[str, Any] = {
    "fsid": "0f1e2d3c-4b5a-4697-8899-aabbccddeeff",
    "health": {"status": "HEALTH_OK", "checks": {}, "mutes": []},
    "election_epoch": 6,
    "quorum": [0, 1, 2],
    "quorum_names": ["h1", "h2", "h3"],
    "quorum_age": 41,
    "monmap": {
        "epoch": 1,
        "min_mon_release_name": "tentacle",
        "num_mons": 3,
    },
    "osdmap": {
        "epoch": 21,
        "num_osds": 3,
        "num_up_osds": 3,
        "osd_up_since": 1795262000,
        "num_in_osds": 3,
        "osd_in_since": 1795261990,
        "num_remapped_pgs": 0,
    },
    "pgmap": {
        "pgs_by_state": [{"state_name": "active+clean", "count": 33}],
        "num_pgs": 33,
        "num_pools": 2,
        "num_objects": 5,
        "data_bytes": 590387,
        "bytes_used": 85000192,
        "bytes_avail": 64339509248,
        "bytes_total": 64424509440,
    },
    "fsmap": {"epoch": 1, "by_rank": [], "up:standby": 0},
    "mgrmap": {
        "available": True,
        "num_standbys": 1,
        "modules": ["balancer", "iostat"],
        "services": {},
    },
    "servicemap": {"epoch": 3, "modified": "2026-11-21T12:00:00.000000+0000", "services": {}},
    "progress_events": {},
}


def _changed(**parts: dict[str, Any]) -> dict[str, Any]:
    document = copy.deepcopy(HEALTHY)
    for name, part in parts.items():
        document[name].update(part)
    return document


def _check(severity: str, message: str, count: int) -> dict[str, Any]:
    return {
        "severity": severity,
        "summary": {"message": message, "count": count},
        "muted": False,
    }


ONE_OSD_DOWN = _changed(
    health={
        "status": "HEALTH_WARN",
        "checks": {
            "OSD_DOWN": _check("HEALTH_WARN", "1 osds down", 1),
            "OSD_HOST_DOWN": _check("HEALTH_WARN", "1 host (1 osds) down", 1),
            "PG_DEGRADED": _check(
                "HEALTH_WARN",
                "Degraded data redundancy: 5/15 objects degraded (33.333%), 4 pgs degraded",
                9,
            ),
        },
    },
    osdmap={"num_up_osds": 2},
    pgmap={
        "pgs_by_state": [
            {"state_name": "active+undersized", "count": 25},
            {"state_name": "active+undersized+degraded", "count": 4},
            {"state_name": "active+clean", "count": 3},
            {"state_name": "active+clean+scrubbing+deep", "count": 1},
        ],
        "degraded_objects": 5,
        "degraded_total": 15,
        "degraded_ratio": 0.3333333333333333,
    },
)

MON_LOST_NO_MGR = _changed(
    health={
        "status": "HEALTH_WARN",
        "checks": {
            "MGR_DOWN": _check("HEALTH_WARN", "no active mgr", 1),
            "MON_DOWN": _check("HEALTH_WARN", "1/3 mons down, quorum h1,h2", 1),
        },
    },
    mgrmap={"available": False, "num_standbys": 0},
)
MON_LOST_NO_MGR["quorum"] = [0, 1]
MON_LOST_NO_MGR["quorum_names"] = ["h1", "h2"]

# Before the first OSD: the placement-group map has no list of states yet.
NEWBORN = _changed(osdmap={"num_osds": 0, "num_up_osds": 0, "num_in_osds": 0})
NEWBORN["pgmap"] = {
    "num_pgs": 0,
    "num_pools": 0,
    "bytes_used": 0,
    "bytes_avail": 0,
    "bytes_total": 0,
}

MON_DUMP = {
    "epoch": 1,
    "fsid": HEALTHY["fsid"],
    "mons": [{"rank": rank, "name": name} for rank, name in enumerate(("h1", "h2", "h3"))],
    "quorum": [0, 1, 2],
}

DF_DETAIL = {
    "stats": {"total_bytes": 64424509440, "total_avail_bytes": 64339509248},
    "pools": [
        {"name": ".mgr", "id": 1, "stats": {"stored": 590368, "max_avail": 20374892544}},
        {"name": "databases", "id": 2, "stats": {"stored": 19, "max_avail": 20374892544}},
    ],
}

IMAGE_INFO = {
    "name": "shop",
    "id": "10a4f3c2b1d0",
    "size": 4294967296,
    "objects": 1024,
    "order": 22,
    "object_size": 4194304,
    "snapshot_count": 0,
    "block_name_prefix": "rbd_data.10a4f3c2b1d0",
    "format": 2,
    "features": ["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten"],
    "op_features": [],
    "flags": [],
}
