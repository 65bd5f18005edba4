"""What environments are made of and looked at through, as ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from grampus.bench.drivers.command import LAB_ADMIN, CephClient
from grampus.bench.environments.environment_plan import EnvironmentPlan
from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.layouts import SHARED_NOTE, LayoutPort, decide_hosts
from grampus.bench.environments.monitors import Monitors
from grampus.bench.environments.osd_needs import OsdFill, OsdNeeds, PlaceOsds
from grampus.bench.environments.profiles import TuningPort
from grampus.bench.environments.quiet import QuietableCluster
from grampus.bench.matrix.capabilities import Capabilities
from grampus.bench.matrix.cells import Cell
from grampus.bench.measured_ports import DevicesPort
from grampus.core.clock import Clock
from grampus.core.progress import Progress
from grampus.databases.growth.decide_growth import FileSystem
from grampus.databases.model import DatabaseRecord, DatabaseSpec, Endpoint
from grampus.hosts.port import Fleet, Host
from grampus.state.runs import Setting
from grampus.state.store import Store
from grampus.volumes.model import Attachment, DriverName, VolumeRecord


class EnvironmentDatabases(Protocol):
    """Databases as the product makes and changes them. All raise GrampusError."""

    def settle(self, name: str) -> None:
        """Finish or undo what was cut off."""
        ...

    def find(self, name: str) -> DatabaseRecord | None:
        """The database, if it is there as a whole."""
        ...

    def create(
        self,
        name: str,
        environment: BenchEnvironment,
        parameters: Mapping[str, str],
        *,
        host: str | None,
    ) -> None:
        """Make it in the environment's pool; without a `host`, wherever the product would.

        Raises RefusedError with code `name-taken`.
        """
        ...

    def ensure_running(self, name: str) -> None:
        """Start it unless it runs."""
        ...

    def ensure_driver(self, name: str, driver: DriverName) -> None:
        """Its volume attached through that driver, and the server running on it."""
        ...

    def ensure_stopped(self, name: str) -> None:
        """Stop it, with its volume closed; nothing happens when it is stopped."""
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

    def observe_rooms(self, names: Sequence[str]) -> Mapping[str, FileSystem]:
        """The file systems of their volumes by database, of those that a host has mounted."""
        ...

    def ensure_absent(self, name: str) -> None:
        """Remove it, protected or not; nothing happens when it is not there."""
        ...


class EnvironmentGuests(Protocol):
    """Virtual machines in which servers of databases run instead. All raise GrampusError."""

    def ensure_image(self) -> None:
        """What machines are made of, built if need be."""
        ...

    def ensure_serving(self, spec: DatabaseSpec) -> None:
        """The server of a stopped database in a virtual machine, with the spec's parameters."""
        ...

    def ensure_absent(self, name: str) -> None:
        """End it with all that it has on hosts; nothing happens when there is none."""
        ...

    def note(self, host: str) -> str | None:
        """What must stand beside figures of a virtual machine on that host, as a sentence."""
        ...


class EnvironmentVolumes(Protocol):
    """Volumes as the product makes them. All raise GrampusError."""

    def find(self, name: str) -> VolumeRecord | None:
        """The volume, after what was cut off has been finished or undone."""
        ...

    def create(self, name: str, environment: BenchEnvironment) -> None:
        """Make it in the environment's pool. Raises RefusedError when the name is taken."""
        ...

    def ensure_attached(self, name: str, host: str, driver: DriverName | None) -> Attachment:
        """Mounted on the host, through that driver; None: the best of the host."""
        ...

    def ensure_absent(self, name: str) -> None:
        """Detach and remove it; nothing happens when it is not there."""
        ...


