"""A lab with one optional part, on hosts in memory; each service is a new process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, cast

from grampus.core.progress import SilentProgress
from grampus.hosts.lab_host import LabFleet
from grampus.lab.images.cache import HostImages
from grampus.lab.parts import PartKind, PartService, SpecT
from grampus.state.home import Home
from grampus.state.operations import OperationJournal
from grampus.state.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.interruption import Fuse, Killed, burn_points
from tests.fakes.lab_host import FakeCeph, FakeLabFleet, FakeLabHost
from tests.unit.operation_runner import make_runner

from .test_bootstrap import SPEC

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass
class PartCeph(FakeCeph):
    """A cluster whose MONs are elsewhere."""

    def running(self, kind: str) -> list[str]:
        return ["h1"] if kind == "mon" else super().running(kind)

    def left(self) -> dict[str, object]:
        """All that a part may change in it."""
        return {"pools": sorted(self.pools), "users": sorted(self.users)}


class PartHost(FakeLabHost):
    """A host that has no MON."""

    def has_mon(self) -> bool:
        return False


class PartWorld(Generic[SpecT]):
    """One GRAMPUS_HOME and hosts."""

    def __init__(
        self, root: Path, kind: PartKind[SpecT], ceph: PartCeph, host_type: type[PartHost]
    ) -> None:
        self.kind = kind
        self.fuse = Fuse()
        self.ceph = ceph
        self.hosts = [
            host_type(name, SPEC.host_address(name), ceph, self.fuse) for name in SPEC.host_names
        ]
        self.home = Home(root)
        self.store = Store(self.home.store_file)
        self.clock = FakeClock()
        self.journal = OperationJournal(self.store, self.clock)

    def service(self, image: str = "sid") -> PartService[SpecT]:
        return PartService(
            self.kind,
            SPEC.model_copy(update={"image_name": image}),
            self.home,
            self.store,
            make_runner(SPEC.name, self.store, self.journal, self.clock),
            HostImages(self.home, REPOSITORY / "images", self.clock),
            cast(LabFleet, FakeLabFleet(list(self.hosts))),
            self.clock,
            SilentProgress(),
        )

    def up(self) -> SpecT:
        service = self.service()
        spec = service.plan_up(None, build_image=False)
        service.up(spec)
        return spec

    def down(self) -> None:
        self.service().down()

    def left(self) -> dict[str, object]:
        """All that a part may be made of."""
        secrets = self.home.secrets_dir(SPEC.name)
        return {
            "cluster": self.ceph.left(),
            "files": sorted(str(path) for host in self.hosts for path in host.files),
            "daemons": [status for host in self.hosts for status in host.observe_daemons()],
            "secrets": sorted(p.name for p in secrets.glob("*")) if secrets.exists() else [],
            "record": self.kind.find(self.store, SPEC.name),
            "unfinished": self.journal.unfinished(SPEC.name),
        }

    def close(self) -> None:
        self.store.close()


def check_cut_off_anywhere(make_world: Callable[[Path], PartWorld[SpecT]], root: Path) -> None:
    """A start and a removal that are killed at any command are ended by the next call."""
    for goes in ("up", "down"):
        whole = make_world(root / goes / "whole")
        whole.up()
        if goes == "down":
            whole.down()
        expected = whole.left()
        whole.close()
        for point in burn_points():
            world = make_world(root / goes / str(point))
            if goes == "down":
                world.up()
            act = world.up if goes == "up" else world.down
            world.fuse.left = point
            try:
                act()
            except Killed:
                act()
                assert world.left() == expected, f"{goes} killed at {point}"
                continue
            finally:
                world.close()
            assert point > LEAST_POINTS
            break


LEAST_POINTS = 4  # what a start or a removal runs, at least
