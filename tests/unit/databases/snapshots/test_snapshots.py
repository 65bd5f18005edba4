"""Snapshots of databases: what they keep, how one is gone back to, and schedules carried out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.snapshots.snapshot_schedules import Rest, SnapshotSchedules
from grampus.databases.snapshots.snapshots import DatabaseSnapshots
from grampus.hosts.port import HostUnreachableError
from grampus.state.locks import hold_lock
from grampus.volumes.model import CloneSource
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Killed, stopped_runs
from tests.unit.databases.world import LAB, World, prepared
from tests.unit.operation_runner import planned

ROWS = PurePosixPath("data/rows")
HOURLY = SnapshotSchedule(every_s=3600, keep=2)
Act = Callable[[World], object]


def _snapshots(world: World) -> DatabaseSnapshots:
    return DatabaseSnapshots(world.service().operations)


def _schedules(world: World) -> SnapshotSchedules:
    return SnapshotSchedules(world.service().operations)


def _write(world: World, rows: str, name: str = "demo") -> None:
    attachment = world.volumes.get(name).attachment
    assert attachment is not None
    host = world.hosts[attachment.host]
    host.files[PurePosixPath(attachment.mount_path) / ROWS] = FakeFile(rows)


def _rows(world: World, name: str = "demo") -> str:
    image = world.volumes.images[name]
    return world.volumes._content(image)[ROWS].content


def _snapped(world: World) -> None:
    """Rows `before` are in the snapshot `before`, with passwords of then; rows `later` came."""
    world.create()
    _write(world, "before")
    _snapshots(world).create("demo", "before")
    files = world.volumes.images["demo"].snapshots["before"].files
    accounts = files[PurePosixPath("data/accounts")]
    password = world.service().endpoint("demo").password.get_secret_value()
    accounts.content = accounts.content.replace(password, "of-then")
    _write(world, "later")


def _snapped_and_stopped(world: World) -> None:
    _snapped(world)
    world.service().stop("demo")


def _roll_back(world: World) -> None:
    _snapshots(world).rollback("demo", "before", with_safety=True)


def _roll_back_for_good(world: World) -> None:
    _snapshots(world).rollback("demo", "before", with_safety=False)


def _state(world: World) -> dict[str, object]:
    found = world.volumes.images["demo"].snapshots.values()
    return {
        **world.inventory(),
        "rows": _rows(world),
        "snapshots": [
            (kept.info.name.split("-2026")[0], kept.files[ROWS].content) for kept in found
        ],
    }


def test_taken_while_it_runs_and_called_after_the_time(world: World) -> None:
    world.create()
    _write(world, "before")
    assert _snapshots(world).create("demo").name == "at-20260101-000000"
    assert world.service().show("demo").status == "running"
    assert world.volumes.images["demo"].snapshots["at-20260101-000000"].files[ROWS].content == (
        "before"
    )
    [info] = _snapshots(world).measured("demo").snapshots
    assert info.name == "at-20260101-000000"


@pytest.mark.parametrize(
    ("act", "error", "code"),
    [
        (lambda s: s.create("demo", "before"), RefusedError, "exists"),
        (lambda s: s.create("demo", "Before"), UsageError, "invalid-name"),
        (lambda s: s.create("demo", "auto-me"), UsageError, "invalid-name"),
        (lambda s: s.create("other"), NotFoundError, "not-found"),
        (lambda s: s.measured("other"), NotFoundError, "not-found"),
        (lambda s: s.delete("demo", "befor"), NotFoundError, "not-found"),
        (lambda s: s.protect("demo", "befor", protected=True), NotFoundError, "not-found"),
        (lambda s: s.rollback("demo", "befor", with_safety=True), NotFoundError, "not-found"),
    ],
)
def test_what_cannot_be_changes_nothing(
    world: World, act: Callable[[DatabaseSnapshots], object], error: type[GrampusError], code: str
) -> None:
    _snapped(world)
    before = _state(world)
    with pytest.raises(error) as caught:
        act(_snapshots(world))
    assert caught.value.code == code
    assert _state(world) == before


def test_a_protected_or_cloned_one_is_not_removed(world: World) -> None:
    _snapped(world)
    snapshots = _snapshots(world)
    assert snapshots.protect("demo", "before", protected=True).protected
    with pytest.raises(RefusedError) as caught:
        snapshots.delete("demo", "before")
    assert caught.value.code == "protected"
    snapshots.protect("demo", "before", protected=False)
    _clone(world, "before")
    with pytest.raises(RefusedError) as caught:
        snapshots.delete("demo", "before")
    assert caught.value.code == "has-clones"
    world.volumes.ensure_flattened("copy")
    snapshots.delete("demo", "before")
    assert snapshots.measured("demo").snapshots == ()


@pytest.mark.parametrize("act", [_roll_back, _roll_back_for_good])
@pytest.mark.parametrize("prepare", [_snapped, _snapped_and_stopped])
def test_rolled_back_it_is_what_it_was_with_the_passwords_of_today(
    world: World, prepare: Act, act: Act
) -> None:
    prepare(world)
    before = world.inventory()
    act(world)
    assert _rows(world) == "before"
    assert world.inventory() == before
    if prepare is _snapped_and_stopped:
        world.service().start("demo")  # which waits until a login with them works
    assert world.service().show("demo").status == "running"


def test_what_was_there_is_in_the_safety_snapshot(world: World) -> None:
    _snapped(world)
    world.clock.sleep(60)
    safety = _snapshots(world).rollback("demo", "before", with_safety=True).safety_snapshot
    assert safety == "before-rollback-20260101-000100"
    _snapshots(world).rollback("demo", safety, with_safety=False)
    assert _rows(world) == "later"


@pytest.mark.parametrize("act", [_roll_back, _roll_back_for_good])
def test_a_rollback_keeps_flushes(world: World, act: Act) -> None:
    """Its database is somebody's, unlike a copy that is being made (ADR 53)."""
    _snapped(world)
    dropped = list(world.volumes.dropped_flushes)
    act(world)
    assert world.volumes.dropped_flushes == dropped


