"""Flattened later: a creation ends before it, growth and others go on beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB
from grampus.databases.catalogue import KINDS, operation_type
from grampus.databases.clones.cloning import DatabaseClones
from grampus.databases.clones.due_flattening import CarriedFlatten, DueFlattening
from grampus.databases.model import DatabaseRecord
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.records import DATABASE_KIND
from grampus.databases.request import CreateRequest
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.state.locks import hold_lock
from grampus.state.stored import records_of_lab
from tests.fakes.interruption import stopped_runs
from tests.fakes.volumes import FakeVolumes
from tests.unit.databases.world import LAB, World, prepared
from tests.unit.operation_runner import planned


class CopyingVolumes(FakeVolumes):
    """Volumes that let something happen while one of them is flattened, or cannot be."""

    meanwhile: Callable[[], object] | None = None
    unflattened: frozenset[str] = frozenset()

    def ensure_flattened(self, name: str) -> None:
        if name in self.unflattened:
            raise GrampusError("No space left.", code="flatten-failed")
        if self.meanwhile is not None:
            self.meanwhile()
        super().ensure_flattened(name)


class CopyingWorld(World):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.volumes: CopyingVolumes = CopyingVolumes(self.fleet, self.fuse, self.clock)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyingWorld]:
    with closing(CopyingWorld(tmp_path / "home")) as made:
        yield made


def create(world: World, name: str = "demo") -> None:
    service = world.service()
    request = CreateRequest(name=name, size_bytes=10 * GIB, write_path="direct")
    service.create(service.plan_create(request), flatten=True)


def due(world: World) -> DueFlattening:
    service = world.service()
    return DueFlattening(service.operations, DatabaseClones(service.operations, service.planner))


def carry_out(world: World) -> list[CarriedFlatten]:
    return due(world).carry_out()


def is_flat(world: World, name: str = "demo") -> bool:
    return world.volumes.images[name].parent is None


def test_a_creation_ends_before_its_volume_is_flattened(world: CopyingWorld) -> None:
    create(world)
    assert not is_flat(world)
    assert world.service().show("demo").status == "running"
    assert world.service().get("demo").flatten_due
    plan = planned(world.runner, lambda: carry_out(world))
    assert plan == ["Copy the data that the volume of demo shares with others"]
    assert not is_flat(world)
    assert carry_out(world) == [CarriedFlatten("demo", is_flat=True)]
    assert is_flat(world)
    assert not world.service().get("demo").flatten_due
    assert carry_out(world) == []


def test_what_is_noted_on_its_image_says_so_too(world: CopyingWorld) -> None:
    create(world)
    (noted,) = [one for one in records_of_lab(world.store, LAB) if one.kind == DATABASE_KIND]
    assert DatabaseRecord.model_validate(noted.body).flatten_due


def test_without_the_wish_it_stays_thin(world: CopyingWorld) -> None:
    world.create()
    assert carry_out(world) == []
    assert not is_flat(world)


def test_asked_for_by_name_it_is_due_no_more(world: CopyingWorld) -> None:
    create(world)
    service = world.service()
    clones = DatabaseClones(service.operations, service.planner)
    assert clones.flatten("demo") is True
    assert not world.service().get("demo").flatten_due


def test_one_that_stands_alone_already_is_due_no_more(world: CopyingWorld) -> None:
    create(world)
    world.volumes.ensure_flattened("demo")
    assert planned(world.runner, lambda: carry_out(world)) == []
    assert world.service().get("demo").flatten_due
    assert carry_out(world) == [CarriedFlatten("demo", is_flat=True)]
    assert not world.service().get("demo").flatten_due


def test_the_stopped_and_the_busy_wait(world: CopyingWorld) -> None:
    create(world)
    world.service().stop("demo")
    assert planned(world.runner, lambda: carry_out(world)) == []
    (waiting,) = carry_out(world)
    assert "stopped" in (waiting.waits or "")
    world.service().start("demo")
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        (waiting,) = carry_out(world)
    assert waiting == CarriedFlatten("demo", waits="another command works on it")
    assert carry_out(world) == [CarriedFlatten("demo", is_flat=True)]


def test_one_that_fails_holds_up_no_other_and_stays_due(world: CopyingWorld) -> None:
    create(world)
    create(world, "other")
    world.volumes.unflattened = frozenset({"demo"})
    failed, done = carry_out(world)
    assert failed.problem is not None
    assert failed.problem.code == "flatten-failed"
    assert (done.database, done.is_flat) == ("other", True)
    assert world.service().get("demo").flatten_due
    world.volumes.unflattened = frozenset()
    assert carry_out(world) == [CarriedFlatten("demo", is_flat=True)]


def test_it_grows_and_is_changed_while_it_is_flattened(world: CopyingWorld) -> None:
    create(world)

    def meanwhile() -> None:
        world.service().resize("demo", 20 * GIB)
        world.service().protect("demo", True)
        assert world.service().converge() == []  # nobody takes the flattening for cut off

    world.volumes.meanwhile = meanwhile
    carry_out(world)
    record = world.service().get("demo")
    assert (record.spec.size_bytes, record.spec.protected, record.flatten_due) == (
        20 * GIB,
        True,
        False,
    )


REFUSED: list[tuple[str, Callable[[World], object]]] = [
    ("stop", lambda w: w.service().stop("demo")),
    ("set", lambda w: w.service().set_write_path("demo", "journal")),
    ("delete", lambda w: w.service().delete("demo")),
    ("trash", lambda w: DatabaseTrash(w.service().operations).trash("demo")),
    ("rename", lambda w: DatabaseNames(w.service().operations).rename("demo", "store")),
    (
        "rollback",
        lambda w: DatabaseSnapshots(w.service().operations).rollback("demo", "s", with_safety=True),
    ),
]


@pytest.mark.parametrize("act", [case[1] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_closes_its_image_is_refused_meanwhile(
    world: CopyingWorld, act: Callable[[World], object]
) -> None:
    create(world)
    world.volumes.ensure_snapshot("demo", "s")
    before = world.inventory()
    refused: list[str] = []

    def meanwhile() -> None:
        with pytest.raises(RefusedError) as caught:
            act(world)
        refused.append(caught.value.code)

    world.volumes.meanwhile = meanwhile
    assert carry_out(world) == [CarriedFlatten("demo", is_flat=True)]
    assert refused == ["flatten-running"]
    assert world.inventory() == before
    act(world)


def test_every_kind_that_closes_an_image_is_known_as_such() -> None:
    kinds = {kind: operation_type(kind) for kind in KINDS}
    assert {name for name, kind in kinds.items() if kind.closes_image or kind.takes_volume} == {
        *("db.delete", "db.trash", "db.rename", "db.start", "db.stop", "db.set", "db.move"),
        *("db.migrate", "db.upgrade", "db.rollback", "db.rollback-for-good"),
        *("db.replica-remove", "db.replica-renew", "db.failover"),
    }


def test_a_second_one_waits_for_the_first(world: CopyingWorld) -> None:
    create(world)
    second: list[CarriedFlatten] = []
    world.volumes.meanwhile = lambda: second.extend(carry_out(world))
    carry_out(world)
    assert [one.waits for one in second] == ["another command works on it"]


def test_a_creation_that_is_killed_is_undone_until_it_has_ended(tmp_path: Path) -> None:
    with closing(CopyingWorld(tmp_path / "whole")) as whole:
        before = whole.inventory()
    start = prepared(tmp_path, lambda _: None, CopyingWorld)
    for point, world in stopped_runs(start, create, more_than=20):
        world.service().converge()
        assert world.inventory() == before, f"killed at {point}"


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), OSError("disk gone")])
def test_stopped_anywhere_in_the_flattening_the_database_stays_and_is_flattened_later(
    tmp_path: Path, error: BaseException | None
) -> None:
    with closing(CopyingWorld(tmp_path / "whole")) as whole:
        create(whole)
        ready = whole.inventory()
    start = prepared(tmp_path, create, CopyingWorld)
    for point, world in stopped_runs(start, carry_out, error, more_than=1):
        world.service().converge()
        assert world.inventory() == ready, f"stopped at {point}"
        assert world.service().get("demo").flatten_due, f"stopped at {point}"
        assert carry_out(world) == [CarriedFlatten("demo", is_flat=True)]
        assert world.inventory() == ready
