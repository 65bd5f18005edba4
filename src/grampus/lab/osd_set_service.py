"""The OSD sets of a lab, added and removed as journaled operations."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from grampus.ceph.cluster import MIN_OSD_MEMORY_TARGET_MIB, CephCluster, explain_no_filestore
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError, UsageError, not_found
from grampus.core.names import require_name
from grampus.core.units import MIB, format_bytes
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.media import WalDbMediaName
from grampus.lab.model import MAX_OSDS_PER_HOST, MIN_OSD_SIZE_BYTES, LabSpec
from grampus.lab.operation_kinds import (
    ADD_NEW_OSD_SET,
    ADD_OSD_SET,
    REMOVE_OSD_SET,
    OsdSetSteps,
)
from grampus.lab.osd_plans import WAL_DB_BYTES, decide_set_hosts
from grampus.lab.osd_set import OSD_SET_RECORD, OsdSet, find_osd_sets
from grampus.lab.osd_sets import LabOsdSet
from grampus.lab.osds import LabOsds, object_store
from grampus.lab.waiting import ClusterWaits
from grampus.operations.operation_type import OperationType
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.operations import Operation, Step
from grampus.state.store import Store

# Beside the names of the CRUSH map and of pools that are made of it (`h1-NAME`).
MAX_SET_NAME_LENGTH = 24
# The names of pools with fewer copies: `databases-1-copy`, `databases-2-copies`.
_COPIES_NAME = re.compile(r"\d+-cop(y|ies)")
MAX_SET_OSDS_PER_HOST = 2 * MAX_OSDS_PER_HOST
MIN_THREAD_CACHE_MIB, MAX_THREAD_CACHE_MIB = 1, 4096
MAX_MEMORY_TARGET_MIB = 65536


@dataclass(frozen=True)
class OsdSetView:
    """A set as observed: its OSDs by id with whether each is up, and the pools on them."""

    osd_set: OsdSet
    osds: dict[int, bool]
    pools: tuple[str, ...]
    unfinished: str | None  # the operation that was cut off

    @property
    def state(self) -> str:
        """up (all OSDs are), degraded, down, or what was begun and not finished."""
        if self.unfinished is not None:
            return self.unfinished
        if self.osds and all(self.osds.values()):
            return "up"
        return "degraded" if any(self.osds.values()) else "down"


def require_possible(osd_set: OsdSet, lab: LabSpec, *, machine_cores: int) -> OsdSet:
    """The set, if the lab can have it. Raises UsageError otherwise."""
    require_name("OSD set", osd_set.name)
    if len(osd_set.name) > MAX_SET_NAME_LENGTH or _COPIES_NAME.fullmatch(osd_set.name):
        raise UsageError(
            f"'{osd_set.name}' is not available as the name of an OSD set.",
            f"Use at most {MAX_SET_NAME_LENGTH} characters, and not a name such as 2-copies.",
            code="invalid-name",
        )
    if min(osd_set.devices_per_host, osd_set.osds_per_device) < 1 or (
        osd_set.osds_per_host > MAX_SET_OSDS_PER_HOST
    ):
        raise UsageError(
            f"A host has 1 to {MAX_SET_OSDS_PER_HOST} OSDs of a set, not {osd_set.osds_per_host}.",
            "Choose --devices-per-host and --osds-per-device accordingly.",
        )
    cores = osd_set.cores_per_host
    if cores is not None and not 0.1 * osd_set.osds_per_host <= cores <= machine_cores:
        raise UsageError(
            f"{osd_set.osds_per_host} OSDs of a host cannot have {cores:g} cores: this machine has "
            f"{machine_cores}.",
            "Choose at least a tenth of a core for each OSD, and no more than the machine has.",
        )
    cache = osd_set.thread_cache_mib
    if cache is not None and not MIN_THREAD_CACHE_MIB <= cache <= MAX_THREAD_CACHE_MIB:
        raise UsageError(
            f"A thread cache of {cache} MiB is not supported.",
            f"Choose {MIN_THREAD_CACHE_MIB} to {MAX_THREAD_CACHE_MIB} MiB.",
        )
    target = osd_set.memory_target_mib
    if target is not None and not MIN_OSD_MEMORY_TARGET_MIB <= target <= MAX_MEMORY_TARGET_MIB:
        raise UsageError(
            f"A memory target of {target} MiB is not supported.",
            f"Choose {MIN_OSD_MEMORY_TARGET_MIB} to {MAX_MEMORY_TARGET_MIB} MiB.",
        )
    most, least = len(lab.osd_hosts), lab.copies if osd_set.has_pool else 1
    if osd_set.hosts is not None and not least <= osd_set.hosts <= most:
        copies = f", and the pool of the set needs {least} for its copies"
        raise UsageError(
            f"A set cannot be on {osd_set.hosts} hosts: {most} hosts of the lab have OSDs"
            f"{copies if osd_set.has_pool else ''}.",
            f"Choose {least} to {most}, or leave --hosts out for all.",
        )
    object_store(osd_set.objectstore)
    return osd_set


def require_room(osd_set: OsdSet, hosts: int, free_bytes: int) -> None:
    """Raise GrampusError (`disk-too-small`) unless the set's sparse files may all grow full."""
    each_bytes = osd_set.size_bytes + _wal_db_bytes(osd_set.wal_db_media)
    osds = hosts * osd_set.osds_per_host
    if osds * each_bytes > free_bytes * 8 // 10:
        raise GrampusError(
            f"{osds} OSDs of {format_bytes(each_bytes)} do not fit: "
            f"{format_bytes(free_bytes)} are free on the disk.",
            "Free space, or choose fewer or smaller OSDs (--size).",
            code="disk-too-small",
        )


