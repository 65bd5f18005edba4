"""Waiting for a lab's cluster, with the daemon that ended as the reason when it is in vain."""

from __future__ import annotations

from collections.abc import Callable

from grampus.ceph.cluster import CephCluster, ClusterStatus
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.hosts.lab_host import LabFleet

# A benchmark has set them while it measures. Those of one that was killed go with the next one, and
# not by waiting.
_SCRUB_FLAGS = frozenset({"noscrub", "nodeep-scrub"})


def is_well(status: ClusterStatus) -> bool:
    """Whether nothing is wrong with the cluster but that it does not scrub. Pure."""
    return status.health == "HEALTH_OK" or (
        status.health == "HEALTH_WARN"
        and bool(status.checks)
        and all(_is_scrubs_off(check) for check in status.checks)
    )


def _is_scrubs_off(check: str) -> bool:
    """Of `CODE: SENTENCE`, which is `noscrub,nodeep-scrub flag(s) set` (OSDMap::check_health)."""
    code, _, sentence = check.partition(": ")
    flags = sentence.removesuffix(" flag(s) set").split(",")
    return code == "OSDMAP_FLAGS" and _SCRUB_FLAGS.issuperset(flags)


class ClusterWaits:
    """Waits of one lab."""

    def __init__(self, fleet: LabFleet, cluster: CephCluster, clock: Clock) -> None:
        self._fleet = fleet
        self._cluster = cluster
        self._clock = clock

    def until(
        self, condition: Callable[[], bool], what: str, daemons: str, *, timeout_s: float
    ) -> None:
        """Wait; a failure names one of the daemons (their names' beginning) that have ended."""
        try:
            wait_until(self._clock, condition, what=what, timeout_s=timeout_s, interval_s=0.3)
        except GrampusError as error:
            if error.code != "timeout":
                raise
            raise GrampusError(
                f"{error.problem} {self._why(daemons)}".strip(),
                "`grampus lab status` shows the daemons. `grampus lab up` continues the start.",
                code="timeout",
            ) from error

    def until_healthy(self, *, timeout_s: float = 120) -> None:
        """HEALTH_OK but for scrubs that are off, with every placement group clean."""
        self.until(self._is_healthy, "the cluster to be healthy", "", timeout_s=timeout_s)

    def until_clean(self, *, timeout_s: float = 120) -> None:
        """Every placement group active and clean, whatever else health complains of."""
        self.until(self._is_clean, "the placement groups to be clean", "osd-", timeout_s=timeout_s)

    def _is_clean(self) -> bool:
        return self._are_groups_clean(self._cluster.observe_status())

    def _is_healthy(self) -> bool:
        status = self._cluster.observe_status()
        if not is_well(status) or not self._are_groups_clean(status):
            return False
        # An OSD that was away for seconds is up again before the MONs hear of the groups that miss
        # it. The next loss would be one too many, while the cluster seems to be whole.
        return self._cluster.count_unclean_groups() == 0

    def _are_groups_clean(self, status: ClusterStatus) -> bool:
        # The MGR counts groups, and hears of a new pool's seconds after the MONs have made it.
        made = sum(
            int(pool["pg_num"]) for pool in self._cluster.query("osd", "pool", "ls", "detail")
        )
        return status.placement_groups_clean == status.placement_groups == made > 0

    def _why(self, daemons: str) -> str:
        stopped = [
            f"{status.name} on {host.name} ended: {host.daemon_log(status.name, last_lines=1)}"
            for host in self._fleet.hosts()
            for status in host.observe_daemons()
            # After a restart those of later steps have ended too, and are not to blame.
            if status.state != "running" and status.name.startswith(daemons)
        ]
        if stopped:
            return stopped[0]
        result = self._cluster.ceph("health", check=False)
        return f"Its message: {result.stdout.strip()}." if result.returncode == 0 else ""
