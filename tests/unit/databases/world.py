"""A whole lab of fakes, and what is in it, to compare before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from grampus.core.units import GIB
from grampus.databases.clones.decide_golden import GOLDEN_PREFIX, GOLDEN_SNAPSHOT
from grampus.databases.names.events import DatabaseEvents
from grampus.databases.request import CreateRequest
from grampus.databases.service import DatabaseService
from grampus.databases.view import CreatedDatabase
from grampus.state.history import OperationHistory
from grampus.state.home import Home
from grampus.state.store import Store
from grampus.state.warnings import WarningHistory
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_host import MysqlHost
from tests.fakes.pools_and_images import FakeCluster, FakeImages
from tests.fakes.progress import RecordedProgress
from tests.fakes.stepped_journal import SteppedJournal
from tests.fakes.volumes import FakeVolumes
from tests.unit.operation_runner import make_runner

LAB = "t"
ADDRESSES = ("10.9.0.10", "10.9.0.11", "10.9.0.12")


class World:
    """One GRAMPUS_HOME and the machines behind it; `service()` is a new process."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.clock = FakeClock()
        self.fuse = Fuse()
        self.hosts = {name: MysqlHost(name, self.fuse) for name in ("h1", "h2")}
        self.fleet = FakeFleet(list(self.hosts.values()), ADDRESSES)
        self.volumes = FakeVolumes(self.fleet, self.fuse, self.clock)
        self.cluster = FakeCluster()
        self.progress = RecordedProgress()
        self.store = Store(self.home.store_file)
        self.journal = SteppedJournal(self.store, self.clock, self.fuse)
        self.runner = make_runner(LAB, self.store, self.journal, self.clock, self.progress)

    def service(self) -> DatabaseService:
        return DatabaseService(
            lab=LAB,
            home=self.home,
            store=self.store,
            runner=self.runner,
            clock=self.clock,
            fleet=self.fleet,
            volumes=self.volumes,
            images=FakeImages(),
            cluster=self.cluster,
            progress=self.progress,
        )

    def create(self, name: str = "demo", **wishes: object) -> CreatedDatabase:
        service = self.service()
        wishes = {"write_path": "direct", **wishes}
        request = CreateRequest(name=name, size_bytes=10 * GIB, **wishes)  # type: ignore[arg-type]
        return service.create(service.plan_create(request))

    def inventory(self) -> dict[str, list[str]]:
        """Everything that could leak, as sorted names; a whole golden volume is there to stay."""
        images = {
            name: image
            for name, image in sorted(self.volumes.images.items())
            if not (name.startswith(GOLDEN_PREFIX) and GOLDEN_SNAPSHOT in image.snapshots)
        }
        secrets = self.home.secrets_dir(LAB)
        return {
            "files": [f"{h.name}:{p}" for h in self.hosts.values() for p in sorted(h.files)],
            "directories": [
                f"{h.name}:{p}" for h in self.hosts.values() for p in sorted(h.directories)
            ],
            "daemons": [
                f"{h.name}:{n}:{d.state}"
                for h in self.hosts.values()
                for n, d in sorted(h.daemons.items())
            ],
            "addresses": [
                f"{h.name}:{a}" for h in self.hosts.values() for a in sorted(h.addresses)
            ],
            "images": [
                f"{name}:{image.record.attachment is not None}" for name, image in images.items()
            ],
            "sizes": [f"{name}:{image.record.spec.size_bytes}" for name, image in images.items()],
            "volumes that drop flushes": sorted(self.volumes.unflushed),
            "write paths": [
                f"{name}:{image.record.spec.write_path}:{image.facts.get('write-path')}"
                f":{image.record.spec.max_lag_ms}:{image.facts.get('max-lag-ms')}"
                f":{image.record.spec.journal_memory_bytes}:{image.record.spec.journal_pool}"
                for name, image in images.items()
            ],
            "secrets": sorted(p.name for p in secrets.glob("*")) if secrets.exists() else [],
            "records": [
                f"{v.record.spec.name}:{v.status}:{v.record.spec.size_bytes}"
                f":{v.record.spec.write_path}:{v.record.spec.max_lag_ms}:{v.record.desired}"
                for v in self.service().list()
            ],
            "unfinished": [op.kind for op in self.journal.unfinished(LAB)],
        }

    def close(self) -> None:
        self.store.close()


def database_events(world: World) -> DatabaseEvents:
    """The histories of the world's databases."""
    return DatabaseEvents(
        world.service().operations.records,
        OperationHistory(world.store, LAB),
        WarningHistory(world.store, LAB, world.clock),
    )


WorldT = TypeVar("WorldT", bound=World)


def prepared(
    root: Path, prepare: Callable[[WorldT], object], make: Callable[[Path], WorldT] = World
) -> Callable[[int], WorldT]:
    """How the n-th run begins: with a world of its own that is prepared."""

    def start(point: int) -> WorldT:
        world = make(root / str(point))
        prepare(world)
        return world

    return start
