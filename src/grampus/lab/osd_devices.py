"""Which block devices the data of each OSD of a lab are on."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_devices import list_loop_devices
from grampus.hosts.port import Host
from grampus.lab.model import LabSpec
from grampus.lab.osds import osd_directory, osd_reference
from grampus.lab.slice_devices import disks_directory


@dataclass(frozen=True)
class OsdDevice:
    """An OSD's daemon, its host, and the device that it opens there."""

    daemon: str
    host: str
    device: str


def observe_osd_devices(spec: LabSpec, fleet: LabFleet) -> list[OsdDevice]:
    """The devices of the OSDs of every reachable host."""
    return [
        found
        for host in fleet.hosts()
        if fleet.is_reachable(host.name)
        for found in _observe_devices_of(spec, host)
    ]


def _observe_devices_of(spec: LabSpec, host: Host) -> list[OsdDevice]:
    devices = {
        one.reference: one.name
        for directory in (osd_directory(host), disks_directory(host))
        for one in list_loop_devices(host, directory)
    }
    found = []
    for status in host.observe_daemons():
        if not status.name.startswith("osd-"):
            continue
        reference = osd_reference(spec, int(status.name[4:]))
        device = devices.get(reference)
        if device is not None:
            found.append(OsdDevice(status.name, host.name, device))
    return found
