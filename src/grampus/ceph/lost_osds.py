"""OSDs of a host that is lost: the cluster is told that they are down, and serves on at once.

By itself it waits until other OSDs have missed their heartbeats, 20 s with Ceph's defaults, and
whoever needs a placement group of theirs waits as long. An OSD that lives, and was taken for dead,
notices it in the next map and reports itself up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grampus.ceph.mon_commands import ask_mons
from grampus.ceph.ports import CommandRunner


@dataclass(frozen=True)
class OsdPlace:
    """An OSD that the cluster takes for up, and the ports where it can be asked."""

    id: int
    ports: tuple[int, ...]


def parse_osds_at(dump: Mapping[str, Any], address: str) -> list[OsdPlace]:
    """The OSDs that are up at a host's address, from the JSON document of `ceph osd dump`."""
    found = []
    for osd in dump.get("osds", ()):
        places = [entry["addr"] for entry in osd["public_addrs"]["addrvec"]]
        ports = [place.rpartition(":")[2] for place in places if place.startswith(f"{address}:")]
        if osd["up"] and ports:
            found.append(OsdPlace(osd["osd"], tuple(sorted({int(port) for port in ports}))))
    return found


def parse_mon_places(dump: Mapping[str, Any]) -> tuple[str, ...]:
    """`ADDRESS:PORT` of each MON, from the JSON document of `ceph mon dump`; v2 addresses first."""
    return tuple(mon["public_addrs"]["addrvec"][0]["addr"] for mon in dump.get("mons", ()))


def ensure_osds_down(runner: CommandRunner, osds: Sequence[OsdPlace]) -> None:
    """Let the MONs take these OSDs for down."""
    ask_mons(runner, "osd down", ids=[str(osd.id) for osd in osds])
