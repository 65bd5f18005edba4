"""krbd and nbd, through `rbd device map`."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from grampus.ceph.namespaces import join_image, join_place
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandFailedError, Host
from grampus.volumes.drivers.port import ClientAnswer, Mapped, MapRequest
from grampus.volumes.live import LiveVolume
from grampus.volumes.model import DriverName

# What `rbd device list --device-type nbd` says where rbd-nbd is not installed, with code 22.
_NO_PROGRAM = f"rbd-nbd: exec failed: ({errno.ENOENT})"


class KernelDriver:
    """A `Driver` in the kernel."""

    grows_live = True
    exchanges_live = False

    def __init__(self, device_type: DriverName, clock: Clock) -> None:
        self._device_type = device_type
        self._clock = clock

    def ensure_mapped(self, host: Host, request: MapRequest) -> Mapped:
        existing = self.find(host, request)
        if existing is not None:
            return Mapped(existing)
        argv = [*self._device("map"), "--id", request.ceph_user, request.image]
        return Mapped(host.run(argv).stdout.strip())

    def find(self, host: Host, request: MapRequest) -> str | None:
        argv = [*self._device("list"), "--format", "json"]
        listed = host.run(argv, check=False)
        if _NO_PROGRAM in listed.stderr:
            return (
                None  # who cannot map has mapped nothing; krbd without a kernel module lists none
            )
        if listed.returncode != 0:
            raise CommandFailedError(host.name, listed)
        for entry in json.loads(listed.stdout or "[]"):
            # krbd says `name`, rbd-nbd says `image`.
            image = entry.get("name", entry.get("image"))
            found = join_place(entry["pool"], join_image(entry.get("namespace", ""), image))
            if found == request.image and self._is_of_our_cluster(host, entry):
                return str(entry["device"])
        return None

    def ensure_grown(self, host: Host, request: MapRequest) -> None:
        device = self.find(host, request)
        if device is None:
            return
        # Both watch the image's header and follow it by themselves.
        wait_until(
            self._clock,
            lambda: _size_bytes(host, device) == request.volume.size_bytes,
            what=f"{device} on {host.name} to grow",
            timeout_s=30,
            interval_s=0.1,
        )

    def serves(self, host: Host, request: MapRequest) -> bool:
        return self.find(host, request) is not None

    def close_image(self, host: Host, request: MapRequest, *, limit_s: float) -> None:
        del limit_s
        raise self._no_exchange(host, request)

    def open_image(self, host: Host, request: MapRequest) -> str | None:
        raise self._no_exchange(host, request)

    def ensure_answering(self, host: Host, request: MapRequest) -> None:
        del host, request  # it has its image open as long as it is mapped

    def draw_down(self, host: Host, request: MapRequest) -> int | None:
        del host, request
        return 0  # it has no journal

    def drop_flushes(self, host: Host, request: MapRequest) -> None:
        del host, request  # its flushes cost what they cost

    def ensure_flushed(self, host: Host, request: MapRequest) -> None:
        del host, request

    def check_cluster(self, host: Host, request: MapRequest) -> ClientAnswer:
        del host, request
        return ClientAnswer()

    def take_snapshot(self, host: Host, request: MapRequest, snapshot: str) -> ClientAnswer:
        del host, request, snapshot
        return ClientAnswer()

    def ensure_unmapped(self, host: Host, request: MapRequest) -> None:
        device = self.find(host, request)
        if device is not None:
            host.run([*self._device("unmap"), device])

    def daemon(self, request: MapRequest) -> str | None:
        del request
        return None

    def observe_live(self, host: Host, request: MapRequest) -> LiveVolume | None:
        del host, request
        return None

    def observe_clients(self, host: Host, request: MapRequest) -> list[str]:
        del host, request
        return []

    def _is_of_our_cluster(self, host: Host, entry: Mapping[str, Any]) -> bool:
        # krbd lists every mapping of the machine: another cluster's image of the same name
        # would be unmapped, or formatted. rbd-nbd lists only processes that the host sees.
        if self._device_type != "krbd":
            return True
        file = PurePosixPath(f"/sys/bus/rbd/devices/{entry['id']}/cluster_fsid")
        ours = host.run(["ceph-conf", "--lookup", "fsid"]).stdout.strip()
        return (host.read_file(file) or "").strip() == ours

    def _no_exchange(self, host: Host, request: MapRequest) -> GrampusError:
        return GrampusError(
            f"{self._device_type} on {host.name} cannot close {request.image} while it is in use.",
            code="exchange-failed",
        )

    def _device(self, verb: str) -> list[str]:
        return ["rbd", "device", verb, "--device-type", self._device_type]


def _size_bytes(host: Host, device: str) -> int:
    return int(host.run(["blockdev", "--getsize64", device]).stdout)
