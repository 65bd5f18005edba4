"""`lab down --keep` leaves nothing of any volume on a host that can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.cli.composition.session import Session
from grampus.cli.lab_settle import stop_databases
from grampus.core.progress import SilentProgress
from grampus.databases.service import DatabaseService
from grampus.volumes.service import VolumeService
from tests.fakes.hosts import FakeFleet
from tests.fakes.hosts import FakeFleet as DatabaseFleet
from tests.fakes.interruption import Fuse
from tests.fakes.pools_and_images import FakeCluster, FakeImages
from tests.fakes.volumes import FakeVolumes
from tests.unit.volumes.world import LAB, World


class SessionOnFakes(Session):
    """What a command of the lab sees, with hosts and cluster in memory; it has no database."""

    def __init__(self, world: World) -> None:
        super().__init__(LAB)
        self._world = world
        self.progress = SilentProgress()  # type: ignore[assignment]

    def fleet(self) -> FakeFleet:  # type: ignore[override]
        return self._world.fleet

    def volumes(self) -> VolumeService:
        return self._world.service()

    def databases(self) -> DatabaseService:
        fleet = DatabaseFleet([], ())
        return DatabaseService(
            lab=LAB,
            home=self._world.home,
            store=self._world.store,
            runner=self._world.runner,
            clock=self._world.clock,
            fleet=fleet,
            volumes=FakeVolumes(fleet, Fuse()),
            images=FakeImages(),
            cluster=FakeCluster(),
            progress=self.progress,
        )


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[World]:
    """Two volumes on h1: `demo`, which is going to be fenced, and `other`."""
    world = World(tmp_path / "world")
    world.home.store_file.parent.mkdir(parents=True, exist_ok=True)
    world.build_volumed()
    for name in ("demo", "other"):
        world.create(name)
        world.attach(name)
    yield world
    world.close()


def _left_on(world: World, host: str) -> list[object]:
    machine = world.fleet.by_name[host]
    keyrings = [path for path in machine.files if path.name.endswith(".keyring")]
    return [*machine.mounts, *machine.loops, *machine.daemons, *keyrings]


def test_what_a_fence_left_goes_with_everything_else(attached: World) -> None:
    attached.service().fence("demo")
    assert _left_on(attached, "h1")
    stop_databases(SessionOnFakes(attached))
    assert _left_on(attached, "h1") == []
    assert attached.service().get("demo").fenced == ()
    assert attached.service().get("other").host is None


def test_what_a_fence_left_goes_beside_the_next_attachment(attached: World) -> None:
    """It went on to h2 while h1 was cut off; h1 is back, and nothing has looked at it yet."""
    attached.cut_off(attached.h1)
    attached.service().fence("demo")
    attached.attach("demo", host="h2")
    attached.h1.up = True
    stop_databases(SessionOnFakes(attached))
    assert _left_on(attached, "h1") == _left_on(attached, "h2") == []


def test_it_goes_although_the_volume_is_attached_to_a_host_that_is_away(attached: World) -> None:
    attached.cut_off(attached.h1)
    attached.service().fence("demo")
    attached.attach("demo", host="h2")
    attached.h1.up = True
    attached.cut_off(attached.h2)
    stop_databases(SessionOnFakes(attached))
    assert _left_on(attached, "h1") == []
    record = attached.service().get("demo")
    assert (record.host, record.fenced) == ("h2", ())


def test_a_host_that_is_away_is_passed_over(attached: World) -> None:
    attached.cut_off(attached.h1)
    attached.service().fence("demo")
    stop_databases(SessionOnFakes(attached))
    assert [left.host for left in attached.service().get("demo").fenced] == ["h1"]
