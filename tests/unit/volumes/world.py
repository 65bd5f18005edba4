"""A cluster, its hosts and one GRAMPUS_HOME; and what is in them, to compare before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from grampus.ceph.cluster import CephCluster
from grampus.ceph.rbd import RbdImages
from grampus.core.progress import SilentProgress
from grampus.core.units import GIB
from grampus.state.home import Home
from grampus.state.store import Store
from grampus.volumes.model import Attachment, EncryptionName, WritePath
from grampus.volumes.service import VolumeService
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.interruption import Fuse
from tests.fakes.stepped_journal import SteppedJournal
from tests.unit.operation_runner import make_runner
from tests.unit.volumes.machine import VolumeHost

from .cluster import POOL, Image, RbdCluster
from .local_disk import Log, read_log, write_log

LAB = "t"
TAG = "1a2b3"
IMAGE = f"{POOL}/demo.1/demo"
MOUNT = PurePosixPath("/data/h1/volumes/demo")


class World:
    """`service()` is a new process."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.volumed = root / "volumed"
        self.clock = FakeClock()
        self.fuse = Fuse()
        self.cluster = RbdCluster(self.fuse, self.clock)
        self.h1 = VolumeHost("h1", "10.9.0.11", self.cluster, self.fuse)
        self.h2 = VolumeHost("h2", "10.9.0.12", self.cluster, self.fuse)
        self.fleet = FakeFleet([self.h1, self.h2])
        self.store = Store(None)
        self.journal = SteppedJournal(self.store, self.clock, self.fuse)
        self.runner = make_runner(LAB, self.store, self.journal, self.clock)

    def service(self) -> VolumeService:
        cluster = CephCluster(self.cluster)
        return VolumeService(
            LAB,
            TAG,
            self.home,
            self.store,
            self.runner,
            self.fleet,
            cluster,
            RbdImages(cluster, self.clock),
            self.clock,
            SilentProgress(),
            volumed=self.volumed,
            make_namespace=self.make_namespace,
        )

    def make_namespace(self, volume: str) -> str:
        """The first that is free: `demo.1`, `demo.2`."""
        return next(
            namespace
            for namespace in (f"{volume}.{number}" for number in range(1, 99))
            if f"{POOL}/{namespace}" not in self.cluster.namespaces
        )

    def build_volumed(self) -> None:
        """From now on there is a volumed to put on hosts."""
        self.volumed.parent.mkdir(exist_ok=True)
        self.volumed.write_bytes(b"ELF")

    def create(
        self,
        name: str = "demo",
        write_path: WritePath = "direct",
        max_lag_ms: int | None = None,
        encryption: EncryptionName | None = None,
        external_log_bytes: int | None = None,
        journal_pool: str | None = None,
    ) -> None:
        service = self.service()
        spec = service.plan_create(
            *(name, POOL, GIB),
            write_path=write_path,
            max_lag_ms=max_lag_ms,
            journal_pool=journal_pool,
            encryption=encryption,
        )
        service.create(spec.model_copy(update={"external_log_bytes": external_log_bytes}))

    def attach(self, name: str = "demo", host: str = "h1") -> Attachment:
        """Attach, and write something as soon as there is a file system."""
        attachment = self.service().ensure_attached(name, host)
        image = self.fleet.by_name[host].image_of(attachment.device)
        assert image is not None
        image.data = image.data or "precious"
        if image.is_journal_open:
            image.frames = 3
        files, directory = self.fleet.by_name[host].files, self.local_directory(host)
        if read_log(files, directory) is not None:
            write_log(files, directory, Log(image.epoch, 2))
        return attachment

    def local_directory(self, host: str = "h1") -> PurePosixPath:
        return PurePosixPath(f"/data/{host}/cache/demo")

    def resize(self, name: str, size_bytes: int) -> None:
        service = self.service()
        service.resize(service.plan_resize(name, size_bytes))

    def cut_off(self, host: VolumeHost) -> None:
        """Everything there goes on running, and is heard of no more."""
        host.up = False
        for image in self.cluster.images.values():
            for client in image.clients:
                if client.address.startswith(f"{host.address}:"):
                    client.is_cut_off = True

    @property
    def image(self) -> Image:
        return self.cluster.images[IMAGE]

    def inventory(self) -> dict[str, list[str]]:
        """Everything that could leak, as sorted names."""
        hosts = [self.h1, self.h2]
        service = self.service()
        return {
            "images": sorted(
                f"{name}:{image.size_bytes}" for name, image in self.cluster.images.items()
            ),
            "namespaces": sorted(self.cluster.namespaces),
            "snapshots": sorted(
                f"{name}@{snapshot}:{found.is_protected}"
                for name, image in self.cluster.images.items()
                for snapshot, found in image.snapshots.items()
            ),
            "parents": sorted(
                f"{name}:{image.parent}" for name, image in self.cluster.images.items()
            ),
            "journals": sorted(
                f"{name} in {self.cluster.journal_pools.get(name)}"
                for name in self.cluster.journals
            ),
            "unapplied": sorted(
                name for name, image in self.cluster.images.items() if image.is_journal_open
            ),
            "write paths": sorted(f"{r.spec.name}:{r.spec.write_path}" for r in service.all()),
            "sizes": sorted(f"{r.spec.name}:{r.spec.size_bytes}" for r in service.all()),
            "not filled": sorted(
                f"{h.name}:{device}"
                for h in hosts
                for device in h.mounts.values()
                if (image := h.image_of(device)) is not None
                and image.filesystem_bytes != h._device_size(device)
            ),
            "users": sorted(f"{u}: {caps}" for u, caps in self.cluster.users.items()),
            "watchers": sorted(
                f"{name}:{len(self.cluster.watchers(name))}" for name in self.cluster.images
            ),
            "files": sorted(f"{h.name}:{path}" for h in hosts for path in h.files),
            "directories": sorted(f"{h.name}:{path}" for h in hosts for path in h.directories),
            "daemons": sorted(
                f"{h.name}:{n}:{d.state}" for h in hosts for n, d in h.daemons.items()
            ),
            "loops": sorted(f"{h.name}:{lo.reference}" for h in hosts for lo in h.loops.values()),
            "mappings": sorted(f"{h.name}:{m.image}" for h in hosts for m in h.mappings.values()),
            "mounts": sorted(f"{h.name}:{path}" for h in hosts for path in h.mounts),
            "devices": sorted(
                f"{h.name}:{h._device_size(device)}"
                for h in hosts
                for device in (*h.loops, *h.mappings)
            ),
            "records": [
                f"{r.spec.name}:{r.host}:{r.attachment is not None}"
                f":{','.join(left.host for left in r.fenced)}"
                f":{','.join(f'{log.host}={log.state}' for log in r.local_logs)}"
                for r in service.all()
            ],
            "unfinished": [operation.kind for operation in self.journal.unfinished(LAB)],
        }

    def close(self) -> None:
        self.store.close()


def prepared(root: Path, prepare: Callable[[World], object]) -> Callable[[int], World]:
    """How the n-th run begins: with a world that is prepared."""

    def start(_point: int) -> World:
        world = World(root / "home")
        prepare(world)
        return world

    return start
