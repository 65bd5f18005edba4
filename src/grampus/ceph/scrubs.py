"""Deep scrubs: all copies of a placement group read and compared, and repaired."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Literal

from pydantic import ConfigDict

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.placement_groups import PoolPlacement
from grampus.core.errors import GrampusError
from grampus.core.models import Model

ScrubKind = Literal["deep-scrub", "repair"]
# One connection for all of them: `ceph pg deep-scrub` takes a quarter of a second each.
REQUEST_SCRUBS = f"""
{CONNECT}
import json, sys
with connect() as cluster:
    for group in sys.argv[2:]:
        command = {{"prefix": "pg " + sys.argv[1], "pgid": group}}
        code, _, said = cluster.mgr_command(json.dumps(command), b"")
        if code:
            sys.exit("%s: %s" % (group, said))
"""
NO_SCRUB_FLAGS = ("noscrub", "nodeep-scrub")


class ScrubbedGroup(Model):
    """A placement group as it last reported."""

    model_config = ConfigDict(frozen=True)

    id: str
    state: str  # words joined by `+`, such as `active+clean`
    acting: tuple[int, ...]  # OSDs that hold its copies, the primary first
    deep_scrub_stamp: str  # changes with every deep scrub, and with every repair

    @property
    def is_clean(self) -> bool:
        """All copies are there. It may be damaged all the same."""
        return {"active", "clean"} <= set(self.state.split("+"))

    @property
    def is_scrubbing(self) -> bool:
        """A scrub or a repair of it goes on."""
        return "scrubbing" in self.state.split("+")

    @property
    def is_inconsistent(self) -> bool:
        """Its last scrub found copies that differ or cannot be read."""
        return "inconsistent" in self.state.split("+")


class DamagedCopy(Model):
    """What is wrong with one OSD's copy of an object."""

    model_config = ConfigDict(frozen=True)

    osd: int
    errors: tuple[str, ...]  # Ceph's own words, such as `read_error`


class DamagedObject(Model):
    """An object whose copies are not all alike, as the last scrub saw it."""

    model_config = ConfigDict(frozen=True)

    group: str
    namespace: str = ""  # of the pool; the default one
    name: str
    snapshot: str  # `head`, or the cluster's number of a snapshot
    errors: tuple[str, ...]  # of the object as a whole: its copies contradict one another
    damaged: tuple[DamagedCopy, ...]
    good_osds: tuple[int, ...]  # whose copy nothing is said against


class Scrubs:
    """Scrubs of one cluster."""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster

    def placement(self, pool: str) -> PoolPlacement:
        """What decides where the pool's objects go. Raises GrampusError without such a pool."""
        document = self._cluster.query("osd", "pool", "get", pool, "all")
        return PoolPlacement(pool_id=document["pool_id"], placement_groups=document["pg_num"])

    def forbidding_flags(self, pools: Collection[str]) -> list[str]:
        """Flags that somebody set to keep scrubs away, of the cluster and of these pools."""
        dump = self._cluster.query("osd", "dump")
        found = [flag for flag in NO_SCRUB_FLAGS if flag in dump["flags_set"]]
        for pool in dump["pools"]:
            flags = pool["flags_names"].split(",")
            if pool["pool_name"] in pools:
                found += [f"{f} of {pool['pool_name']}" for f in NO_SCRUB_FLAGS if f in flags]
        return found

    def observe(self, groups: Collection[str]) -> dict[str, ScrubbedGroup]:
        """These groups as they last reported, by id; one that is not there is left out."""
        return {
            group.id: group
            for group in parse_groups(self._cluster.ask("pg dump", to="mgr", dumpcontents=["pgs"]))
            if group.id in groups
        }

    def request(self, kind: ScrubKind, groups: Collection[str]) -> None:
        """Ask for a deep scrub, or a repair, of each. The cluster does it when it comes to it."""
        if groups:
            argv = ["python3", "-c", REQUEST_SCRUBS, kind, *sorted(groups)]
            self._cluster.runner.run(argv, timeout_s=120)

    def damaged_objects(self, group: str) -> list[DamagedObject]:
        """What the group's last deep scrub found. Raises GrampusError if it has had none lately."""
        argv = ["rados", "list-inconsistent-obj", group, "--format", "json"]
        output = self._cluster.runner.run(argv, timeout_s=60)
        try:
            document = json.loads(output.stdout)
        except ValueError as error:
            raise GrampusError(
                f"The damaged objects in the placement group {group} are unknown.",
                "Scrub the placement group again.",
                code="no-scrub-information",
            ) from error
        return parse_damaged(group, document)


def parse_groups(document: Any) -> list[ScrubbedGroup]:
    """The groups of `ceph pg dump pgs`."""
    stats = document["pg_stats"] if isinstance(document, dict) else document
    return [
        ScrubbedGroup(
            id=group["pgid"],
            state=group["state"],
            acting=tuple(group["acting"]),
            deep_scrub_stamp=group["last_deep_scrub_stamp"],
        )
        for group in stats
    ]


def parse_damaged(group: str, document: Mapping[str, Any]) -> list[DamagedObject]:
    """The objects of `rados list-inconsistent-obj`, by name."""
    found = []
    for entry in document["inconsistents"]:
        shards = entry["shards"]
        found.append(
            DamagedObject(
                group=group,
                namespace=entry["object"].get("nspace", ""),
                name=entry["object"]["name"],
                snapshot=str(entry["object"]["snap"]),
                errors=tuple(entry["errors"]),
                damaged=tuple(
                    DamagedCopy(osd=shard["osd"], errors=tuple(shard["errors"]))
                    for shard in shards
                    if shard["errors"]
                ),
                good_osds=tuple(shard["osd"] for shard in shards if not shard["errors"]),
            )
        )
    return sorted(found, key=lambda one: (one.namespace, one.name, one.snapshot))
