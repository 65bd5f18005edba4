"""Where a benchmark's pools are on somebody's cluster, and how much they may hold. All pure.

The documents are those of `ceph osd tree`, `ceph osd crush rule dump` and `ceph df`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grampus.ceph.erasure_pools import parse_place
from grampus.core.errors import GrampusError, RefusedError, not_found
from grampus.core.units import format_bytes

REPLICATED = 1  # the type of a CRUSH rule
# So many of an OSD's placement groups, all copies counted, are those of one pool of ours: a third
# of what Ceph advises for all pools together.
GROUPS_PER_OSD = 32
MIN_GROUPS = 8
MAX_GROUPS = 256
# Of the room that is left, so much may be written by a benchmark's pool before Ceph stops it.
QUOTA_SHARE = 0.2
# A cluster that is fuller is not the place to write a benchmark's data to.
MAX_USED_SHARE = 0.7
# Of its quota, what environments have at rest: the rest is for what a load writes before it is
# removed.
MAX_ENVIRONMENTS_SHARE = 0.5


@dataclass(frozen=True)
class Placement:
    """A CRUSH rule and what it takes: `domains` of the type `domain`, with `osds` that are up."""

    rule: str
    domain: str
    domains: int
    osds: int
    device_class: str | None


@dataclass(frozen=True)
class Room:
    """Bytes of the OSDs that a rule takes, before copies."""

    total_bytes: int
    available_bytes: int

    @property
    def used_share(self) -> float:
        return 1 - self.available_bytes / self.total_bytes if self.total_bytes else 1.0


def decide_placement(
    rules: Sequence[Mapping[str, Any]], tree: Mapping[str, Any], *, asked: str | None
) -> Placement:
    """The rule `asked` for; None: the replicated one of the lowest id, as Ceph itself chooses.

    Raises NotFoundError when there is no such rule, GrampusError when the cluster has none at all.
    """
    replicated = {
        str(rule["rule_name"]): rule
        for rule in sorted(rules, key=lambda one: int(one["rule_id"]))
        if rule["type"] == REPLICATED
    }
    if not replicated:
        raise GrampusError(
            "The cluster has no CRUSH rule for replicated pools.",
            "Make one: `ceph osd crush rule create-replicated NAME default host`.",
            code="no-rule",
        )
    name = next(iter(replicated)) if asked is None else asked
    if name not in replicated:
        raise not_found(
            "CRUSH rule for replicated pools",
            name,
            replicated,
            list_command="ceph osd crush rule ls",
        )
    rule = dict(replicated[name])
    root, device_class = parse_place(rule)
    choosing = [step for step in rule["steps"] if str(step["op"]).startswith("choose")]
    domain = str(choosing[-1]["type"]) if choosing else "osd"
    domains, osds = _count(tree, root, domain, device_class)
    return Placement(name, domain, domains, osds, device_class)


def decide_groups(placement: Placement, copies: int) -> int:
    """Placement groups of a pool: a power of two."""
    wanted = GROUPS_PER_OSD * placement.osds / copies
    groups = MIN_GROUPS
    while groups * 2 <= min(wanted, MAX_GROUPS):
        groups *= 2
    return groups


def parse_room(df: Mapping[str, Any], device_class: str | None) -> Room:
    """The room of OSDs of one device class; None: of all."""
    stats = df["stats"] if device_class is None else df.get("stats_by_class", {}).get(device_class)
    if stats is None:
        return Room(0, 0)
    return Room(int(stats["total_bytes"]), int(stats["total_avail_bytes"]))


def decide_quota_bytes(room: Room, copies: int) -> int:
    """What a pool may hold, of data. Raises RefusedError (`cluster-full`) on a cluster that has
    little room left for its own."""
    if room.used_share > MAX_USED_SHARE:
        raise RefusedError(
            f"The OSDs are {100 * room.used_share:.0f}% full, and a benchmark writes to them only "
            f"up to {100 * MAX_USED_SHARE:.0f}%.",
            "Free space on the cluster, or add OSDs.",
            code="cluster-full",
        )
    return int(room.available_bytes * QUOTA_SHARE / copies)


def require_room(needed_bytes: int, quota_bytes: int) -> None:
    """Raise RefusedError (`cluster-full`) unless `needed_bytes` of data, before copies, can lie in
    pools of that quota with room for what a load writes."""
    most_bytes = int(quota_bytes * MAX_ENVIRONMENTS_SHARE)
    if needed_bytes > most_bytes:
        raise RefusedError(
            f"The cells need {format_bytes(needed_bytes)} for their data, and a benchmark takes "
            f"{format_bytes(most_bytes)} of this cluster's space for that.",
            "Measure at a smaller scale, or on a cluster with more space.",
            code="cluster-full",
        )


def _count(
    tree: Mapping[str, Any], root: str, domain: str, device_class: str | None
) -> tuple[int, int]:
    """Buckets of the type `domain` below `root` that have OSDs up, and these OSDs."""
    nodes = {node["id"]: node for node in tree["nodes"]}
    top = next((node for node in tree["nodes"] if node["name"] == root), None)
    if top is None:
        return 0, 0

    def osds_below(node: Mapping[str, Any]) -> set[int]:
        if node["type"] == "osd":
            is_of_class = device_class in (None, node.get("device_class"))
            is_used = node.get("status") == "up" and float(node.get("reweight", 0)) > 0
            return {node["id"]} if is_of_class and is_used else set()
        return {
            osd
            for child in node.get("children", ())
            if child in nodes
            for osd in osds_below(nodes[child])
        }

    def domains_below(node: Mapping[str, Any]) -> int:
        if node["type"] == domain:
            return 1 if osds_below(node) else 0
        return sum(domains_below(nodes[one]) for one in node.get("children", ()) if one in nodes)

    return domains_below(top), len(osds_below(top))
