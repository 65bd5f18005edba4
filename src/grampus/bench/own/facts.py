"""What a run on somebody's cluster records of it. Pure.

Of its configuration only what changes how fast it is: runs are passed on, and the rest is nobody
else's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from grampus.bench.environments.manifest import describe_configuration
from grampus.bench.own.placement import Placement, Room
from grampus.core.units import format_bytes
from grampus.state.runs import Setting

_OPTIONS = ("bdev_", "bluefs_", "bluestore_", "ms_", "objecter_", "osd_", "rbd_")
_UNKNOWN = "unknown"


def describe_cluster(
    fsid: str, placement: Placement, room: Room, osds: Sequence[Mapping[str, Any]]
) -> list[Setting]:
    """The cluster and its OSDs; `osds` is the document of `ceph osd metadata`."""
    kinds = Counter(_describe_osd(osd) for osd in osds)
    versions = sorted({str(osd.get("ceph_version_short", _UNKNOWN)) for osd in osds})
    hosts = {str(osd.get("hostname", _UNKNOWN)) for osd in osds}
    taken = "" if placement.device_class is None else f" of the class {placement.device_class}"
    pairs = {
        "FSID": fsid,
        "OSDs": "; ".join(f"{count} with {kind}" for kind, count in sorted(kinds.items())),
        "hosts with OSDs": str(len(hosts)),
        "versions of OSDs": ", ".join(versions),
        "CRUSH rule": f"{placement.rule}: {placement.osds} OSDs{taken} that are up, copies on "
        f"different {placement.domain}s",
        "room of these OSDs": f"{format_bytes(room.total_bytes)}, "
        f"{100 * room.used_share:.0f}% of it used before the run",
    }
    return [Setting(group="Ceph", name=name, value=value) for name, value in pairs.items()]


def describe_load_generators(host: str) -> Setting:
    """Where the load comes from: what one machine asks for need not be all that a cluster gives."""
    return Setting(
        group="machine", name="load generators", value=f"all on {host}, which Grampus runs on"
    )


def describe_options(dump: Sequence[Mapping[str, Any]]) -> list[Setting]:
    """The options of `ceph config dump` that change how fast a cluster is."""
    return describe_configuration(
        [option for option in dump if str(option.get("name", "")).startswith(_OPTIONS)]
    )


def _describe_osd(osd: Mapping[str, Any]) -> str:
    store = osd.get("osd_objectstore", _UNKNOWN)
    medium = osd.get("bluestore_bdev_type") or ("hdd" if osd.get("rotational") == "1" else "ssd")
    has_own_db = osd.get("bluefs_dedicated_db") == "1"
    beside = ", DB on a device of its own" if has_own_db else ""
    return f"{store} on {medium}{beside}"
