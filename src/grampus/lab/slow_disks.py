"""Slow disks: the device of an OSD that takes few requests a second, as one that is about to fail.

The limit is that of the kernel on the OSD's control group, as for emulated media. It is noted
beside the OSD, so that `restore` finds it whoever set it. An OSD that starts anew has its own.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.core.errors import RefusedError, not_found
from grampus.hosts.lab_host import LabFleet, LabHost
from grampus.hosts.port import BlockLimit
from grampus.lab.model import LabSpec
from grampus.lab.osd_devices import observe_osd_devices
from grampus.lab.osds import (
    find_first_osd,
    osd_directory,
    osd_reference,
    require_slice_device,
)
from grampus.lab.slice_devices import SliceDevices, decide_limit


class SlowDisks:
    """Slows the devices of one lab's OSDs down, and makes them as fast as before."""

    def __init__(self, spec: LabSpec, fleet: LabFleet) -> None:
        self._spec = spec
        self._fleet = fleet

    def slow(self, daemon: str, iops: int) -> str:
        """Let the disk of an OSD take `iops` reads and as many writes a second; returns its host.

        Raises NotFoundError, and RefusedError with code `osd-set` for an OSD that the lab was not
        made with: a benchmark limits these itself.
        """
        places = {one.daemon: one for one in observe_osd_devices(self._spec, self._fleet)}
        if daemon not in places:
            raise not_found("running OSD", daemon, places, list_command="grampus lab status")
        place = places[daemon]
        host = self._fleet.lab_host(place.host)
        if find_first_osd(self._spec, host, _id_of(daemon)) is None:
            raise RefusedError(
                f"{daemon} is part of an OSD set.",
                "Choose one of the lab's own OSDs, such as osd-0.",
                code="osd-set",
            )
        host.write_file(_note(host, daemon), f"{iops}\n")
        limit = BlockLimit(place.device, read_iops=iops, write_iops=iops)
        host.set_block_limit(daemon, limit)
        return place.host

    def restore(self) -> list[str]:
        """Give all of them the limits of their media again; says what it did."""
        said = []
        for host in self._fleet.lab_hosts():
            if host.name not in self._spec.osd_hosts or not self._fleet.is_reachable(host.name):
                continue
            listed = host.run(["find", str(osd_directory(host)), "-name", "slow-osd-*"])
            for file in sorted(listed.stdout.splitlines()):
                daemon = PurePosixPath(file).name.removeprefix("slow-")
                self._restore(host, daemon)
                host.run(["rm", "-f", file])
                said.append(f"The disk of {daemon} is as fast as before.")
        return said

    def _restore(self, host: LabHost, daemon: str) -> None:
        running = {one.name for one in host.observe_daemons() if one.state == "running"}
        plan = find_first_osd(self._spec, host, _id_of(daemon))
        if daemon not in running or plan is None:
            return
        osd_id = _id_of(daemon)
        reference = osd_reference(self._spec, osd_id)
        found = require_slice_device(SliceDevices(), host, osd_id, plan.data, reference)
        host.set_block_limit(daemon, decide_limit(plan.data, found))


def _id_of(daemon: str) -> int:
    return int(daemon.removeprefix("osd-"))


def _note(host: LabHost, daemon: str) -> PurePosixPath:
    return osd_directory(host) / f"slow-{daemon}"
