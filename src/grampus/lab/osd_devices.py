"""Which block device the data of each OSD of a lab are on."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_devices import find_loop_device_below
from grampus.lab.model import LabSpec
from grampus.lab.osds import osd_directory, osd_reference


@dataclass(frozen=True)
class OsdDevice:
    """An OSD's daemon, its host and its medium there, which is limited (`slice_devices.py`)."""

    daemon: str
    host: str
    device: str


def observe_osd_devices(spec: LabSpec, fleet: LabFleet) -> list[OsdDevice]:
    """The devices of the OSDs of every reachable host."""
    found = []
    for host in fleet.hosts():
        if not fleet.is_reachable(host.name):
            continue
        for status in host.observe_daemons():
            if not status.name.startswith("osd-"):
                continue
            reference = osd_reference(spec, int(status.name[4:]))
            device = find_loop_device_below(host, reference, directory=osd_directory(host))
            if device is not None:
                found.append(OsdDevice(status.name, host.name, device))
    return found