def test_a_protected_database_is_rolled_back_with_a_way_back_alone(world: World) -> None:
    _snapped(world)
    world.service().protect("demo", True)
    with pytest.raises(RefusedError) as caught:
        _roll_back_for_good(world)
    assert caught.value.code == "protected"
    _roll_back(world)
    assert _rows(world) == "before"


def test_a_host_that_is_away_is_waited_for(world: World) -> None:
    _snapped(world)
    world.hosts[world.service().get("demo").spec.host].up = False
    with pytest.raises(HostUnreachableError):
        _roll_back(world)
    assert world.journal.unfinished(LAB) == []


def test_when_the_server_does_not_start_on_it_the_database_is_what_it_was(world: World) -> None:
    _snapped(world)
    before, snapshots = world.inventory(), world.volumes.images["demo"].snapshots
    host = world.hosts[world.service().get("demo").spec.host]
    host.serve_failure = "[ERROR] the data directory is of a later version"
    with pytest.raises(GrampusError, match="ended"):
        _roll_back(world)
    host.serve_failure = ""
    world.service().converge()
    assert _rows(world) == "later"
    assert world.inventory() == before
    assert sorted(snapshots) == ["before", "before-rollback-20260101-000000"]


@pytest.mark.parametrize(
    ("prepare", "act", "error"),
    [
        (_snapped, _roll_back, Killed()),
        (_snapped, _roll_back, OSError("disk gone")),
        (_snapped, _roll_back_for_good, Killed()),
        (_snapped_and_stopped, _roll_back, Killed()),
    ],
)
def test_a_rollback_stopped_at_any_point_is_done_or_undone(
    tmp_path: Path, prepare: Act, act: Act, error: BaseException
) -> None:
    """INV-22. Killed, it is finished; failing, it is undone if there is a way back."""
    whole = World(tmp_path / "whole")
    prepare(whole)
    before = _state(whole)
    act(whole)
    after = _state(whole)
    whole.close()
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, error, more_than=10):
        world.service().converge()
        found = _state(world)
        if isinstance(error, Killed) or act is _roll_back_for_good:
            assert found == after, f"stopped at {point}"
        else:
            snapshots = found.pop("snapshots")
            assert found == {k: v for k, v in before.items() if k != "snapshots"}
            assert isinstance(snapshots, list)
            assert snapshots[0] == ("before", "before")
            assert snapshots[1:] in ([], [("before-rollback", "later")])


def test_finished_later_it_takes_nothing_away_that_was_written_since(tmp_path: Path) -> None:
    """Cut off when the server serves already, it is not rolled back once more."""
    served = 0
    for point, world in stopped_runs(prepared(tmp_path, _snapped), _roll_back, more_than=10):
        record = world.service().get("demo")
        daemons = world.hosts[record.spec.host].daemons
        if record.last_rollback is not None and "mysqld-demo" in daemons:
            served += 1
            _write(world, "since")
            world.service().converge()
            assert _rows(world) == "since", f"killed at {point}"
    assert served > 0, "it was never cut off there"


def test_a_snapshot_cut_off_is_not_taken_later(world: World) -> None:
    """It would hold another moment than the one that it was asked for."""
    world.create()
    _write(world, "before")
    world.fuse.left = 0
    with pytest.raises(Killed):
        _snapshots(world).create("demo", "before")
    assert world.service().converge() == [
        "The snapshot of the database demo was interrupted. It is now undone."
    ]
    assert _snapshots(world).measured("demo").snapshots == ()


def test_a_schedule_is_kept_with_the_database_and_on_its_image(world: World) -> None:
    world.create()
    schedules = _schedules(world)
    assert schedules.get("demo") is None
    schedules.put("demo", HOURLY)
    assert _schedules(world).get("demo") == HOURLY
    facts = world.volumes.images["demo"].facts
    assert SnapshotSchedule.model_validate_json(facts["snapshot-schedule"]) == HOURLY
    schedules.put("demo", None)
    assert (schedules.get("demo"), facts["snapshot-schedule"]) == (None, "none")
    with pytest.raises(UsageError):
        schedules.put("demo", HOURLY.model_copy(update={"keep": 0}))
    with pytest.raises(NotFoundError):
        schedules.put("other", HOURLY)


