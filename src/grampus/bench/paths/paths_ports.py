"""What the suite `paths` needs from the parts beside it, as ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from grampus.bench.paths.costs import OsdWrites
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.databases.model import FlavourName
from grampus.hosts.port import Fleet
from grampus.state.home import Home
from grampus.state.runs import Setting
from grampus.state.store import Store
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.live import LiveVolume
from grampus.volumes.model import (
    Attachment,
    DriverName,
    TransportName,
    VolumeRecord,
    VolumeSpec,
    WritePath,
)


class VolumesPort(Protocol):
    """The volumes of one lab or cluster."""

    def find(self, name: str) -> VolumeRecord | None:
        """The volume, or None."""
        ...

    def plan_create(self, name: str, pool: str, size_bytes: int) -> VolumeSpec:
        """A new volume. Raises RefusedError when the name or the room is taken."""
        ...

    def create(self, spec: VolumeSpec) -> VolumeRecord:
        """Make it; undone as a whole when it fails."""
        ...

    def delete(self, name: str) -> None:
        """Detach it and remove its image."""
        ...

    def ensure_attached(
        self,
        name: str,
        host: str,
        *,
        driver: DriverName | None = None,
        transport: TransportName | None = None,
    ) -> Attachment:
        """Mounted on the host, through that driver and transport if they are given."""
        ...

    def ensure_detached(self, name: str) -> None:
        """Flushed, unmounted, unmapped."""
        ...

    def ensure_write_path(self, name: str, write_path: WritePath) -> VolumeRecord:
        """How a detached volume is written to from its next attachment on."""
        ...

    def observe_live(self, name: str) -> LiveVolume | None:
        """How an attached volume does now; None when there is nobody to ask."""
        ...

    def driver_daemon(self, record: VolumeRecord) -> str | None:
        """The daemon that serves the volume's device, if it has one."""
        ...


class ClusterPort(Protocol):
    """The cluster that the volumes are in."""

    def volume_pool(self) -> str:
        """The pool for the suite's image."""
        ...

    def client_keyring(self, user: str) -> str:
        """The keyring of the cephx user `client.USER`."""
        ...

    def facts(self) -> list[Setting]:
        """Versions, pool, copies, OSDs, media and limits."""
        ...

    def observe_writes(self) -> OsdWrites:
        """Write operations of clients by OSD, each since it started; empty when not told."""
        ...


class ServerImagePort(Protocol):
    """Which host image holds a database server."""

    def image_for(self, flavour: FlavourName) -> str | None:
        """The image's id; None when every host's own image holds the server."""
        ...


@dataclass(frozen=True)
class PathsPorts:
    """All that a run of `paths` works with. `tag` is the lab's: it marks loop devices as ours."""

    home: Home
    lab: str
    tag: str
    store: Store
    fleet: Fleet
    volumes: VolumesPort
    cluster: ClusterPort
    images: ServerImagePort
    program: VolumedProgram
    clock: Clock
    progress: Progress
