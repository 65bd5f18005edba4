"""What a lab offers to a matrix: which values of which dimension, and why no others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.bench.environments.environment_plan import NO_CODE
from grampus.bench.environments.osd_needs import MAX_FILL_PERCENT, OWN
from grampus.bench.environments.profiles import PROFILES
from grampus.bench.matrix.capabilities import Capabilities, Offer
from grampus.bench.matrix.dimensions import default_of
from grampus.ceph.cluster import MIN_OSD_MEMORY_TARGET_MIB, explain_no_filestore
from grampus.core.units import MIB
from grampus.hosts.media import MEDIA, WAL_DB_MEDIA
from grampus.volumes.model import DriverName, WritePath

MAX_THREADS = 512
MAX_CLIENTS = 16
MAX_VOLUMES = 32
MAX_CODING_CHUNKS = 4
# The smallest database that these cells stand on, with the program that serves its volume.
DATABASE_BYTES = 400 * MIB
# What an OSD takes under a small load; Ceph lets it grow to 1 GiB where there is so much.
OSD_BYTES = 300 * MIB
MAX_OSDS_PER_HOST = 16
WORKLOADS = (
    "point-select",
    "update-index",
    "mix-70-30",
    "mix-75-25",
    "rados-write",
    "rados-read",
    "rbd-write",
    "rbd-read",
    "rbd-randwrite",
    "rbd-randread",
    "fio-write",
    "fio-read",
    "fio-randwrite",
    "fio-randread",
    "fio-mix-70-30",
    "fio-rbd-write",
    "fio-rbd-read",
    "fio-rbd-randwrite",
    "fio-rbd-randread",
    "fio-rbd-mix-70-30",
)


NO_TPCC = "of a load like TPC-C, no registry that Grampus installs from has sysbench-tpcc"


@dataclass(frozen=True)
class LabFeatures:
    """What of a lab decides its offers."""

    name: str
    copies: int
    write_paths: tuple[WritePath, ...]
    free_addresses: int
    available_memory_bytes: int
    versions: Mapping[str, tuple[str, ...]]
    hosts: int  # with OSDs
    cores: int
    other_hosts: int = 0  # without OSDs
    drivers: tuple[DriverName, ...] = ()  # that its hosts can attach volumes through
    guest_absence: str | None = None  # why servers run in no virtual machine; None: they do


def decide_capabilities(lab: LabFeatures) -> Capabilities:
    """All that the lab can do."""
    databases = min(lab.free_addresses, lab.available_memory_bytes // DATABASE_BYTES)
    offers = {
        "workload": Offer(values=WORKLOADS, because=NO_TPCC),
        "threads": Offer(at_least=1, at_most=MAX_THREADS, because="a client is one process"),
        "rate": Offer(values=("none",), at_least=1, because="sysbench takes whole rates"),
        "databases": Offer(
            at_least=1,
            at_most=max(databases, 1),
            because="each takes an address and memory of this machine",
        ),
        "volumes": Offer(at_least=1, at_most=MAX_VOLUMES, because="one machine serves them all"),
        "clients": Offer(at_least=1, at_most=MAX_CLIENTS, because="one machine runs them all"),
        "buffer_ratio": Offer(at_least=0.1, at_most=100),
        "copies": Offer(
            values=tuple(range(1, lab.copies + 1)), because=f"the lab keeps {lab.copies} copies"
        ),
        "write_path": Offer(
            values=lab.write_paths,
            because=None if len(lab.write_paths) > 1 else "volumed is not built",
        ),
        "journal_pool": Offer(values=("with-data", OWN)),
        "trx_commit": Offer(values=(0, 1, 2)),
        "doublewrite": Offer(values=("default", "disabled", "detect-only", "single", "parallel")),
        "profile": Offer(values=tuple(PROFILES)),
        "runtime": Offer(
            values=("bare", "container", *(() if lab.guest_absence else ("vm",))),
            because=lab.guest_absence,
        ),
        "erasure_code": Offer(
            values=(NO_CODE, *decide_codes(lab.hosts)),
            because=f"each chunk needs its own host, and {lab.hosts} hosts have OSDs",
        ),
        "driver": Offer(
            values=("auto", *lab.drivers, *(() if lab.guest_absence else ("librbd",))),
            because="they are those that this machine's kernel and programs allow",
        ),
        "layout": Offer(
            values=("decoupled", "hyperconverged") if lab.other_hosts else ("decoupled",),
            because=None
            if lab.other_hosts
            else "all hosts of this lab have OSDs; `lab up --hosts 6 --osd-hosts 3` makes one "
            "with hosts of both kinds",
        ),
        "caches": Offer(values=("keep", "osd", "all")),
        "monitors": Offer(values=("all", "none")),
        "controller": Offer(values=("none", "serving")),
    }
    offers |= decide_osd_offers(lab)
    offers["objectstore"] = decide_objectstores(lab.versions.get("ceph", ()))
    return Capabilities(place=f"lab {lab.name}", offers=offers, versions=lab.versions)


def decide_osd_offers(lab: LabFeatures) -> dict[str, Offer]:
    """What OSD sets beside the lab's first OSDs make of it (ADR 27)."""
    osds_per_host = lab.available_memory_bytes // OSD_BYTES // lab.hosts
    most = max(1, min(MAX_OSDS_PER_HOST, osds_per_host))
    because = "each OSD takes memory of this machine, and a host has at most 16 of a set"
    return {
        "media": Offer(values=(*MEDIA, OWN)),
        "wal_db_device": Offer(values=("none", *WAL_DB_MEDIA, OWN)),
        "osds_per_device": Offer(at_least=1, at_most=most, because=because),
        "osd_devices_per_host": Offer(at_least=1, at_most=most, because=because),
        "osd_cores_per_host": Offer(
            values=("all",),
            at_least=1,
            at_most=lab.cores,
            because="all hosts of a lab share the cores of one machine",
        ),
        "osd_thread_cache_mib": Offer(at_least=1, at_most=4096),
        "osd_memory_target_mib": Offer(
            at_least=MIN_OSD_MEMORY_TARGET_MIB,
            at_most=max(
                int(default_of("osd_memory_target_mib")),
                lab.available_memory_bytes // MIB // lab.hosts // 2,
            ),
            because=f"Ceph takes {MIN_OSD_MEMORY_TARGET_MIB} MiB or more, and the OSDs of all arms "
            "share the memory of this machine",
        ),
        "osd_hosts": Offer(
            values=("all",),
            at_least=1,
            at_most=lab.hosts,
            because=f"{lab.hosts} hosts of the lab have OSDs",
        ),
        "fill_percent": Offer(
            at_least=0,
            at_most=MAX_FILL_PERCENT,
            because="Ceph holds up writes at 95%, and the load itself writes",
        ),
    }


def decide_codes(hosts: int) -> tuple[str, ...]:
    """Erasure codes whose chunks fit on so many hosts, the smallest first."""
    return tuple(
        f"k{data}m{chunks - data}"
        for chunks in range(3, hosts + 1)
        for data in range(chunks - 1, 1, -1)
        if chunks - data <= MAX_CODING_CHUNKS
    )


def decide_objectstores(ceph_versions: Sequence[str]) -> Offer:
    """FileStore too, where the cluster still has it (ADR 29)."""
    whys = [explain_no_filestore(version) for version in ceph_versions]
    because = next((why for why in whys if why), None)
    if whys and because is None:
        return Offer(values=("bluestore", "filestore", OWN))
    told = because or "the version of Ceph is not known"
    lab = "`grampus lab up --lab NAME --image bookworm` makes a lab that has it"
    return Offer(values=("bluestore", OWN), because=f"{told}; {lab}")
