"""Which block devices the data of each OSD of a lab are on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_devices import list_loop_devices
from grampus.hosts.port import Host
from grampus.lab.model import LabSpec
from grampus.lab.osds import osd_directory, osd_reference
from grampus.lab.slice_devices import queue_reference

_DEVICES = PurePosixPath("/dev")


@dataclass(frozen=True)
class OsdDevice:
    """An OSD's daemon, its host, and what it opens there, with the limited medium below.

    Statistics are `device`'s: the time for which the medium's limits let a request wait is in
    them, and a request that was merged counts once. At the medium itself it has waited already.
    """

    daemon: str
    host: str
    device: str
    medium: str


def observe_osd_devices(spec: LabSpec, fleet: LabFleet) -> list[OsdDevice]:
    """The devices of the OSDs of every reachable host."""
    return [
        found
        for host in fleet.hosts()
        if fleet.is_reachable(host.name)
        for found in _observe_devices_of(spec, host)
    ]


def _observe_devices_of(spec: LabSpec, host: Host) -> list[OsdDevice]:
    media = {one.reference: one.name for one in list_loop_devices(host, osd_directory(host))}
    queues = {
        (one.reference, one.backing_file): one.name for one in list_loop_devices(host, _DEVICES)
    }
    found = []
    for status in host.observe_daemons():
        if not status.name.startswith("osd-"):
            continue
        reference = osd_reference(spec, int(status.name[4:]))
        medium = media.get(reference)
        if medium is not None:
            device = queues.get((queue_reference(reference), medium), medium)
            found.append(OsdDevice(status.name, host.name, device, medium))
    return found
