"""The OSD sets of a lab: the steps that make one and take it away; each may be repeated.

A set's OSDs stand under a CRUSH root of their own, so that no pool of the lab has a copy on them
but those whose rule begins there (ADR 27).
"""

from __future__ import annotations

from collections.abc import Callable

from grampus.ceph.cluster import CephCluster
from grampus.ceph.journal_objects import count_journals
from grampus.ceph.pools import count_images, ensure_empty_pool_absent
from grampus.core.errors import RefusedError
from grampus.lab.bootstrap import decide_placement_groups
from grampus.lab.model import LabSpec
from grampus.lab.osd_plans import decide_set_hosts, decide_set_osds
from grampus.lab.osd_set import OsdSet, describe_osd_set
from grampus.lab.osds import LabOsds
from grampus.lab.waiting import ClusterWaits
from grampus.state.operations import Step

# More take longer to peer than such a set is used for.
MAX_SET_PLACEMENT_GROUPS = 256


class LabOsdSet:
    """One set of a lab that is up."""

    def __init__(
        self,
        lab: LabSpec,
        osd_set: OsdSet,
        cluster: CephCluster,
        osds: LabOsds,
        waits: ClusterWaits,
    ) -> None:
        self._lab = lab
        self._set = osd_set
        self._plans = decide_set_osds(lab, osd_set)
        self._cluster = cluster
        self._osds = osds
        self._waits = waits

    def add_steps(self, keep_record: Callable[[], None], forget: Callable[[], None]) -> list[Step]:
        """The set, from whatever state it is in."""
        name, count = self._set.name, len(self._plans)
        steps = [
            Step("record", f"Record the OSD set {name}", keep_record, forget),
            Step(
                "crush", "Create its CRUSH root and rule", self.ensure_rule, self.ensure_rule_absent
            ),
            Step(
                "osds",
                f"Start {count} OSDs ({describe_osd_set(self._set)} on each host)",
                self.ensure_osds,
                self.ensure_osds_absent,
            ),
        ]
        if self._set.has_pool:
            pool = f"Create the pool {self._set.pool}"
            steps.append(Step("pool", pool, self.ensure_pool, self.ensure_pool_absent))
        return [*steps, Step("clean", "Wait for placement groups", self._waits.until_clean)]

    def remove_steps(
        self, keep_leaving: Callable[[], None], forget: Callable[[], None]
    ) -> list[Step]:
        """The set gone. Its pool must be empty, and no other pool on its OSDs."""
        name, count = self._set.name, len(self._plans)
        steps = [Step("record", f"Record the removal of the OSD set {name}", keep_leaving)]
        if self._set.has_pool:
            pool = f"Remove the pool {self._set.pool}"
            steps.append(Step("pool", pool, self.ensure_pool_absent))
        return [
            *steps,
            Step("osds", f"Remove its {count} OSDs", self.ensure_osds_absent),
            Step("crush", "Remove its CRUSH rule and root", self.ensure_rule_absent),
            Step("forget", f"Delete the record of the OSD set {name}", forget),
        ]

    def ensure_rule(self) -> None:
        root = self._set.crush_root
        self._cluster.ceph("osd", "crush", "add-bucket", root, "root")
        self._cluster.ceph(
            *("osd", "crush", "rule", "create-replicated", self._set.crush_rule, root, "host")
        )

    def ensure_rule_absent(self) -> None:
        self._cluster.ceph("osd", "crush", "rule", "rm", self._set.crush_rule)
        # A bucket that is not there is none to complain of; one that is not empty is.
        for host in decide_set_hosts(self._lab, self._set):
            self._cluster.ceph("osd", "crush", "rm", self._set.crush_host(host))
        self._cluster.ceph("osd", "crush", "rm", self._set.crush_root)

    def ensure_osds(self) -> None:
        self._osds.ensure(self._plans, what=f"the OSDs of the set {self._set.name}")

    def ensure_osds_absent(self) -> None:
        """Raises RefusedError (`in-use`) while a pool is on them."""
        self.require_unused(own_pool=False)
        self._osds.ensure_absent(self._plans)

    def ensure_pool(self) -> None:
        self._cluster.ensure_pool(
            self._set.pool,
            placement_groups=decide_set_placement_groups(len(self._plans), self._lab.copies),
            copies=self._lab.copies,
            min_size=self._lab.min_size,
            rule=self._set.crush_rule,
        )

    def ensure_pool_absent(self) -> None:
        """Raises RefusedError with code `in-use` or `osds-down`."""
        if not ensure_empty_pool_absent(self._cluster, self._set.pool):
            self.require_removable()

    def require_removable(self) -> None:
        """Raise RefusedError: `in-use` while images or other pools are on the set, `osds-down`
        while an OSD of the cluster is down and nobody can say whether there are images.
        """
        self.require_unused(own_pool=True)
        if self._set.pool not in self.observe_pools():
            return
        status = self._cluster.observe_status()
        if status.osds_up < status.osds:
            raise RefusedError(
                f"{status.osds - status.osds_up} of {status.osds} OSDs are down, so the "
                f"contents of the pool {self._set.pool} are unknown.",
                "Start them first: `grampus lab fault heal`.",
                code="osds-down",
            )
        if count_images(self._cluster, self._set.pool):
            raise RefusedError(
                f"The pool {self._set.pool} has images.",
                "Remove or migrate the images first (`grampus volume list`).",
                code="in-use",
            )
        if count_journals(self._cluster, self._set.pool):
            raise RefusedError(
                f"The pool {self._set.pool} has journals of volumes in other pools.",
                "Move the journals first (`grampus db set NAME --journal-pool POOL`), or delete "
                "their volumes, also from the trash (`grampus db trash list`).",
                code="in-use",
            )

    def require_unused(self, *, own_pool: bool) -> None:
        """Raise RefusedError (`in-use`) when pools stand on its OSDs; its own may if `own_pool`."""
        others = [pool for pool in self.observe_pools() if not own_pool or pool != self._set.pool]
        if others:
            raise RefusedError(
                f"The OSD set {self._set.name} has the pool{'s' if len(others) > 1 else ''} "
                f"{', '.join(others)}.",
                "Remove these pools first. Pools of a benchmark are removed at its end.",
                code="in-use",
            )

    def observe_pools(self) -> list[str]:
        """The pools whose rule is the set's."""
        rules = {
            rule["rule_name"]: rule["rule_id"]
            for rule in self._cluster.query("osd", "crush", "rule", "dump")
        }
        rule_id = rules.get(self._set.crush_rule)
        return sorted(
            pool["pool_name"]
            for pool in self._cluster.query("osd", "pool", "ls", "detail")
            if rule_id is not None and pool["crush_rule"] == rule_id
        )

    def lift_limits(self) -> None:
        self._osds.lift_limits(self._plans)

    def impose_limits(self) -> None:
        self._osds.impose_limits(self._plans)

    def observe_osds(self) -> dict[int, bool]:
        """Its OSDs by id: whether each is up."""
        return self._osds.observe(self._plans)

    def finish_leaving(self, forget: Callable[[], None]) -> None:
        """Go on with a removal that was cut off. Raises as `ensure_pool_absent`."""
        for step in self.remove_steps(lambda: None, forget):
            step.apply()


def decide_set_placement_groups(osds: int, copies: int) -> int:
    """Placement groups of one of the pools of a set: sets of many OSDs have short lives."""
    return min(MAX_SET_PLACEMENT_GROUPS, decide_placement_groups(osds, copies))
