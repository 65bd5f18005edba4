"""qemu-storage-daemon's FUSE export: works with any kernel that has FUSE."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from grampus.ceph.namespaces import split_image
from grampus.core.errors import GrampusError
from grampus.core.units import MIB
from grampus.hosts.port import Bind, DaemonSpec, Host, Limits
from grampus.volumes.drivers.export import ServerFacts, is_daemon_running
from grampus.volumes.drivers.port import ClientAnswer, MapRequest
from grampus.volumes.live import LiveVolume

QSD_MEMORY_LIMIT_BYTES = 768 * MIB


class QemuStorageDaemon:
    """An `ExportServer`."""

    # It reads an image's size when it opens it.
    grows_live = False
    exchanges_live = False

    def daemon(self, request: MapRequest) -> str:
        return f"qsd-{request.volume.name}"

    def prepare(self, host: Host, request: MapRequest, file: PurePosixPath) -> DaemonSpec:
        namespace, name = split_image(request.volume.image)
        image = {
            "driver": "rbd",
            "node-name": "image",
            "pool": request.volume.pool,
            **({"namespace": namespace} if namespace else {}),
            "image": name,
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

    def is_ready(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        del host, request, file
        return True  # its mount says it

    def is_alive(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        del file
        return is_daemon_running(host, self.daemon(request))

    def observe_facts(self, host: Host, request: MapRequest, file: PurePosixPath) -> ServerFacts:
        del host, request, file
        return ServerFacts()

    def grow(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        del file
        raise GrampusError(f"{self.daemon(request)} on {host.name} cannot grow an open image.")

    def close_image(
        self, host: Host, request: MapRequest, file: PurePosixPath, *, limit_s: float
    ) -> None:
        del file, limit_s
        raise _no_exchange(self.daemon(request), host)

    def open_image(self, host: Host, request: MapRequest, file: PurePosixPath) -> str | None:
        del file
        raise _no_exchange(self.daemon(request), host)

    def ensure_answering(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        del host, request, file  # it has its image open as long as it lives

    def draw_down(self, host: Host, request: MapRequest, file: PurePosixPath) -> int | None:
        del host, request, file
        return 0  # it has no journal

    def check_cluster(self, host: Host, request: MapRequest, file: PurePosixPath) -> ClientAnswer:
        del host, request, file
        return ClientAnswer()

    def take_snapshot(
        self, host: Host, request: MapRequest, file: PurePosixPath, snapshot: str
    ) -> ClientAnswer:
        del host, request, file, snapshot
        return ClientAnswer()

    def stop(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        del host, request, file  # SIGTERM is enough

    def parse_clients(self, log: str) -> list[str]:
        del log
        return []  # it says none

    def observe_live(
        self, host: Host, request: MapRequest, file: PurePosixPath
    ) -> LiveVolume | None:
        del host, request, file
        return None


def _no_exchange(daemon: str, host: Host) -> GrampusError:
    return GrampusError(
        f"{daemon} on {host.name} cannot close an open image.", code="exchange-failed"
    )
