"""What a lab offers to a matrix: which values of which dimension, and why no others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grampus.bench.matrix.capabilities import Capabilities, Offer
from grampus.bench.matrix.dimensions import default_of
from grampus.core.units import MIB
from grampus.volumes.model import WritePath

MAX_THREADS = 512
MAX_CLIENTS = 16
MAX_VOLUMES = 32
# The smallest database that these cells stand on, with the program that serves its volume.
DATABASE_BYTES = 400 * MIB
WORKLOADS = (
    "point-select",
    "update-index",
    "mix-70-30",
    "mix-75-25",
    "rados-write",
    "rados-read",
    "fio-write",
    "fio-read",
    "fio-randwrite",
    "fio-randread",
)
# What a lab has in one form alone, and why.
ONE_FORM: Mapping[str, str] = {
    "erasure_code": "the pools of a lab keep whole copies",
    "objectstore": "this Ceph has BlueStore alone",
    "wal_db_device": "an OSD of a lab is one loop device with everything on it",
    "osds_per_device": "each OSD of a lab has a device of its own",
    "osd_cores_per_host": "all hosts of a lab share the cores of one machine",
    "osd_thread_cache_mib": "the OSDs of a lab run with the allocator's own default",
    "fill_percent": "a lab's disks are sparse files, and filling them tells nothing of a disk",
    "layout": "all hosts of a lab are one machine, so databases and OSDs are never apart",
    "runtime": "a lab's servers run in containers",
    "driver": "the driver is the best one of the host",
    "profile": "the tuning is Grampus's own",
}


@dataclass(frozen=True)
class LabFeatures:
    """What of a lab decides its offers."""

    name: str
    media: str
    osds_per_host: int
    copies: int
    write_paths: tuple[WritePath, ...]
    free_addresses: int
    available_memory_bytes: int
    versions: Mapping[str, tuple[str, ...]]


def decide_capabilities(lab: LabFeatures) -> Capabilities:
    """All that the lab can do."""
    databases = min(lab.free_addresses, lab.available_memory_bytes // DATABASE_BYTES)
    offers = {
        "workload": Offer(
            values=WORKLOADS, because="rbd bench and a TPC-C load are not driven here"
        ),
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
        "media": Offer(values=(lab.media,), because="it is what the lab was made with"),
        "osd_devices_per_host": Offer(
            values=(lab.osds_per_host,), because="it is what the lab was made with"
        ),
        "write_path": Offer(
            values=lab.write_paths,
            because=None if len(lab.write_paths) > 1 else "volumed is not built",
        ),
        "trx_commit": Offer(values=(0, 1, 2)),
        "doublewrite": Offer(values=("default", "disabled", "detect-only", "single", "parallel")),
        "caches": Offer(values=("keep", "osd", "all")),
        "monitors": Offer(values=("all", "none")),
    }
    for dimension, because in ONE_FORM.items():
        offers[dimension] = Offer(values=(default_of(dimension),), because=because)
    return Capabilities(place=f"lab {lab.name}", offers=offers, versions=lab.versions)
