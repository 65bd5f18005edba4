"""Snapshots of volumes: INV-4, and what keeps a snapshot or makes a rollback wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.units import GIB
from grampus.volumes.model import MeasuredSnapshots
from tests.unit.operation_runner import planned

from .world import IMAGE, World

Prepare = Callable[[World], object]


def _attached(world: World, write_path: str = "direct") -> None:
    world.build_volumed()
    world.create(write_path=write_path)  # type: ignore[arg-type]
    world.attach()


def _write(world: World, data: str) -> None:
    """The writer goes on: what it writes now is in the journal first, if there is one."""
    world.image.data = data
    if world.image.is_journal_open:
        world.image.frames = 5


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
def test_of_a_volume_in_use_it_holds_everything_flushed(world: World, write_path: str) -> None:
    _attached(world, write_path)
    world.service().ensure_snapshot("demo", "before")
    (info,) = world.service().snapshots("demo")
    assert (info.name, info.size_bytes, info.protected) == ("before", GIB, False)
    assert world.image.frames == 0  # the fake cluster fails the test on any that are left
    assert world.service().get("demo").attachment is not None


@pytest.mark.parametrize("write_path", ["journal", "cache"])
def test_of_a_detached_volume_the_journal_is_applied_first(world: World, write_path: str) -> None:
    _attached(world, write_path)
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")
    assert world.image.is_journal_open
    before = world.inventory()
    assert planned(world.runner, lambda: world.service().ensure_snapshot("demo", "before")) == [
        "Apply the journal of 'demo', from h1",
        "Remove the remains on h1",
        "Take the snapshot 'before' of the volume 'demo'",
    ]
    assert world.inventory() == before
    world.service().ensure_snapshot("demo", "before")
    assert not world.image.is_journal_open
    assert world.service().get("demo").host is None


def test_what_nobody_serves_is_mended_first(world: World) -> None:
    _attached(world, "journal")
    world.h1.kill_daemon("volumed-demo")
    with pytest.raises(RefusedError, match="the driver of the volume on h1 has ended") as caught:
        world.service().ensure_snapshot("demo", "before")
    assert caught.value.code == "attachment-lost"
    assert world.image.snapshots == {}
    world.attach()
    world.service().ensure_snapshot("demo", "before")


def test_of_a_volume_that_was_never_used_there_is_nothing_to_keep(world: World) -> None:
    world.create()
    with pytest.raises(RefusedError, match="it has no data") as caught:
        world.service().ensure_snapshot("demo", "before")
    assert caught.value.code == "empty"


def test_is_taken_once_and_keeps_what_it_held(world: World) -> None:
    _attached(world)
    service = world.service()
    service.ensure_snapshot("demo", "before")
    _write(world, "later")
    service.ensure_snapshot("demo", "before")
    assert world.image.snapshots["before"].data == "precious"
    with pytest.raises(RefusedError, match="already") as caught:
        service.require_snapshot_new("demo", "before")
    assert caught.value.code == "exists"


def test_a_client_that_cannot_flush_in_time_is_an_error(world: World) -> None:
    _attached(world)
    world.cluster.refuses_snapshots = True
    with pytest.raises(GrampusError, match="Connection timed out") as caught:
        world.service().ensure_snapshot("demo", "before")
    assert caught.value.code == "snapshot-failed"
    assert world.image.snapshots == {}


def test_listed_with_what_each_added_and_what_was_written_since(world: World) -> None:
    _attached(world)
    service = world.service()
    assert service.snapshots("demo") == []
    assert service.measure_snapshots("demo") == MeasuredSnapshots(snapshots=())
    for name in ("b", "a"):
        service.ensure_snapshot("demo", name)
    assert [(s.name, s.used_bytes) for s in service.snapshots("demo")] == [("b", None), ("a", None)]
    world.image.used_bytes = 12288
    measured = service.measure_snapshots("demo")
    assert [s.used_bytes for s in measured.snapshots] == [4194304, 4194304]
    assert measured.since_last_bytes == 12288


def test_a_protected_one_stays_until_it_is_unprotected(world: World) -> None:
    _attached(world)
    service = world.service()
    service.ensure_snapshot("demo", "before")
    for _ in range(2):
        service.ensure_snapshot_protected("demo", "before", protected=True)
    with pytest.raises(RefusedError) as caught:
        service.ensure_snapshot_absent("demo", "before")
    assert caught.value.code == "protected"
    for _ in range(2):
        service.ensure_snapshot_protected("demo", "before", protected=False)
    for _ in range(2):
        service.ensure_snapshot_absent("demo", "before")
    assert service.snapshots("demo") == []


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda s: s.ensure_snapshot("demo", "Bad Name"), UsageError),
        (lambda s: s.ensure_snapshot("other", "before"), NotFoundError),
        (lambda s: s.snapshots("other"), NotFoundError),
        (lambda s: s.ensure_rolled_back("demo", "befor"), NotFoundError),
        (lambda s: s.ensure_snapshot_protected("demo", "befor", protected=True), NotFoundError),
        (lambda s: s.require_snapshot_removable("demo", "befor"), NotFoundError),
    ],
)
def test_names_are_checked(
    world: World, act: Callable[..., object], error: type[GrampusError]
) -> None:
    _attached(world)
    world.service().ensure_snapshot("demo", "before")
    with pytest.raises(error) as caught:
        act(world.service())
    assert "befor" not in caught.value.problem or "Did you mean 'before'?" in caught.value.remedy


def test_nothing_there_is_gone_already(world: World) -> None:
    world.service().ensure_snapshot_absent("other", "before")


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
@pytest.mark.parametrize("ends", ["drained", "killed"])
def test_rollback_brings_back_what_was_and_no_journal_or_log_comes_over_it(
    world: World, write_path: str, ends: str
) -> None:
    _attached(world, write_path)
    world.service().ensure_snapshot("demo", "before")
    _write(world, "later")
    if ends == "killed":
        world.h1.kill_daemon("volumed-demo")
        world.clock.sleep(60)
    world.service().ensure_detached("demo")
    world.service().ensure_rolled_back("demo", "before")
    assert world.image.data == "precious"
    assert not world.image.is_journal_open
    assert "grampus.journal.local" not in world.image.metadata
    assert world.service().get("demo").local_logs == ()
    for host in ("h2", "h1"):
        world.attach(host=host)
        assert world.image.data == "precious"
        world.service().ensure_detached("demo")


def test_rollback_keeps_the_size_that_the_volume_has_now(world: World) -> None:
    _attached(world)
    world.service().ensure_snapshot("demo", "before")
    world.resize("demo", 2 * GIB)
    world.service().ensure_detached("demo")
    world.service().ensure_rolled_back("demo", "before")
    assert (world.image.size_bytes, world.image.filesystem_bytes) == (2 * GIB, GIB)
    world.attach()
    assert world.image.filesystem_bytes == 2 * GIB


def test_rollback_is_for_a_volume_that_nobody_uses(world: World) -> None:
    _attached(world)
    world.service().ensure_snapshot("demo", "before")
    with pytest.raises(RefusedError, match="a rollback needs a detached volume") as caught:
        world.service().ensure_rolled_back("demo", "before")
    assert caught.value.code == "attached"
    world.service().ensure_detached("demo")
    world.cluster.open_image(IMAGE, "grampus.t.demo", "10.1.1.1")  # somebody by hand
    with pytest.raises(RefusedError) as caught:
        world.service().ensure_rolled_back("demo", "before")
    assert caught.value.code == "in-use"


def test_a_log_on_a_host_that_is_away_is_named(world: World) -> None:
    _attached(world, "cache")
    world.service().ensure_snapshot("demo", "before")
    world.service().fence("demo")
    world.cut_off(world.h1)
    world.service().ensure_rolled_back("demo", "before")
    # Its journal has no objects any more: the next one is another, and this log is set aside.
    assert world.cluster.journals == set()
    assert [log.host for log in world.service().get("demo").local_logs] == ["h1"]


def test_plans_are_told(world: World) -> None:
    _attached(world)
    service, before = world.service(), world.inventory()
    assert planned(world.runner, lambda: service.ensure_snapshot("demo", "before")) == [
        "Take the snapshot 'before' of the volume 'demo'"
    ]
    assert world.inventory() == before
    service.ensure_snapshot("demo", "before")
    service.ensure_detached("demo")
    before = world.inventory()
    for protected, plan in ((True, ["Protect the snapshot 'before'"]), (False, [])):
        assert plan == planned(
            world.runner,
            lambda protected=protected: service.ensure_snapshot_protected(
                "demo", "before", protected=protected
            ),
        )
    assert planned(world.runner, lambda: service.ensure_snapshot_absent("demo", "before")) == [
        "Remove the snapshot 'before' of the volume 'demo'"
    ]
    assert planned(world.runner, lambda: service.ensure_rolled_back("demo", "before")) == [
        "Discard the data in the journal of 'demo', and its logs on hosts",
        "Roll the image back to the snapshot 'before'",
        "Resize the image to the current size of the volume",
    ]
    assert world.inventory() == before
    assert world.journal.unfinished("t") == []


def test_a_volume_goes_with_its_snapshots(world: World) -> None:
    empty = world.inventory()
    _attached(world)
    service = world.service()
    for name in ("one", "two"):
        service.ensure_snapshot("demo", name)
    service.ensure_snapshot_protected("demo", "one", protected=True)
    service.delete("demo")
    assert world.inventory() == empty
