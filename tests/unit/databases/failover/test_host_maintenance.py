"""A host in maintenance gets no database, and is drained of those that it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.databases.failover.host_maintenance import HostMaintenances
from grampus.databases.live.moving import Moved
from grampus.databases.placement import HostLoad, decide_placement, order_usable
from grampus.hosts.port import HostUnreachableError
from tests.unit.operation_runner import planned

from .failover_world import FailoverWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FailoverWorld]:
    made = FailoverWorld(tmp_path)
    for name in ("one", "two"):
        made.create(name, host="h1")
    yield made
    made.close()


def _service(world: FailoverWorld) -> HostMaintenances:
    return HostMaintenances(world.service().operations, world.moves())


def _hosts(world: FailoverWorld) -> dict[str, str]:
    return world.service().operations.records.hosts()


def test_all_databases_leave_a_host_and_share_the_others(world: FailoverWorld) -> None:
    drained = _service(world).drain("h1", "new disk")
    assert [one.database for one in drained] == ["one", "two"]
    assert all(isinstance(one.outcome, Moved) for one in drained)
    assert _hosts(world) == {"one": "h2", "two": "h3"}
    kept = world.service().operations.records.all_maintenance()["h1"]
    assert (kept.host, kept.reason) == ("h1", "new disk")
    assert _service(world).drain("h1") == []
    assert world.service().operations.records.all_maintenance()["h1"] == kept


def test_stopped_databases_leave_too_and_stay_stopped(world: FailoverWorld) -> None:
    world.service().stop("one")
    _service(world).drain("h1")
    assert world.service().show("one").status == "stopped"
    assert "h1" not in _hosts(world).values()


def test_what_cannot_be_moved_stays_and_the_others_are_moved(world: FailoverWorld) -> None:
    records = world.service().operations.records
    spec = records.get("one").spec
    records.change("one", spec=spec.model_copy(update={"memory_bytes": 1 << 50}))
    first, second = _service(world).drain("h1")
    assert isinstance(first.outcome, GrampusError)
    assert isinstance(second.outcome, Moved)
    assert _hosts(world)["one"] == "h1"


def test_a_host_in_maintenance_gets_nothing_unless_it_is_named(world: FailoverWorld) -> None:
    service = _service(world)
    service.begin("h2")
    world.create("new")
    assert _hosts(world)["new"] == "h3"
    world.service().delete("new")
    world.create("named", host="h2")
    assert _hosts(world)["named"] == "h2"
    moved = service.switch_over("one", None)
    assert moved is not None
    assert moved.record.spec.host == "h3"
    world.lose("h1")
    world.failovers().fail_over("two")
    assert _hosts(world)["two"] == "h3"
    assert service.end("h2")
    assert not service.end("h2")


def test_without_another_host_nothing_is_begun(world: FailoverWorld) -> None:
    service = _service(world)
    for host in ("h2", "h3"):
        service.begin(host)
    with pytest.raises(RefusedError, match=r"in maintenance \(h2, h3\)"):
        service.drain("h1")
    assert "h1" not in world.service().operations.records.all_maintenance()
    assert set(_hosts(world).values()) == {"h1"}


def test_a_lost_host_is_not_drained(world: FailoverWorld) -> None:
    world.lose("h1")
    with pytest.raises(HostUnreachableError, match="cannot be moved"):
        _service(world).drain("h1")
    with pytest.raises(NotFoundError):
        _service(world).begin("h9")


def test_a_plan_names_all_that_would_be_moved(world: FailoverWorld) -> None:
    before = world.inventory()
    plan = planned(world.runner, lambda: _service(world).drain("h1"))
    assert plan == [
        "Put h1 in maintenance",
        "Move one to another host (the first one to h2)",
        "Move two to another host",
    ]
    for change in (lambda: _service(world).begin("h1"), lambda: _service(world).drain("h2")):
        assert planned(world.runner, change)
    assert world.inventory() == before
    assert world.service().operations.records.all_maintenance() == {}


def test_a_drain_that_was_cut_off_goes_on(world: FailoverWorld) -> None:
    world.moves().move("one", "h2")
    _service(world).begin("h1", "new disk")
    (one,) = _service(world).drain("h1")
    assert one.database == "two"
    assert world.service().operations.records.all_maintenance()["h1"].reason == "new disk"


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([], []),
        ([HostLoad("h1", True, 3), HostLoad("h2", True, 1)], ["h2", "h1"]),
        ([HostLoad("h1", False, 0), HostLoad("h2", True, 1)], ["h2"]),
        ([HostLoad("h1", True, 0, in_maintenance=True), HostLoad("h2", True, 1)], ["h2"]),
        ([HostLoad("h1", True, 0, in_maintenance=True)], []),
    ],
)
def test_usable_hosts(loads: list[HostLoad], expected: list[str]) -> None:
    assert order_usable(loads) == expected
    if not expected:
        with pytest.raises(RefusedError):
            decide_placement(loads)