class OsdSetService:
    """The sets of one lab. The caller holds the lab, which is up."""

    def __init__(
        self,
        lab: LabSpec,
        home: Home,
        store: Store,
        runner: OperationRunner,
        fleet: LabFleet,
        clock: Clock,
    ) -> None:
        self._lab = lab
        self._home = home
        self._store = store
        self._runner = runner
        self._fleet = fleet
        self._clock = clock

    def all(self) -> list[OsdSet]:
        """Every set of the lab by name, also those that are leaving."""
        return find_osd_sets(self._store, self._lab.name)

    def find(self, name: str) -> OsdSet | None:
        """The set of that name, or None."""
        return self._store.get(OSD_SET_RECORD, self._lab.name, name, OsdSet)

    def get(self, name: str) -> OsdSet:
        """The set of that name. Raises NotFoundError with a suggestion."""
        found = self.find(name)
        if found is None:
            known = [one.name for one in self.all()]
            raise not_found("OSD set", name, known, list_command="grampus lab osd-set list")
        return found

    def require_addable(self, osd_set: OsdSet) -> None:
        """Raise RefusedError when a set of that name is there and another, or is leaving, or when
        the lab's Ceph has no such object store.
        """
        found = self.find(osd_set.name)
        if found is None:
            self._require_object_store(osd_set)
            return
        if found.is_leaving:
            raise RefusedError(
                f"The removal of the OSD set '{osd_set.name}' was interrupted.",
                f"Finish it first: `grampus lab osd-set remove {osd_set.name}`.",
                code="leaving",
            )
        if found != osd_set:
            raise RefusedError(
                f"Another OSD set named '{osd_set.name}' already exists.",
                "Choose another name, or remove the other set first.",
                code="name-taken",
            )

    def _require_object_store(self, osd_set: OsdSet) -> None:
        if osd_set.objectstore == "filestore":
            cluster = CephCluster(AnyReachableHost(self._fleet))
            why = explain_no_filestore(cluster.observe_versions().split()[0])
            if why is not None:
                raise RefusedError(
                    f"{why}.",
                    "Create another lab for it: `grampus lab up --lab NAME --image bookworm`.",
                    code="no-filestore",
                )

    def require_room(self, osd_set: OsdSet) -> None:
        """Raise GrampusError (`disk-too-small`) unless its files may all grow full."""
        if self.find(osd_set.name) is None:
            free_bytes = shutil.disk_usage(self._home.root).free
            require_room(osd_set, len(decide_set_hosts(self._lab, osd_set)), free_bytes)

    def add(self, osd_set: OsdSet) -> None:
        """The set, with all its OSDs up. What fails is undone, unless the set was there before.

        Raises RefusedError as `require_addable`, and GrampusError.
        """
        self.require_addable(osd_set)
        # One that was cut off never was a whole set; one without that may be in use.
        is_new = self.find(osd_set.name) is None or bool(self._unfinished(osd_set.name))
        self._run(ADD_NEW_OSD_SET if is_new else ADD_OSD_SET, osd_set)

    def remove(self, name: str) -> None:
        """The set gone with all its OSDs; cut off, it is called again.

        Raises NotFoundError, and RefusedError (`in-use`) while images or pools are on it.
        """
        osd_set = self.get(name)
        if not osd_set.is_leaving:
            self._set(osd_set).require_removable()
        self._run(REMOVE_OSD_SET, osd_set)

    def observe(self) -> list[OsdSetView]:
        """Every set as it is now; of a lab that is down, what it would have.

        Raises GrampusError when the cluster of one that is up does not answer.
        """
        is_up = any(host.is_up() for host in self._fleet.lab_hosts())
        return [self._view(osd_set, is_up=is_up) for osd_set in self.all()]

    def lift_limits(self, name: str) -> None:
        """The set's devices are as fast as the machine's, until `impose_limits` or the next start.

        Raises NotFoundError.
        """
        self._set(self.get(name)).lift_limits()

    def impose_limits(self, name: str) -> None:
        """The set's devices are limited as their media; what was written before is on them."""
        self._set(self.get(name)).impose_limits()

    def ensure_all(self) -> None:
        """The OSDs of every set running; what is half removed, gone. For a lab that comes up."""
        for osd_set in self.all():
            one = self._set(osd_set)
            # Nobody can look into a pool before its OSDs run: with one, the removal waits.
            if osd_set.is_leaving and not one.observe_pools():
                one.finish_leaving(self._forgetting(osd_set))
            else:
                one.ensure_rule()
                one.ensure_osds()

    def _view(self, osd_set: OsdSet, *, is_up: bool) -> OsdSetView:
        unfinished = None
        if osd_set.is_leaving:
            unfinished = "leaving"
        elif self._unfinished(osd_set.name):
            unfinished = "unfinished"
        if not is_up:
            return OsdSetView(osd_set, {}, (), unfinished)
        one = self._set(osd_set)
        return OsdSetView(osd_set, one.observe_osds(), tuple(one.observe_pools()), unfinished)

    def _unfinished(self, name: str) -> list[Operation]:
        return self._runner.unfinished("osd-set.", name)

    def _run(self, kind: OperationType[OsdSetSteps, OsdSet], osd_set: OsdSet) -> None:
        unfinished = self._unfinished(osd_set.name)
        self._runner.run(kind, self, osd_set, Subject(osd_set.name), supersedes=unfinished)

    def add_steps(self, osd_set: OsdSet) -> list[Step]:
        """The steps that add the set."""
        return self._set(osd_set).add_steps(lambda: self._keep(osd_set), self._forgetting(osd_set))

    def remove_steps(self, osd_set: OsdSet) -> list[Step]:
        """The steps that remove the set."""
        leaving = osd_set.model_copy(update={"is_leaving": True})
        return self._set(osd_set).remove_steps(
            lambda: self._keep(leaving), self._forgetting(osd_set)
        )

    def _keep(self, osd_set: OsdSet) -> None:
        self._store.put(OSD_SET_RECORD, self._lab.name, osd_set.name, osd_set)

    def _forgetting(self, osd_set: OsdSet) -> Callable[[], None]:
        return lambda: self._store.remove(OSD_SET_RECORD, self._lab.name, osd_set.name)

    def _set(self, osd_set: OsdSet) -> LabOsdSet:
        cluster = CephCluster(AnyReachableHost(self._fleet))
        waits = ClusterWaits(self._fleet, cluster, self._clock)
        osds = LabOsds(self._lab, self._fleet, cluster, waits)
        return LabOsdSet(self._lab, osd_set, cluster, osds, waits)


def _wal_db_bytes(media: WalDbMediaName | None) -> int:
    """What an OSD's device for WAL and DB takes besides."""
    return 0 if media is None else WAL_DB_BYTES


def decide_osd_bytes(
    asked: int | None,
    lab: LabSpec,
    osds: int,
    free_bytes: int,
    wal_db_media: WalDbMediaName | None = None,
) -> int:
    """The size of each OSD of a set: as asked, else that of the first ones or what the disk bears.

    In whole MiB. Raises GrampusError (`disk-too-small`) when the disk bears less than the least.
    """
    if asked is not None:
        return asked // MIB * MIB
    bearable = (free_bytes * 8 // 10 // osds - _wal_db_bytes(wal_db_media)) // MIB * MIB
    if bearable < MIN_OSD_SIZE_BYTES:
        raise GrampusError(
            f"The machine's disk has {format_bytes(free_bytes)} free, too little for {osds} "
            f"more OSDs of at least {format_bytes(MIN_OSD_SIZE_BYTES)}.",
            "Free space, or choose fewer OSDs.",
            code="disk-too-small",
        )
    return min(lab.osd_size_bytes, bearable)
