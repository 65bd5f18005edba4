"""Which OSDs a lab has, and what each stands on: pure, from the lab and its OSD sets alone."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.core.units import GIB
from grampus.hosts.media import DeviceMediaName
from grampus.lab.model import LabSpec
from grampus.lab.osd_set import ObjectStoreName, OsdSet

# Two: the machine's cores are not the first limit of an OSD, nor all taken by one.
OSD_CPUS = 2.0
# What Ceph's own packages have each daemon set.
THREAD_CACHE_MIB = 128
# RocksDB keeps up to 1 GiB of WAL (its `max_total_wal_size` in BlueStore); more room than a lab's
# OSD needs for both, so that nothing spills over to the data device.
WAL_DB_BYTES = 2 * GIB


@dataclass(frozen=True)
class DeviceSlice:
    """A share of one emulated device: `file` is its name in the host's directory of OSDs.

    `shared_by` OSDs have a slice of it each and share its limits evenly. Not `is_synced`: an
    emulated hard disk answers flushes without the machine's disk.
    """

    file: str
    offset_bytes: int
    size_bytes: int
    media: DeviceMediaName
    shared_by: int = 1
    is_synced: bool = True

    @property
    def device_bytes(self) -> int:
        """Of the whole device."""
        return self.size_bytes * self.shared_by


@dataclass(frozen=True)
class OsdPlan:
    """One OSD as it shall be. `slot` names its files on its host, and never changes."""

    host: str
    slot: str
    uuid: str
    data: DeviceSlice
    wal_db: DeviceSlice | None = None
    objectstore: ObjectStoreName = "bluestore"
    crush_location: str | None = None  # None: Ceph's own, under the root `default`
    cpus: float = OSD_CPUS
    thread_cache_mib: int = THREAD_CACHE_MIB
    memory_target_mib: int | None = None  # None: that of the cluster's configuration


def decide_first_osds(spec: LabSpec) -> list[OsdPlan]:
    """The OSDs that the lab was made with, host after host."""
    return [
        OsdPlan(
            host=host,
            slot=str(slot),
            uuid=spec.osd_uuid(host, slot),
            data=DeviceSlice(f"{slot}.img", 0, spec.osd_size_bytes, spec.media),
        )
        for host in spec.osd_hosts
        for slot in range(spec.osds_per_host)
    ]


def decide_set_hosts(spec: LabSpec, osd_set: OsdSet) -> list[str]:
    """The hosts that the set has OSDs on."""
    return spec.osd_hosts[: osd_set.hosts]


def decide_set_osds(spec: LabSpec, osd_set: OsdSet) -> list[OsdPlan]:
    """The OSDs of a set, host after host and device after device."""
    return [
        _plan_osd(spec, osd_set, host, device, part)
        for host in decide_set_hosts(spec, osd_set)
        for device in range(osd_set.devices_per_host)
        for part in range(osd_set.osds_per_device)
    ]


def _plan_osd(spec: LabSpec, osd_set: OsdSet, host: str, device: int, part: int) -> OsdPlan:
    on_device = f"{osd_set.name}.{device}"
    slot = f"{on_device}.{part}"
    wal_db = None
    if osd_set.wal_db_media is not None:
        wal_db = DeviceSlice(
            f"{on_device}.db.img",
            part * WAL_DB_BYTES,
            WAL_DB_BYTES,
            osd_set.wal_db_media,
            osd_set.osds_per_device,
        )
    cores = osd_set.cores_per_host
    return OsdPlan(
        host=host,
        slot=slot,
        uuid=spec.osd_uuid(host, slot),
        data=DeviceSlice(
            f"{on_device}.img",
            part * osd_set.size_bytes,
            osd_set.size_bytes,
            osd_set.media,
            osd_set.osds_per_device,
            osd_set.is_synced,
        ),
        wal_db=wal_db,
        objectstore=osd_set.objectstore,
        crush_location=f"root={osd_set.crush_root} host={osd_set.crush_host(host)}",
        cpus=OSD_CPUS if cores is None else cores / osd_set.osds_per_host,
        thread_cache_mib=osd_set.thread_cache_mib or THREAD_CACHE_MIB,
        memory_target_mib=osd_set.memory_target_mib,
    )
