"""Volumes taken away from a host that is lost, and what is left of them there later on."""

from __future__ import annotations

from grampus.ceph.cluster import CephCluster
from grampus.ceph.lost_osds import (
    OsdPlace,
    ensure_osds_down,
    parse_mon_places,
    parse_osds_at,
)
from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.hosts.port import Fleet
from grampus.volumes import kinds
from grampus.volumes.attaching import Attacher
from grampus.volumes.creating import Creating
from grampus.volumes.fencing import Fencing
from grampus.volumes.local_logs import local_directory
from grampus.volumes.model import VolumeRecord, VolumeSpec
from grampus.volumes.operations import VolumeOperations
from grampus.volumes.records import VolumeRecords

# Ends with 0 at the first port of $0 that accepts; nobody answers for a host that is lost.
_ANY_ANSWERS = 'for port; do (exec 3<>"/dev/tcp/$0/$port") 2>/dev/null && exit 0; done; exit 1'
ANSWER_TIMEOUT_S = "2"


class Takeovers:
    """Takeovers of the volumes of one lab or cluster."""

    def __init__(
        self,
        records: VolumeRecords,
        fleet: Fleet,
        cluster: CephCluster,
        fencing: Fencing,
        attacher: Attacher,
        creating: Creating,
        operations: VolumeOperations,
        progress: Progress,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._cluster = cluster
        self._fencing = fencing
        self._attacher = attacher
        self._creating = creating
        self._operations = operations
        self._progress = progress

    def hurry(self, host: str, *, is_silent: bool = False, is_cut: bool = False) -> None:
        """Spare whoever needs the cluster the wait for OSDs of a host that is lost.

        They are taken for down if neither the host nor any of them can be reached. With `is_silent`
        other hosts have found that it does not answer them, a moment ago. With `is_cut` commands
        run on the host, and it reaches no MON: its OSDs are asked from another host. What fails
        here costs no more than that wait.
        """
        if self._fleet.is_reachable(host) and not is_cut:
            return
        try:
            osds = parse_osds_at(self._cluster.ask("osd dump"), self._fleet.host(host).address)
            if osds and (is_silent or not self._answers(host, osds)):
                names = ", ".join(f"osd.{osd.id}" for osd in osds)
                ensure_osds_down(self._cluster.runner, osds)
                self._progress.note(
                    f"{names} on {host} cannot be reached: Ceph works without them."
                )
        except GrampusError as error:
            self._progress.note(f"Ceph waits for the OSDs of {host}: {error.problem}")

    def mon_places(self) -> tuple[str, ...]:
        """Where the MONs are, as `ADDRESS:PORT`. Raises GrampusError unless they have a quorum."""
        return parse_mon_places(self._cluster.ask("mon dump"))

    def find_needed_log(self, name: str) -> str | None:
        """The host whose log may hold commits that the cluster lacks, if there is one.

        Raises NotFoundError, and GrampusError when the cluster does not answer.
        """
        return self._fencing.find_needed_log(name)

    def ensure_fenced(self, name: str, host: str) -> None:
        """Take the volume away from `host`, which is not asked, if it may be attached there.

        The fence is confirmed when this returns. A log there that may hold commits is given up.
        Interrupted, the next command finishes it. Raises NotFoundError, RefusedError with code
        `in-use`, and GrampusError with code `not-fenced` or `timeout`.
        """
        self._records.get(name)
        with self._operations.locked(name):
            # What else was interrupted may need the host that this is to do without.
            self._operations.settle(name, only=kinds.FENCE)
            record = self._records.get(name)
            if record.host != host and (
                record.host is not None or self._fencing.find_needed_log(name) != host
            ):
                return
            order = self._fencing.plan(name, is_lost=True)
            if order is not None:
                self._operations.run(kinds.FENCE, order)

    def ensure_absent(self, name: str, meant: VolumeSpec) -> None:
        """The volume that is meant removed for good; what fences left on hosts that are away stays.

        The caller has noted that (`ensure_left_cleared`). Raises RefusedError with code
        `has-clones`.
        """
        if self._records.find(name) is not None:
            with self._operations.locked(name):
                self._creating.ensure_absent(name, meant, leaves_lost=True)

    def _answers(self, host: str, osds: list[OsdPlace]) -> bool:
        """Whether one of the OSDs is there, as seen from a host that can be reached."""
        others = [other for other in self._fleet.hosts() if other.name != host]
        places = [other for other in others if self._fleet.is_reachable(other.name)]
        if not places:
            return True  # nobody knows
        ports = [str(port) for osd in osds for port in osd.ports]
        argv = ["timeout", ANSWER_TIMEOUT_S, "bash", "-c", _ANY_ANSWERS]
        asked = places[0].run([*argv, self._fleet.host(host).address, *ports], check=False)
        return asked.returncode == 0

    def ensure_cleared(self, name: str) -> None:
        """Clear what fences of the volume left on hosts that can be reached; what stays is said."""
        record = self._records.find(name)
        if record is not None and record.fenced:
            with self._operations.locked(name):
                self._attacher.clear_all_fenced(self._records.get(name))

    def ensure_left_cleared(self, volume: VolumeRecord, host: str) -> bool:
        """Clear on `host` what a fence left of a volume that is gone by now; whether all is.

        What cannot be cleared is said. Raises HostUnreachableError.
        """
        place, is_clear = self._fleet.host(host), True
        for left in volume.fenced:
            if left.host != host:
                continue
            try:
                self._attacher.clear_fenced(volume, place, left, busy_timeout_s=0)
            except GrampusError as error:
                self._progress.note(
                    f"The remains on {host} from before the fence are kept: {error.problem}"
                )
                is_clear = False
        if any(log.host == host for log in volume.local_logs):
            directory = str(local_directory(place, volume.spec.name))
            place.run(["rm", "-rf", "--one-file-system", directory])
        return is_clear
