"""Whether the cluster and its machine are fit to be measured now. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grampus.bench.declared import word_list
from grampus.core.units import GIB, format_bytes
from grampus.databases.growth.decide_growth import FileSystem

# Health checks that change what a client gets, or soon will; flags, also those that a run sets
# itself, are none of them.
UNFIT_CHECKS = (
    "OSD_FULL",
    "OSD_BACKFILLFULL",
    "OSD_NEARFULL",
    "POOL_FULL",
    "POOL_BACKFILLFULL",
    "POOL_NEARFULL",
    "OSD_DOWN",
    "OSD_HOST_DOWN",
    "PG_AVAILABILITY",
    "PG_DAMAGED",
    "PG_DEGRADED",
    "PG_RECOVERY_FULL",
    "PG_BACKFILL_FULL",
    "OBJECT_UNFOUND",
    "OBJECT_MISPLACED",
)
# What OSDs that were filled on purpose make Ceph say: of those that are 87% full together one may
# be above 90%, from where on nothing is moved to it. Whoever writes notices that from 95% on alone.
NEARLY_FULL_CHECKS = frozenset(
    {"OSD_NEARFULL", "POOL_NEARFULL", "OSD_BACKFILLFULL", "POOL_BACKFILLFULL"}
)
_MOVING = frozenset(
    {"degraded", "undersized", "recovering", "recovery_wait", "backfilling", "backfill_wait"}
)
MIN_FREE_SHARE = 0.04
MIN_FREE_BYTES = 2 * GIB


def why_cluster_unfit(
    status: Mapping[str, Any], *, expected: frozenset[str] = frozenset()
) -> str | None:
    """Why nothing measured on the cluster would count, from the document of `ceph status`.

    `expected` are checks that what is measured itself brings about.
    """
    health = status["health"]
    checks: Mapping[str, Any] = health.get("checks", {})
    for code in UNFIT_CHECKS:
        if code in checks and code not in expected:
            return f"The cluster is not well: {_message(checks[code])} ({code})."
    if health["status"] == "HEALTH_ERR":
        errors = [
            f"{_message(check)} ({code})"
            for code, check in checks.items()
            if check.get("severity") == "HEALTH_ERR"
        ]
        return f"The cluster is in HEALTH_ERR: {'; '.join(errors) or 'it does not say why'}."
    moving = sum(
        state["count"]
        for state in status.get("pgmap", {}).get("pgs_by_state", ())
        if _MOVING & set(state["state_name"].split("+"))
    )
    if moving:
        noun = "placement group is" if moving == 1 else "placement groups are"
        return f"The cluster repairs or moves data: {moving} {noun} not clean."
    return None


def parse_osd_starts(dump: Mapping[str, Any]) -> dict[int, int]:
    """Since which epoch each OSD is up without a break, from the document of `ceph osd dump`."""
    return {int(osd["osd"]): int(osd["up_from"]) for osd in dump["osds"] if osd["up"]}


def why_osds_came_back(before: Mapping[int, int], after: Mapping[int, int]) -> str | None:
    """That OSDs fell while it was measured, though all may be well again, as a sentence."""
    fell = [number for number in sorted(before) if after.get(number) != before[number]]
    if not fell:
        return None
    names = word_list([f"osd.{number}" for number in fell], last="and")
    were = "was" if len(fell) == 1 else "were"
    return f"{names} {were} down while it was measured, so its figures do not count."


def why_disk_unfit(total_bytes: int, free_bytes: int) -> str | None:
    """Why the disk under a lab is too full to measure on it."""
    if free_bytes >= MIN_FREE_BYTES and free_bytes >= MIN_FREE_SHARE * total_bytes:
        return None
    return (
        f"The machine's disk is nearly full: {format_bytes(free_bytes)} of "
        f"{format_bytes(total_bytes)} are free."
    )


def why_volumes_full(rooms: Mapping[str, FileSystem]) -> str | None:
    """That databases' volumes are full, as a sentence, from their file systems by database.

    Until a writer needs the next block such a server goes on, so that its figures look like any.
    """
    full = [name for name in sorted(rooms) if rooms[name].is_full]
    if not full:
        return None
    if len(full) == 1:
        room = rooms[full[0]]
        free, size = format_bytes(room.free_bytes), format_bytes(room.size_bytes)
        return f"The volume of {full[0]} is full: {free} of {size} are free."
    return f"The volumes of {word_list(full, last='and')} are full."


def _message(check: Mapping[str, Any]) -> str:
    return str(check["summary"]["message"]).rstrip(".")