class EnvironmentPools(Protocol):
    """Pools of the cluster. All raise GrampusError."""

    def named(self, environment: str) -> str:
        """The name of the pool that holds the objects of that environment, there or not."""
        ...

    def pool_of(self, copies: int, *, osd_set: str | None, erasure_code: str) -> str:
        """The name of the pool for images on those OSDs, there or not: with so many copies, also
        of their data unless these are erasure-coded (`none`: they are not).
        """
        ...

    def is_there(self, pool: str) -> bool:
        """Whether the cluster has it."""
        ...

    def ensure(self, pool: str, copies: int, *, osd_set: str | None, erasure_code: str) -> None:
        """The pool for images of `pool_of` on those OSDs (None: the place's own), made if need be.

        One of another name holds objects alone, which are erasure-coded or have so many copies.
        """
        ...

    def ensure_unused_absent(self, pool: str) -> None:
        """Remove the pool with what the product itself keeps in it, unless others use it."""
        ...

    def ensure_absent(self, pool: str) -> None:
        """Remove a pool with all objects; nothing happens when it is not there."""
        ...


class EnvironmentOsdSets(Protocol):
    """OSDs beside those that the place was made with. All raise GrampusError."""

    def place_osds(self) -> PlaceOsds:
        """Those that it was made with."""
        ...

    def is_there(self, name: str) -> bool:
        """Whether there is a set of that name."""
        ...

    def ensure(self, needs: OsdNeeds) -> None:
        """The set `needs.name`, whole and up."""
        ...

    def lift_limits(self, name: str) -> None:
        """The set's devices are as fast as the machine's, until `impose_limits`."""
        ...

    def impose_limits(self, name: str) -> None:
        """The set's devices are limited as their media again, with all that was written on them.

        Nothing happens when it is not there.
        """
        ...

    def ensure_absent(self, name: str) -> None:
        """Remove the set; no pool is on it any more. Nothing happens when it is not there."""
        ...

    def observe_fill(self, name: str) -> OsdFill:
        """How full the set's OSDs are, as they last told."""
        ...


class EnvironmentCluster(QuietableCluster, Protocol):
    """The cluster itself."""

    def observe_osd_map(self) -> Mapping[str, Any]:
        """The document of `ceph osd dump`."""
        ...

    def observe_status(self) -> Mapping[str, Any]:
        """The document of `ceph status`."""
        ...


def _has_room(plan: EnvironmentPlan) -> None:
    """Whoever makes what the environment has finds out by itself."""


@dataclass(frozen=True)
class EnvironmentPorts:
    """All that environments work with. `directory` holds what drivers are given, on each host.

    `lab` is what records are kept under. `disk_room` reads total and free bytes of the disk that
    the data is on. `client` is that of load generators. `look` is a sentence: how to see how the
    cluster does; `options` are those of a command that name the place, with a space before.
    `shared_note` stands beside figures where no host is without OSDs. `require_room` raises
    RefusedError for an environment that the place shall not hold. `controller` runs while it is
    entered.
    """

    lab: str
    place: str
    store: Store
    fleet: Fleet
    databases: EnvironmentDatabases
    guests: EnvironmentGuests
    volumes: EnvironmentVolumes
    pools: EnvironmentPools
    osd_sets: EnvironmentOsdSets
    cluster: EnvironmentCluster
    devices: DevicesPort
    monitors: Monitors
    capabilities: Callable[[], Capabilities]
    facts: Callable[[Sequence[Cell]], list[Setting]]
    disk_room: Callable[[], tuple[int, int]]
    clock: Clock
    progress: Progress
    raw_dir: Path
    tuning: TuningPort
    layout: LayoutPort
    client: CephClient = LAB_ADMIN
    look: str = "See with `grampus lab status` how the cluster does."
    options: str = ""
    shared_note: str | None = SHARED_NOTE
    require_room: Callable[[EnvironmentPlan], None] = _has_room
    controller: Callable[[], AbstractContextManager[None]] = nullcontext

    def directory_on(self, host: str) -> PurePosixPath:
        """Where a host has what drivers are given."""
        # Earlier releases used this directory: the word stays.
        return self.fleet.host(host).data_dir / "bench" / "stands"

    def hosts_for(self, layout: str) -> list[Host]:
        """Hosts for databases, volumes and load generators, in their order."""
        port = self.layout
        names = decide_hosts(layout, port.osd_hosts, port.other_hosts)
        return [self.fleet.host(name) for name in names]