def test_due_takes_and_lets_go(world: World) -> None:
    for name in ("demo", "plain"):
        world.create(name)
    _schedules(world).put("demo", HOURLY)
    _snapshots(world).create("demo", "by-hand")
    taken = []
    for _ in range(4):
        carried = _schedules(world).carry_out()
        assert [one.database for one in carried] == ["demo"]
        taken.append(carried[0].taken)
        assert all(one.is_quiet for one in _schedules(world).carry_out())
        world.clock.sleep(3600)
    assert taken == [f"auto-20260101-0{hour}0000" for hour in range(4)]
    kept = [info.name for info in _snapshots(world).measured("demo").snapshots]
    assert kept == ["by-hand", "auto-20260101-020000", "auto-20260101-030000"]
    assert world.volumes.images["plain"].snapshots == {}


def test_who_looks_again_and_again_asks_for_snapshots_when_one_is_due(world: World) -> None:
    for name in ("demo", "store"):
        world.create(name)
        _schedules(world).put(name, HOURLY)
    rests: dict[str, Rest] = {}
    asked: list[str] = []
    found = world.volumes.snapshots
    world.volumes.snapshots = lambda name: (asked.append(name), found(name))[1]  # type: ignore[method-assign]

    def carry_out() -> list[str | None]:
        asked.clear()
        schedules = SnapshotSchedules(world.service().operations, rests)
        return [one.taken for one in schedules.carry_out()]

    assert carry_out() == ["auto-20260101-000000"] * 2
    assert (carry_out(), asked) == ([], [])
    world.clock.sleep(3599)
    assert (carry_out(), asked) == ([], [])
    world.clock.sleep(1)
    assert carry_out() == ["auto-20260101-010000"] * 2
    # Another schedule is looked at at once, and so is another database of that name.
    _schedules(world).put("demo", HOURLY.model_copy(update={"every_s": 300}))
    assert (carry_out(), set(asked)) == ([None], {"demo"})
    world.clock.sleep(300)
    assert carry_out() == ["auto-20260101-010500"]
    world.service().delete("store")
    world.create("store")
    _schedules(world).put("store", HOURLY)
    assert carry_out() == ["auto-20260101-010500"]
    # After a clock was put back too.
    world.clock.sleep(-400)
    carry_out()
    assert set(asked) == {"demo", "store"}


def test_due_keeps_what_is_protected_or_cloned(world: World) -> None:
    world.create()
    _schedules(world).put("demo", HOURLY)
    for hour in range(2):
        _schedules(world).carry_out()
        world.clock.sleep(3600)
        if hour == 0:
            _snapshots(world).protect("demo", "auto-20260101-000000", protected=True)
    _clone(world, "auto-20260101-010000")
    for _ in range(2):
        carried = _schedules(world).carry_out()[0]
        world.clock.sleep(3600)
    assert carried.kept == {"auto-20260101-010000": "Clones stand on it."}
    assert (carried.deleted, carried.problem) == ([], None)
    assert len(_snapshots(world).measured("demo").snapshots) == 4


def test_what_fails_with_one_keeps_the_others_from_nothing(world: World) -> None:
    for name in ("a", "b", "c"):
        world.create(name)
        _schedules(world).put(name, HOURLY)
    image = world.volumes.images["a"]
    image.record = image.record.model_copy(update={"is_formatted": False})
    with hold_lock(world.home, f"db.{LAB}.b", world.clock, timeout_s=0):
        carried = _schedules(world).carry_out()
    assert [(one.database, one.taken is not None) for one in carried] == [
        ("a", False),
        ("b", False),
        ("c", True),
    ]
    assert carried[0].problem == "It holds nothing."
    assert carried[1].problem is not None


def test_a_look_changes_nothing(world: World) -> None:
    world.create()
    _schedules(world).put("demo", HOURLY)
    before = world.inventory()
    assert [one.taken for one in _schedules(world).carry_out(changes_nothing=True)] == [
        "auto-20260101-000000"
    ]
    assert (world.inventory(), world.volumes.images["demo"].snapshots) == (before, {})


def test_plans_are_told(world: World) -> None:
    _snapped(world)
    snapshots, before = _snapshots(world), world.inventory()
    taken = planned(world.runner, lambda: snapshots.create("demo", "next"))
    assert taken == ["Take the snapshot 'next' of demo"]
    lines = planned(world.runner, lambda: snapshots.rollback("demo", "before", with_safety=True))
    assert world.inventory() == before
    assert lines[2] == "Take the safety snapshot 'before-rollback-20260101-000000'"
    assert lines[3] == "Roll the volume back to the snapshot 'before'"
    assert lines[-1] == "Wait until it answers"


def _clone(world: World, snapshot: str) -> None:
    spec = world.volumes.get("demo").spec
    copy = spec.model_copy(update={"name": "copy", "image": "copy"})
    source = CloneSource(pool=spec.pool, image=spec.image, snapshot=snapshot)
    world.volumes.ensure_cloned(copy, source)
