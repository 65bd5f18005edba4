"""Drivers in user space: a daemon exports the image as a FUSE file; a loop device stands on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.hosts.loop_devices import (
    drop_flushes,
    ensure_flushed,
    ensure_loop_capacity,
)
from grampus.hosts.mounts import ensure_unmounted, observe_mounted_source
from grampus.hosts.port import DaemonSpec, Host
from grampus.hosts.presence import is_there
from grampus.volumes import journal_damage
from grampus.volumes.drivers.export_devices import (
    Devices,
    ensure_devices_absent,
    find_devices,
    flush_export,
    keeps_order,
    make_devices,
)
from grampus.volumes.drivers.port import ClientAnswer, Mapped, MapRequest
from grampus.volumes.live import LiveVolume

START_TIMEOUT_S = 30.0
# At most the whole ring of a journal is read, 1 GiB, and written to the image in small pieces.
REPLAY_TIMEOUT_S = 600.0
# Of a daemon's log: more than one says that could not open its image.
_LOG_LINES = 100


@dataclass(frozen=True)
class ServerFacts:
    """What a server can say of itself once it serves."""

    client_address: str | None = None
    transport: str | None = None


class ExportServer(Protocol):
    """The daemon under an export."""

    @property
    def grows_live(self) -> bool:
        """Whether `grow` can be used."""
        ...

    def daemon(self, request: MapRequest) -> str:
        """The daemon's name on its host."""
        ...

    def prepare(self, host: Host, request: MapRequest, file: PurePosixPath) -> DaemonSpec:
        """The daemon that mounts the image at `file`; what it needs on the host is put there."""
        ...

    def is_ready(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        """Whether the daemon, which runs, says that it serves."""
        ...

    def is_alive(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        """Whether the daemon runs and its device can still be written to."""
        ...

    def observe_facts(self, host: Host, request: MapRequest, file: PurePosixPath) -> ServerFacts:
        """What it says of itself."""
        ...

    def grow(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        """Have it serve `request.volume.size_bytes`. Raises GrampusError when it cannot."""
        ...

    @property
    def exchanges_live(self) -> bool:
        """Whether the next three can be used; they are as those of a `Driver`."""
        ...

    def close_image(
        self, host: Host, request: MapRequest, file: PurePosixPath, *, limit_s: float
    ) -> None:
        """Let go of the image."""
        ...

    def open_image(self, host: Host, request: MapRequest, file: PurePosixPath) -> str | None:
        """Open it, or another one."""
        ...

    def ensure_answering(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        """Open the last one, or fail what waits."""
        ...

    def draw_down(self, host: Host, request: MapRequest, file: PurePosixPath) -> int | None:
        """As `Driver.draw_down`."""
        ...

    def check_cluster(self, host: Host, request: MapRequest, file: PurePosixPath) -> ClientAnswer:
        """As `Driver.check_cluster`."""
        ...

    def take_snapshot(
        self, host: Host, request: MapRequest, file: PurePosixPath, snapshot: str
    ) -> ClientAnswer:
        """As `Driver.take_snapshot`."""
        ...

    def stop(self, host: Host, request: MapRequest, file: PurePosixPath) -> None:
        """Flush and end what can be ended in good order; the container is removed after it."""
        ...

    def observe_live(
        self, host: Host, request: MapRequest, file: PurePosixPath
    ) -> LiveVolume | None:
        """How it does now; None when it cannot say."""
        ...

    def parse_clients(self, log: str) -> list[str]:
        """Addresses of the clients that the daemon was, from its log."""
        ...


class ExportDriver:
    """A `Driver` of an export server and a loop device."""

    def __init__(self, server: ExportServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    @property
    def grows_live(self) -> bool:
        return self._server.grows_live

    @property
    def exchanges_live(self) -> bool:
        return self._server.exchanges_live

    def serves(self, host: Host, request: MapRequest) -> bool:
        return self._server.is_alive(host, request, export_file(host, request))

    def close_image(self, host: Host, request: MapRequest, *, limit_s: float) -> None:
        self._server.close_image(host, request, export_file(host, request), limit_s=limit_s)

    def open_image(self, host: Host, request: MapRequest) -> str | None:
        return self._server.open_image(host, request, export_file(host, request))

    def ensure_answering(self, host: Host, request: MapRequest) -> None:
        if self._server.exchanges_live:
            self._server.ensure_answering(host, request, export_file(host, request))

    def draw_down(self, host: Host, request: MapRequest) -> int | None:
        return self._server.draw_down(host, request, export_file(host, request))

    def drop_flushes(self, host: Host, request: MapRequest) -> None:
        if keeps_order(request.volume):
            return  # it does not wait for any
        # Not the recorded device: after a restart of the host its number may be another volume's.
        device = self.find(host, request)
        if device is not None:
            drop_flushes(host, device)

    def ensure_flushed(self, host: Host, request: MapRequest) -> None:
        if keeps_order(request.volume):
            flush_export(host, export_file(host, request))
            return
        device = self.find(host, request)
        if device is None:
            raise GrampusError(
                f"The volume {request.volume.name} has no block device on {host.name}.",
                f"See its state: `grampus volume show {request.volume.name}`.",
                code="no-device",
            )
        ensure_flushed(host, device)

    def check_cluster(self, host: Host, request: MapRequest) -> ClientAnswer:
        return self._server.check_cluster(host, request, export_file(host, request))

    def take_snapshot(self, host: Host, request: MapRequest, snapshot: str) -> ClientAnswer:
        return self._server.take_snapshot(host, request, export_file(host, request), snapshot)

    def ensure_mapped(self, host: Host, request: MapRequest) -> Mapped:
        file = export_file(host, request)
        # Its directory goes last: without it nothing of an earlier attachment is left, and looking
        # for that takes a quarter of a second, for which clients of a moved database would wait.
        is_clean = not is_there(host, file.parent)
        devices = None if is_clean else self._find(host, request)
        if devices is None:
            if not is_clean:
                self.ensure_unmapped(host, request)
            host.run(["mkdir", "-p", str(file.parent)])
            host.run(["touch", str(file)])
            host.ensure_daemon(self._server.prepare(host, request, file))
            # Before the export is really there, losetup would attach the empty file underneath.
            wait_until(
                self._clock,
                lambda: self._is_exported(host, request, file),
                what=f"the export of {request.image} on {host.name}",
                timeout_s=REPLAY_TIMEOUT_S if request.is_unapplied else START_TIMEOUT_S,
                interval_s=0.02,
            )
            devices = make_devices(host, file, request)
        facts = self._server.observe_facts(host, request, file)
        return Mapped(devices.data, devices.log, facts.client_address, str(file), facts.transport)

    def find(self, host: Host, request: MapRequest) -> str | None:
        devices = self._find(host, request)
        return None if devices is None else devices.data

    def _find(self, host: Host, request: MapRequest) -> Devices | None:
        file = export_file(host, request)
        if not self._server.is_alive(host, request, file):
            return None
        return find_devices(host, file, request)

    def ensure_grown(self, host: Host, request: MapRequest) -> None:
        file = export_file(host, request)
        device = self.find(host, request)
        if device is None:
            return
        self._server.grow(host, request, file)
        ensure_loop_capacity(host, device)

    def ensure_unmapped(self, host: Host, request: MapRequest) -> None:
        file = export_file(host, request)
        ensure_devices_absent(host, file, request)
        self._server.stop(host, request, file)
        host.ensure_daemon_absent(self.daemon(request))
        ensure_unmounted(host, file, self._clock)  # a killed daemon could not do it
        host.run(["rm", "-rf", "--one-file-system", str(file.parent)])

    def daemon(self, request: MapRequest) -> str:
        return self._server.daemon(request)

    def observe_live(self, host: Host, request: MapRequest) -> LiveVolume | None:
        return self._server.observe_live(host, request, export_file(host, request))

    def observe_clients(self, host: Host, request: MapRequest) -> list[str]:
        log = host.daemon_log(self.daemon(request), last_lines=_LOG_LINES)
        return self._server.parse_clients(log)

    def _is_exported(self, host: Host, request: MapRequest, file: PurePosixPath) -> bool:
        """Whether it is there, at its size. Raises GrampusError when its driver has ended."""
        if (
            self._server.is_ready(host, request, file)
            and observe_mounted_source(host, file) is not None
        ):
            size = host.run(["stat", "--format", "%s", str(file)], check=False)
            if size.returncode == 0 and int(size.stdout) == request.volume.size_bytes:
                return True
        # After what the driver has answered, if it did: to ask takes CPU time from its start.
        if is_daemon_running(host, self.daemon(request)):
            return False
        said = host.daemon_log(self.daemon(request), last_lines=2)
        problem = f"The driver of {request.image} ended on {host.name}: {said}"
        if journal_damage.is_damage(said):
            remedy = journal_damage.explain_remedy(request.volume.name)
            raise GrampusError(problem, remedy, code=journal_damage.CODE)
        remedy = "`grampus lab status` (or `site check`) shows whether the cluster answers."
        raise GrampusError(problem, remedy, code="driver-failed")


def export_file(host: Host, request: MapRequest) -> PurePosixPath:
    """The file that the image appears as. Its directory holds nothing but what the export needs."""
    return host.data_dir / "exports" / request.volume.name / "image"


def is_daemon_running(host: Host, name: str) -> bool:
    """Whether the daemon's first process is alive."""
    status = host.observe_daemon(name)
    return status is not None and status.state == "running"
