"""Further OSDs of a lab beside its first ones, in named sets that pools can be kept to."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.core.units import format_bytes
from grampus.hosts.media import MediaName, WalDbMediaName
from grampus.lab.model import DATABASE_POOL
from grampus.state.store import Store

OSD_SET_RECORD = "lab-osd-set"
ObjectStoreName = Literal["bluestore", "filestore"]


class OsdSet(Model):
    """OSDs alike, as many on each host, under a CRUSH root of their own.

    `size_bytes` is that of each OSD. `cores_per_host` is shared evenly by the set's OSDs of a
    host. `thread_cache_mib` is TCMalloc's cache of all threads of an OSD, `memory_target_mib` its
    `osd_memory_target`. None for each of the three: as the first OSDs. `hosts`: only on the first
    so many hosts that have OSDs; None: on all of them. Not `is_synced`: a flush does not wait for
    the machine's disk where a hard disk is emulated, so a crash of the machine may lose the set.
    `has_pool`: with a pool for images, of as many copies as the lab keeps. `is_leaving`: its
    removal has begun, and can only be finished.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    media: MediaName
    size_bytes: int
    devices_per_host: int = 1
    osds_per_device: int = 1
    wal_db_media: WalDbMediaName | None = None
    objectstore: ObjectStoreName = "bluestore"
    thread_cache_mib: int | None = None
    memory_target_mib: int | None = None
    hosts: int | None = None
    cores_per_host: float | None = None
    is_synced: bool = True
    has_pool: bool = True
    is_leaving: bool = False

    @property
    def osds_per_host(self) -> int:
        return self.devices_per_host * self.osds_per_device

    @property
    def crush_root(self) -> str:
        """The root that its hosts stand under; its rule has the same name."""
        return f"osd-set-{self.name}"

    @property
    def crush_rule(self) -> str:
        return self.crush_root

    @property
    def pool(self) -> str:
        """The pool for images that it has, or would have."""
        return f"{DATABASE_POOL}-{self.name}"

    def crush_host(self, host: str) -> str:
        """The name of a host's OSDs of this set in the CRUSH map: `h1` itself holds the first."""
        return f"{host}-{self.name}"


def find_osd_sets(store: Store, lab: str) -> list[OsdSet]:
    """The lab's sets by name, also those whose removal has begun."""
    found = store.all(OSD_SET_RECORD, lab, OsdSet)
    return [found[name] for name in sorted(found)]


def describe_osd_set(osd_set: OsdSet) -> str:
    """What is on each host, such as `2 OSDs of 8 GiB on 1 hdd, WAL and DB on nvme`."""
    osds, devices = osd_set.osds_per_host, osd_set.devices_per_host
    words = [
        f"{osds} OSD{'' if osds == 1 else 's'} of {format_bytes(osd_set.size_bytes)} "
        f"on {devices} {osd_set.media}"
    ]
    if osd_set.wal_db_media is not None:
        what = "journal" if osd_set.objectstore == "filestore" else "WAL and DB"
        words.append(f"{what} on {osd_set.wal_db_media}")
    if osd_set.objectstore != "bluestore":
        words.append(osd_set.objectstore)
    if osd_set.cores_per_host is not None:
        words.append(f"{osd_set.cores_per_host:g} core{'' if osd_set.cores_per_host == 1 else 's'}")
    if osd_set.media == "hdd" and not osd_set.is_synced:
        words.append("lost when this machine crashes")
    if osd_set.thread_cache_mib is not None:
        words.append(f"thread cache {osd_set.thread_cache_mib} MiB")
    if osd_set.memory_target_mib is not None:
        words.append(f"memory target {osd_set.memory_target_mib} MiB")
    if osd_set.hosts is not None:
        words.append(f"only on {osd_set.hosts} host{'' if osd_set.hosts == 1 else 's'}")
    return ", ".join(words)
