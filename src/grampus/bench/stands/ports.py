"""What stands are made of and looked at through, as ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.ports import DevicesPort
from grampus.bench.stands.monitors import Monitors
from grampus.bench.stands.quiet import QuietableCluster
from grampus.bench.stands.records import BenchStand
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.databases.model import DatabaseRecord, Endpoint
from grampus.hosts.port import Fleet
from grampus.state.runs import Setting
from grampus.state.store import Store
from grampus.volumes.model import Attachment, VolumeRecord


class StandDatabases(Protocol):
    """Databases as the product makes and changes them. All raise GrampusError."""

    def settle(self, name: str) -> None:
        """Finish or undo what was cut off."""
        ...

    def find(self, name: str) -> DatabaseRecord | None:
        """The database, if it is there as a whole."""
        ...

    def create(self, name: str, stand: BenchStand, parameters: Mapping[str, str]) -> None:
        """Make it in the stand's pool. Raises RefusedError with code `name-taken`."""
        ...

    def ensure_running(self, name: str) -> None:
        """Start it unless it runs."""
        ...

    def endpoint(self, name: str) -> Endpoint:
        """How its user reaches it."""
        ...

    def observe_variables(self, name: str, names: tuple[str, ...]) -> dict[str, str]:
        """Global variables of the running server."""
        ...

    def record_parameters(self, name: str, parameters: Mapping[str, str]) -> None:
        """For its next start."""
        ...

    def set_live(self, name: str, values: Mapping[str, str]) -> None:
        """Global variables of the running server, in effect when it returns."""
        ...

    def restart(self, name: str) -> None:
        """With all that was recorded."""
        ...

    def ensure_absent(self, name: str) -> None:
        """Remove it, protected or not; nothing happens when it is not there."""
        ...


class StandVolumes(Protocol):
    """Volumes as the product makes them. All raise GrampusError."""

    def find(self, name: str) -> VolumeRecord | None:
        """The volume, after what was cut off has been finished or undone."""
        ...

    def create(self, name: str, stand: BenchStand) -> None:
        """Make it in the stand's pool. Raises RefusedError when the name is taken."""
        ...

    def ensure_attached(self, name: str, host: str) -> Attachment:
        """Mounted on the host."""
        ...

    def ensure_absent(self, name: str) -> None:
        """Detach and remove it; nothing happens when it is not there."""
        ...


class StandPools(Protocol):
    """Pools of the cluster. All raise GrampusError."""

    def pool_of(self, copies: int) -> str:
        """The name of the pool for images with so many copies, there or not."""
        ...

    def is_there(self, pool: str) -> bool:
        """Whether the cluster has it."""
        ...

    def ensure(self, pool: str, copies: int) -> None:
        """A replicated pool, made if need be."""
        ...

    def ensure_unused_absent(self, pool: str) -> None:
        """Remove the pool with what the product itself keeps in it, unless others use it."""
        ...

    def ensure_absent(self, pool: str) -> None:
        """Remove a pool with all objects; nothing happens when it is not there."""
        ...


class StandCluster(QuietableCluster, Protocol):
    """The cluster itself."""

    def observe_status(self) -> Mapping[str, Any]:
        """The document of `ceph status`."""
        ...


@dataclass(frozen=True)
class StandPorts:
    """All that stands work with. `directory` holds what drivers are given, on each host.

    `disk_room` reads total and free bytes of the disk that the data is on.
    """

    lab: str
    place: str
    store: Store
    fleet: Fleet
    databases: StandDatabases
    volumes: StandVolumes
    pools: StandPools
    cluster: StandCluster
    devices: DevicesPort
    monitors: Monitors
    capabilities: Callable[[], Capabilities]
    facts: Callable[[], list[Setting]]
    disk_room: Callable[[], tuple[int, int]]
    clock: Clock
    progress: Progress
    raw_dir: Path

    def directory_on(self, host: str) -> PurePosixPath:
        """Where a host has what drivers are given."""
        return self.fleet.host(host).data_dir / "bench" / "stands"
