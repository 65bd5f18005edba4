"""Drivers: from an RBD image to a block device on a host, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.hosts.loop_devices import (
    ensure_loop_device,
    ensure_loop_device_absent,
    find_loop_device,
)
from grampus.hosts.port import Bind, DaemonSpec, Host, Limits
from grampus.volumes.model import DriverName, VolumeSpec

QSD_MEMORY_LIMIT_BYTES = 768 * MIB


@dataclass(frozen=True)
class MapRequest:
    """What a driver needs to know of a volume."""

    volume: VolumeSpec
    ceph_user: str
    reference: str  # unique on the machine; marks what is ours


class Driver(Protocol):
    """Makes a block device of an image on a host."""

    def ensure_mapped(self, host: Host, request: MapRequest) -> str:
        """The block device, mapped if need be. What is left of a dead mapping is replaced."""
        ...

    def find(self, host: Host, request: MapRequest) -> str | None:
        """The block device if the mapping is there and alive, else None."""
        ...

    def ensure_unmapped(self, host: Host, request: MapRequest) -> None:
        """Take the block device away; it must not be mounted."""
        ...

    def daemon(self, request: MapRequest) -> str | None:
        """The daemon that serves the device, if there is one."""
        ...


class KernelDriver:
    """krbd and nbd, through `rbd device map`."""

    def __init__(self, device_type: DriverName) -> None:
        self._device_type = device_type

    def ensure_mapped(self, host: Host, request: MapRequest) -> str:
        existing = self.find(host, request)
        if existing is not None:
            return existing
        return host.run(
            [*self._device("map"), "--id", request.ceph_user, _image(request)]
        ).stdout.strip()

    def find(self, host: Host, request: MapRequest) -> str | None:
        listed = host.run([*self._device("list"), "--format", "json"], check=False)
        if listed.returncode != 0:
            return None
        for entry in json.loads(listed.stdout or "[]"):
            # krbd says `name`, rbd-nbd says `image`.
            image = entry.get("name", entry.get("image"))
            wanted = (request.volume.pool, request.volume.image)
            if (entry["pool"], image) == wanted and self._is_of_our_cluster(host, entry):
                return str(entry["device"])
        return None

    def ensure_unmapped(self, host: Host, request: MapRequest) -> None:
        device = self.find(host, request)
        if device is not None:
            host.run([*self._device("unmap"), device])

    def daemon(self, request: MapRequest) -> str | None:
        del request
        return None

    def _is_of_our_cluster(self, host: Host, entry: Mapping[str, Any]) -> bool:
        # krbd lists every mapping of the machine: another cluster's image of the same name
        # would be unmapped, or formatted. rbd-nbd lists only processes that the host sees.
        if self._device_type != "krbd":
            return True
        file = PurePosixPath(f"/sys/bus/rbd/devices/{entry['id']}/cluster_fsid")
        ours = host.run(["ceph-conf", "--lookup", "fsid"]).stdout.strip()
        return (host.read_file(file) or "").strip() == ours

    def _device(self, verb: str) -> list[str]:
        return ["rbd", "device", verb, "--device-type", self._device_type]


class QemuStorageDaemonDriver:
    """qemu-storage-daemon exports the image as a file through FUSE; a loop device stands on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def ensure_mapped(self, host: Host, request: MapRequest) -> str:
        existing = self.find(host, request)
        if existing is not None:
            return existing
        self.ensure_unmapped(host, request)
        file = self._file(host, request)
        host.run(["mkdir", "-p", str(file.parent)])
        host.run(["touch", str(file)])
        host.ensure_daemon(self._spec(host, request, file))
        # Before the export is really there, losetup would attach the empty file underneath.
        wait_until(
            self._clock,
            lambda: self._is_exported(host, request, file),
            what=f"the export of {_image(request)} on {host.name}",
            timeout_s=30,
            interval_s=0.05,
        )
        return ensure_loop_device(host, file, reference=request.reference)

    def find(self, host: Host, request: MapRequest) -> str | None:
        states = {status.name: status.state for status in host.observe_daemons()}
        if states.get(self.daemon(request)) != "running":
            return None
        return find_loop_device(host, request.reference)

    def ensure_unmapped(self, host: Host, request: MapRequest) -> None:
        file = self._file(host, request)
        ensure_loop_device_absent(host, file, reference=request.reference)
        host.ensure_daemon_absent(self.daemon(request))
        if _is_mount(host, file):
            host.run(["umount", str(file)])  # a killed daemon could not do it
        host.run(["rm", "-rf", "--one-file-system", str(file.parent)])

    def daemon(self, request: MapRequest) -> str:
        return f"qsd-{request.volume.name}"

    @staticmethod
    def _file(host: Host, request: MapRequest) -> PurePosixPath:
        return host.data_dir / "exports" / request.volume.name / "image"

    def _spec(self, host: Host, request: MapRequest, file: PurePosixPath) -> DaemonSpec:
        image = {
            "driver": "rbd",
            "node-name": "image",
            "pool": request.volume.pool,
            "image": request.volume.image,
            "user": request.ceph_user,
            "conf": "/etc/ceph/ceph.conf",
            "discard": "unmap",
            "cache": {"direct": True},
        }
        export = {
            "type": "fuse",
            "id": "export",
            "node-name": "image",
            "mountpoint": str(file),
            "writable": True,
            "allow-other": "on",
        }
        return DaemonSpec(
            name=self.daemon(request),
            argv=(
                "qemu-storage-daemon",
                "--blockdev",
                json.dumps(image),
                "--export",
                json.dumps(export),
            ),
            binds=(
                Bind(str(host.data_dir / "etc-ceph"), "/etc/ceph", read_only=True),
                Bind(str(file.parent), str(file.parent), shared=True),
            ),
            limits=Limits(memory_bytes=QSD_MEMORY_LIMIT_BYTES),
            privileged=True,
        )

    def _is_exported(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        name = self.daemon(request)
        if not any(s.name == name and s.state == "running" for s in host.observe_daemons()):
            raise GrampusError(
                f"The driver of {_image(request)} ended on {host.name}: "
                f"{host.daemon_log(name, last_lines=2)}",
                "`grampus lab status` shows whether the cluster answers.",
                code="driver-failed",
            )
        if not _is_mount(host, file):
            return False
        size = host.run(["stat", "--format", "%s", str(file)], check=False)
        return size.returncode == 0 and int(size.stdout) == request.volume.size_bytes


def _image(request: MapRequest) -> str:
    return f"{request.volume.pool}/{request.volume.image}"


def _is_mount(host: Host, path: PurePosixPath) -> bool:
    return host.run(["findmnt", "--mountpoint", str(path)], check=False).returncode == 0
