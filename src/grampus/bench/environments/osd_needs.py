"""What cells ask of the OSDs under them, and which of them need OSDs of their own. All pure."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from pydantic import ConfigDict

from grampus.bench.declared import canonical_json
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.dimensions import default_of, parse_code
from grampus.bench.matrix.workloads import WORKLOADS
from grampus.core.errors import RefusedError
from grampus.core.models import Model
from grampus.core.units import GIB, MIB, format_bytes

PREFIX = "bench-"
# Media and the like as the place's first OSDs have them.
OWN = "own"
# An OSD that shall be filled is as small as an OSD can be, and yet empty before it is filled: what
# a database has beside its data set, and what BlueStore has beside objects.
MIN_FILLED_BYTES = 4 * GIB
SERVER_BYTES = 400 * MIB
DATA_FACTOR = 1.5
EMPTY_SHARE = 0.12
# From here on Ceph itself warns (`mon_osd_nearfull_ratio`).
NEARLY_FULL_PERCENT = 85
# Beyond, Ceph may hold up the writes of the load itself (`mon_osd_full_ratio` is 95%).
MAX_FILL_PERCENT = 90


class OsdNeeds(Model):
    """OSDs as a cell asks for them; names and values as those of the dimensions.

    `osd_bytes`: of each OSD, where it matters how much they take; else 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    media: str
    objectstore: str = str(default_of("objectstore"))
    wal_db_device: str = str(default_of("wal_db_device"))
    osds_per_device: int = 1
    osd_devices_per_host: int = 1
    osd_cores_per_host: int | str = str(default_of("osd_cores_per_host"))
    osd_thread_cache_mib: int = 128
    osd_memory_target_mib: int = int(default_of("osd_memory_target_mib"))
    osd_hosts: int | str = str(default_of("osd_hosts"))
    fill_percent: int = 0
    osd_bytes: int = 0

    @property
    def name(self) -> str:
        """`bench-` and 8 hexadecimal digits of the content."""
        document = self.model_dump(mode="json")
        # Names of sets from before a dimension was there stay as they were.
        for field in ("osd_memory_target_mib", "osd_hosts"):
            if document[field] == default_of(field):
                del document[field]
        content = canonical_json(document)
        return f"{PREFIX}{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    @property
    def osds_per_host(self) -> int:
        return self.osd_devices_per_host * self.osds_per_device


@dataclass(frozen=True)
class PlaceOsds:
    """The OSDs that a place was made with, and on how many hosts."""

    first: OsdNeeds
    hosts: int
    first_bytes: int  # of each, and of others that are asked for without a size


@dataclass(frozen=True)
class OsdFill:
    """How full OSDs are together."""

    total_bytes: int
    used_bytes: int

    @property
    def percent(self) -> float:
        return 100 * self.used_bytes / self.total_bytes if self.total_bytes else 0.0


def decide_osd_needs(cell: Cell, place: PlaceOsds) -> OsdNeeds | None:
    """The OSDs that the cell needs beside those of the place; None: it stands on those."""
    point, first = cell.point, place.first
    needs = OsdNeeds(
        media=_own(point.media, first.media),
        objectstore=_own(point.objectstore, first.objectstore),
        wal_db_device=_own(point.wal_db_device, first.wal_db_device),
        osds_per_device=point.osds_per_device,
        osd_devices_per_host=point.osd_devices_per_host,
        osd_cores_per_host=point.osd_cores_per_host,
        osd_thread_cache_mib=point.osd_thread_cache_mib,
        osd_memory_target_mib=point.osd_memory_target_mib,
        osd_hosts=point.osd_hosts,
        fill_percent=point.fill_percent,
        osd_bytes=_filled_osd_bytes(cell, place) if point.fill_percent else 0,
    )
    return None if needs == place.first else needs


def decide_provisioned_bytes(cell: Cell, place: PlaceOsds) -> float:
    """The room of the cell's OSDs that is provisioned, before copies: `fill_percent`, or all of it.

    What "IOPS per GB" of a cluster is divided by in Red Hat's study (2016, Figures 7 and 8): there
    volumes take so much of the room, and more devices are more room.
    """
    needs = decide_osd_needs(cell, place) or place.first
    osds = _hosts(cell, place) * needs.osds_per_host
    raw_bytes = osds * (needs.osd_bytes or place.first_bytes)
    share = cell.point.fill_percent / 100 if cell.point.fill_percent else 1.0
    return raw_bytes * share / decide_overhead(cell.point.erasure_code, cell.point.copies)


def decide_overhead(erasure_code: str, copies: int) -> float:
    """Bytes on OSDs for each byte of data: `k2m1` keeps three for two."""
    code = parse_code(erasure_code)
    return float(copies) if code is None else sum(code) / code[0]


def decide_name_on(environment: str, needs: OsdNeeds | None) -> str:
    """What the environment of that name is called on these OSDs: another one is on others."""
    if needs is None:
        return environment
    return f"{PREFIX}{hashlib.sha256(f'{environment}/{needs.name}'.encode()).hexdigest()[:8]}"


def decide_fill_bytes(fill: OsdFill, percent: int) -> int:
    """Bytes that are still to be written to the OSDs, all copies counted; 0 when there are enough.

    Raises RefusedError (`too-full`) when they hold clearly more: nothing can be taken away.
    """
    wanted_bytes = fill.total_bytes * percent // 100
    if fill.percent > percent + 2:
        raise RefusedError(
            f"The OSDs are {fill.percent:.0f}% full already, and were to be {percent}% full.",
            "Measure a smaller data set, or a higher fill.",
            code="too-full",
        )
    return max(0, wanted_bytes - fill.used_bytes)


def require_disk_room(needed_bytes: int, total_bytes: int, free_bytes: int, reserve: float) -> None:
    """Raise RefusedError (`disk-too-small`) unless the machine's disk takes `needed_bytes` more.

    `reserve` is the share of it that stays free.
    """
    usable_bytes = max(0, free_bytes - math.ceil(total_bytes * reserve))
    if needed_bytes > usable_bytes:
        raise RefusedError(
            f"Filling the OSDs takes {format_bytes(needed_bytes)} of the machine's disk, and "
            f"{format_bytes(usable_bytes)} are available.",
            "Free some space, or measure another suite.",
            code="disk-too-small",
        )


def _hosts(cell: Cell, place: PlaceOsds) -> int:
    """How many hosts the cell's OSDs are on."""
    return place.hosts if isinstance(cell.point.osd_hosts, str) else cell.point.osd_hosts


def _own(asked: str, first: str) -> str:
    return first if asked == OWN else asked


def _filled_osd_bytes(cell: Cell, place: PlaceOsds) -> int:
    """Big enough for what the cell's environment has itself to be less than the least fill."""
    target = WORKLOADS[cell.point.workload].target
    if target == "database":
        members, beside_bytes = cell.point.databases, SERVER_BYTES
    else:
        members = cell.point.volumes if target == "volume" else cell.point.clients
        beside_bytes = 0
    client_bytes = members * (cell.dataset_bytes * DATA_FACTOR + beside_bytes)
    osds = _hosts(cell, place) * cell.point.osd_devices_per_host * cell.point.osds_per_device
    each_bytes = client_bytes * cell.point.copies / osds / EMPTY_SHARE
    return max(MIN_FILLED_BYTES, math.ceil(each_bytes / GIB) * GIB)
