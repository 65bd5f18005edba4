"""The composition root, of the OSDs under a benchmark's cells: sets of a lab, and pools on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any

from grampus.bench.counters import parse_memory
from grampus.bench.environments.offers import OSD_BYTES
from grampus.bench.environments.osd_needs import OsdFill, OsdNeeds, PlaceOsds
from grampus.ceph.pools import ensure_pool_of_copies
from grampus.cli.composition.osd_sets import lab_osd_sets
from grampus.cli.composition.session import Session
from grampus.core.errors import RefusedError
from grampus.core.units import KIB, MIB, format_bytes
from grampus.lab.ceph_daemons import OSD_MEMORY_TARGET_BYTES
from grampus.lab.model import LabSpec
from grampus.lab.osd_plans import decide_set_osds
from grampus.lab.osd_set import OsdSet
from grampus.lab.osd_sets import decide_set_placement_groups

# That of the lab's own OSDs, which the configuration of its cluster has.
OWN_MEMORY_MIB = OSD_MEMORY_TARGET_BYTES // MIB
_MEMORY_FILE = PurePosixPath("/proc/meminfo")


class LabEnvironmentOsdSets:
    """OSD sets of the lab; an `EnvironmentOsdSets`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def place_osds(self) -> PlaceOsds:
        spec = self._session.require_lab()
        first = OsdNeeds(media=spec.media, osd_devices_per_host=spec.osds_per_host)
        return PlaceOsds(first, len(spec.osd_hosts), spec.osd_size_bytes)

    def is_there(self, name: str) -> bool:
        return lab_osd_sets(self._session).find(name) is not None

    def ensure(self, needs: OsdNeeds) -> None:
        session, spec = self._session, self._session.require_lab()
        service = lab_osd_sets(session)
        found = service.find(needs.name)
        with session.breaking_lab():
            if found is not None and found.is_leaving:
                service.remove(needs.name)
                found = None
            osd_set = osd_set_of(needs, first_bytes=spec.osd_size_bytes)
            if found is not None:
                # As an earlier release made it.
                osd_set = osd_set.model_copy(update={"is_synced": found.is_synced})
            else:
                session.progress.phase(f"Add the OSD set {needs.name}")
                self._require_memory(spec, osd_set)
            service.add(osd_set)

    def lift_limits(self, name: str) -> None:
        lab_osd_sets(self._session).lift_limits(name)

    def impose_limits(self, name: str) -> None:
        service = lab_osd_sets(self._session)
        if service.find(name) is not None:
            service.impose_limits(name)

    def ensure_absent(self, name: str) -> None:
        service = lab_osd_sets(self._session)
        if service.find(name) is not None:
            with self._session.breaking_lab():
                service.remove(name)

    def observe_fill(self, name: str) -> OsdFill:
        service = lab_osd_sets(self._session)
        (view,) = [one for one in service.observe() if one.osd_set.name == name]
        return parse_fill(self._session.cluster().query("osd", "df"), view.osds)

    def _require_memory(self, spec: LabSpec, osd_set: OsdSet) -> None:
        host = self._session.fleet().hosts()[0]
        memory = parse_memory(host.read_file(_MEMORY_FILE) or "")
        available_bytes = memory.available_bytes if memory else 0
        osds = len(decide_set_osds(spec, osd_set))
        # A higher target is used up where the load reads more than the cache has room for.
        more_mib = max(0, (osd_set.memory_target_mib or OWN_MEMORY_MIB) - OWN_MEMORY_MIB)
        needed_bytes = osds * (OSD_BYTES + more_mib * MIB)
        if needed_bytes > available_bytes:
            raise RefusedError(
                f"{osds} more OSDs need about {format_bytes(needed_bytes)} of memory, but "
                f"only {format_bytes(available_bytes)} is available.",
                "Free memory, or measure the suite's other cells.",
                code="memory-too-small",
            )


def osd_set_of(needs: OsdNeeds, *, first_bytes: int) -> OsdSet:
    """The OSD set of a lab that is what a cell needs; its files are sparse, and as big as those of
    the first OSDs unless the need says otherwise.

    No data set of a benchmark is worth that emulated disks wait for the machine's own one, which
    several of them outrun.
    """
    cores, wal_db = needs.osd_cores_per_host, needs.wal_db_device
    memory_mib = needs.osd_memory_target_mib
    return OsdSet.model_validate(
        {
            "name": needs.name,
            "media": needs.media,
            "size_bytes": needs.osd_bytes or first_bytes,
            "devices_per_host": needs.osd_devices_per_host,
            "osds_per_device": needs.osds_per_device,
            "wal_db_media": None if wal_db == "none" else wal_db,
            "objectstore": needs.objectstore,
            "thread_cache_mib": needs.osd_thread_cache_mib,
            "memory_target_mib": memory_mib if memory_mib != OWN_MEMORY_MIB else None,
            "cores_per_host": None if cores == "all" else float(cores),
            "hosts": None if needs.osd_hosts == "all" else needs.osd_hosts,
            "is_synced": False,
            "has_pool": False,
        }
    )


def pool_on(osd_set: str, copies: int) -> str:
    """The name of the pool for images with so many copies on a set."""
    return f"{osd_set}-{copies}-{'copy' if copies == 1 else 'copies'}"


def ensure_pool_on(session: Session, osd_set: str, pool: str, copies: int) -> None:
    """A replicated pool on the OSDs of a set alone. Raises NotFoundError without such a set."""
    spec, found = session.require_lab(), lab_osd_sets(session).get(osd_set)
    ensure_pool_of_copies(
        session.cluster(),
        session.clock,
        pool,
        placement_groups=decide_set_placement_groups(
            len(decide_set_osds(spec, found)), spec.copies
        ),
        copies=copies,
        rule=found.crush_rule,
    )


def parse_fill(document: Mapping[str, Any], osds: Collection[int]) -> OsdFill:
    """How full these OSDs are together, from the document of `ceph osd df`."""
    nodes = [node for node in document["nodes"] if node["id"] in osds]
    return OsdFill(
        total_bytes=sum(int(node["kb"]) for node in nodes) * KIB,
        used_bytes=sum(int(node["kb_used"]) for node in nodes) * KIB,
    )
