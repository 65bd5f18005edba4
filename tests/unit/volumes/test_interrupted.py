"""INV-22, INV-23: stopped before or after any single call, the next process makes it whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES
from tests.fakes.interruption import Killed, burn_points, in_turn, is_stopped, stopped_runs
from tests.unit.volumes.machine import VolumeHost

from .cluster import POOL
from .world import IMAGE, World, prepared

Act = Callable[[World], object]


def _nothing(world: World) -> None:
    del world


def _created(world: World) -> None:
    world.create()


def _with_refused_krbd(world: World) -> None:
    world.h1.capabilities = world.h2.capabilities = ("krbd", "fuse")
    world.h1.refused_maps = ("krbd",)
    world.create()


def _with_krbd(world: World) -> None:
    world.h1.capabilities = ("krbd", "fuse")
    world.create()


def _with_volumed(world: World) -> None:
    world.build_volumed()
    world.create()


def _with_refused_volumed(world: World) -> None:
    world.h1.volumed_failure = "volumed: no librbd there"
    _with_volumed(world)


def _with_journal(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal")


def _with_journal_elsewhere(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal", journal_pool="archive")


def _with_cache(world: World) -> None:
    world.build_volumed()
    world.create(write_path="cache")


def _with_external_log(world: World) -> None:
    world.build_volumed()
    world.create(write_path="journal", external_log_bytes=EXTERNAL_LOG_BYTES)


# -- what is done, and what happens -------------------------------------------------------------


def _attach(world: World) -> None:
    world.service().ensure_attached("demo", "h1")


def _attach_and_write(world: World) -> None:
    world.attach()


def _attach_elsewhere(world: World) -> None:
    world.attach(host="h2")


def _detach(world: World) -> None:
    world.service().ensure_detached("demo")


def _resize(world: World) -> None:
    world.resize("demo", 2 << 30)


def _fence(world: World) -> None:
    world.service().fence("demo")


def _fence_if_attached(world: World) -> None:
    if world.service().get("demo").host is not None:
        _fence(world)


def _give_up_if_current(world: World) -> None:
    if world.service().get("demo").local_logs[0].state == "current":
        _fence(world)


def _replay(world: World) -> None:
    world.service().replay("demo")


def _move_journal(world: World) -> None:
    world.service().ensure_write_path("demo", None, journal_pool="archive")


def _move_journal_back(world: World) -> None:
    world.service().ensure_write_path("demo", None, journal_pool=POOL)


def _write_directly(world: World) -> None:
    world.service().ensure_write_path("demo", "direct")


def _delete(world: World) -> None:
    world.service().delete("demo")


def _delete_again(world: World) -> None:
    """Killed while it asked whether anything stands on the volume, it had begun nothing yet."""
    if world.service().find("demo") is not None:
        _delete(world)


def _kill_qsd(world: World) -> None:
    world.h1.kill_daemon("qsd-demo")


def _kill_volumed(world: World) -> None:
    world.h1.kill_daemon("volumed-demo")


def _cut_power(world: World) -> None:
    world.h1.cut_power()


def _cut_off(world: World) -> None:
    world.cut_off(world.h1)


# -- what is there before -----------------------------------------------------------------------

_attached = in_turn(_created, _attach_and_write)
_driver_killed = in_turn(_attached, _kill_qsd)
_power_cut = in_turn(_attached, _cut_power)
_attached_krbd = in_turn(_with_krbd, _attach_and_write)
_attached_volumed = in_turn(_with_volumed, _attach_and_write)
_volumed_killed = in_turn(_attached_volumed, _kill_volumed)
_volumed_cut_off = in_turn(_attached_volumed, _cut_off)
_fenced = in_turn(_attached_volumed, _fence)
_attached_journal = in_turn(_with_journal, _attach_and_write)
_journal_killed = in_turn(_attached_journal, _kill_volumed)
_journal_left = in_turn(_journal_killed, _detach)  # nobody has applied it
_journal_left_direct = in_turn(_journal_left, _write_directly)
_journal_fenced = in_turn(_attached_journal, _fence)
_journal_elsewhere_left = in_turn(
    _with_journal_elsewhere, _attach_and_write, _kill_volumed, _detach
)
_attached_cache = in_turn(_with_cache, _attach_and_write)
_cache_killed = in_turn(_attached_cache, _kill_volumed)
_cache_left = in_turn(_cache_killed, _detach)  # the log on h1 holds what the cluster lacks
_cache_left_direct = in_turn(_cache_left, _write_directly)
_cache_left_on_a_lost_host = in_turn(_cache_left, _cut_off)
_cache_cut_off = in_turn(_attached_cache, _cut_off)
_cache_fenced = in_turn(_attached_cache, _fence)
_attached_log = in_turn(_with_external_log, _attach_and_write)
_log_killed = in_turn(_attached_log, _kill_volumed)
_log_fenced = in_turn(_attached_log, _fence)
_resize_and_attach = in_turn(_resize, _attach)
_fence_and_attach = in_turn(_fence_if_attached, _attach)
_fence_and_attach_elsewhere = in_turn(_fence_if_attached, _attach_elsewhere)
_give_up_and_attach_elsewhere = in_turn(_give_up_if_current, _attach_elsewhere)
_replay_and_attach_elsewhere = in_turn(_replay, _attach_elsewhere)

# The state before, what is stopped, and what the next process does (besides converging).
CASES: dict[str, tuple[Act, Act, Act]] = {
    "create": (_nothing, _created, _nothing),
    "delete": (_created, _delete, _delete_again),
    "delete-attached": (_attached, _delete, _delete_again),
    "delete-after-power-cut": (_power_cut, _delete, _delete_again),
    "attach": (_created, _attach, _attach),
    "attach-krbd": (_with_krbd, _attach, _attach),
    "attach-after-krbd-refused": (_with_refused_krbd, _attach, _attach),
    "mend-killed-driver": (_driver_killed, _attach, _attach),
    "mend-after-power-cut": (_power_cut, _attach, _attach),
    "detach": (_attached, _detach, _detach),
    "detach-killed-driver": (_driver_killed, _detach, _detach),
    "attach-then-detach": (_created, _attach, _detach),
    "mend-then-delete": (_driver_killed, _attach, _delete),
    "attach-volumed": (_with_volumed, _attach, _attach),
    "attach-after-volumed-failed": (_with_refused_volumed, _attach, _attach),
    "mend-killed-volumed": (_volumed_killed, _attach, _attach),
    "detach-volumed": (_attached_volumed, _detach, _detach),
    "attach-volumed-then-delete": (_with_volumed, _attach, _delete),
    "resize-detached": (_created, _resize, _resize),
    "resize-attached": (_attached_volumed, _resize, _resize),
    "resize-krbd": (_attached_krbd, _resize, _resize),
    "resize-dead": (_volumed_killed, _resize, _resize),
    "resize-then-attach": (_with_volumed, _resize, _resize_and_attach),
    "fence": (_attached_volumed, _fence, _fence),
    "fence-a-lost-host": (_volumed_cut_off, _fence, _fence),
    "fence-then-attach-there": (_attached_volumed, _fence, _fence_and_attach),
    "fence-then-attach-elsewhere": (_volumed_cut_off, _fence, _fence_and_attach_elsewhere),
    "attach-fenced": (_fenced, _attach, _attach),
    "attach-fenced-elsewhere": (_fenced, _attach_elsewhere, _attach_elsewhere),
    "detach-fenced": (_fenced, _detach, _detach),
    "delete-fenced": (_fenced, _delete, _delete_again),
    "attach-journal": (_with_journal, _attach, _attach),
    "mend-killed-journal": (_journal_killed, _attach, _attach),
    "detach-journal": (_attached_journal, _detach, _detach),
    "delete-journal": (_attached_journal, _delete, _delete_again),
    "delete-unapplied-journal": (_journal_left, _delete, _delete_again),
    "delete-fenced-journal": (_journal_fenced, _delete, _delete_again),
    "replay": (_journal_left, _replay, _replay),
    "replay-fenced": (_journal_fenced, _replay, _replay),
    "replay-then-delete": (_journal_left, _replay, _delete),
    "move-journal": (_journal_left, _move_journal, _move_journal),
    "move-journal-back": (_journal_elsewhere_left, _move_journal_back, _move_journal_back),
    "move-journal-of-cache": (_cache_left, _move_journal, _move_journal),
    "replay-journal-elsewhere": (_journal_elsewhere_left, _replay, _replay),
    "delete-journal-elsewhere": (_journal_elsewhere_left, _delete, _delete_again),
    "write-directly-after-journal-elsewhere": (
        *(_journal_elsewhere_left, _write_directly, _write_directly),
    ),
    "attach-direct-after-journal": (_journal_left_direct, _attach, _attach),
    "attach-cache": (_with_cache, _attach, _attach),
    "mend-killed-cache": (_cache_killed, _attach, _attach),
    "attach-left-cache": (_cache_left, _attach, _attach),
    "attach-direct-after-cache": (_cache_left_direct, _attach, _attach),
    "detach-cache": (_attached_cache, _detach, _detach),
    "detach-killed-cache": (_cache_killed, _detach, _detach),
    "delete-cache": (_attached_cache, _delete, _delete_again),
    "delete-left-cache": (_cache_left, _delete, _delete_again),
    "delete-fenced-cache": (_cache_fenced, _delete, _delete_again),
    "replay-cache": (_cache_left, _replay, _replay),
    "replay-cache-then-attach-elsewhere": (_cache_left, _replay, _replay_and_attach_elsewhere),
    "fence-cache-then-attach-there": (_attached_cache, _fence, _fence_and_attach),
    "fence-cache-then-attach-elsewhere": (_cache_cut_off, _fence, _fence_and_attach_elsewhere),
    "attach-external-log": (_with_external_log, _attach, _attach),
    "mend-killed-external-log": (_log_killed, _attach, _attach),
    "detach-external-log": (_attached_log, _detach, _detach),
    "resize-external-log": (_attached_log, _resize, _resize),
    "attach-fenced-external-log": (_log_fenced, _attach, _attach),
    "delete-external-log": (_attached_log, _delete, _delete_again),
    "give-up-a-log": (_cache_left_on_a_lost_host, _fence, _give_up_and_attach_elsewhere),
}


def _expected(root: Path, prepare: Act, act: Act, again: Act) -> dict[str, list[str]]:
    world = World(root)
    prepare(world)
    if again is not _nothing:
        again(world)
    elif act is not _created:
        act(world)
    world.clock.sleep(60)
    found = world.inventory()
    world.close()
    return found


@pytest.mark.parametrize("case", CASES)
def test_killed_at_any_call_the_next_process_makes_it_whole(tmp_path: Path, case: str) -> None:
    prepare, act, again = CASES[case]
    expected = _expected(tmp_path / "whole", prepare, act, again)
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, more_than=3):
        world.service().converge()
        if again is not _nothing and world.service().find("demo") is not None:
            again(world)
        world.clock.sleep(60)  # watches of dead clients end
        assert world.inventory() == expected, f"killed at call {point}"
        _require_one_file_system(world)


@pytest.mark.parametrize(
    "case",
    [
        *("create", "delete-attached", "attach", "mend-killed-driver"),
        *("replay", "delete-journal", "mend-killed-journal", "mend-killed-cache"),
    ],
)
def test_failing_at_any_call_is_said_and_the_next_try_makes_it_whole(
    tmp_path: Path, case: str
) -> None:
    prepare, act, again = CASES[case]
    expected = _expected(tmp_path / "whole", prepare, act, again)
    error = GrampusError("The call failed.")
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, error, more_than=3):
        if case == "create":  # undone at once, without anybody converging
            assert world.journal.unfinished("t") == []
        world.service().converge()
        if again is not _nothing:
            again(world)
        world.clock.sleep(60)
        assert world.inventory() == expected, f"failed at call {point}"


@pytest.mark.parametrize(
    ("failpoint", "prepare", "act"),
    [
        ("volume.create/begun", _nothing, _created),
        ("volume.create/image/before", _nothing, _created),
        ("volume.create/image/after", _nothing, _created),
        ("volume.delete/begun", _attached, _delete),
        ("volume.delete/detach/before", _attached, _delete),
        ("volume.delete/detach/after", _attached, _delete),
        ("volume.delete/journal/before", _attached_journal, _delete),
        ("volume.delete/journal/after", _attached_journal, _delete),
        ("volume.delete/image/before", _attached, _delete),
        ("volume.delete/image/after", _attached, _delete),
    ],
)
def test_stopped_at_every_journaled_step_nothing_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch, failpoint: str, prepare: Act, act: Act
) -> None:
    empty = world.inventory()
    prepare(world)
    monkeypatch.setenv(VARIABLE, f"{failpoint}=error")
    with pytest.raises(FailpointError):
        act(world)
    monkeypatch.delenv(VARIABLE)
    world.service().converge()
    assert world.inventory() == empty
    assert world.service().converge() == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("operation", "step"),
    [
        *(("resize", step) for step in ("image", "record", "device", "filesystem")),
        *(("fence", step) for step in ("blocklist", "confirm", "key", "lock", "record")),
    ],
)
def test_resize_and_fence_stopped_at_a_step_are_finished_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, step: str, when: str
) -> None:
    act = _resize if operation == "resize" else _fence
    expected = _expected(tmp_path / "whole", _attached_volumed, _nothing, act)
    world = World(tmp_path / "home")
    _attached_volumed(world)
    monkeypatch.setenv(VARIABLE, f"volume.{operation}/{step}/{when}=error")
    with pytest.raises(FailpointError):
        act(world)
    monkeypatch.delenv(VARIABLE)
    assert world.service().converge() == [
        f"The {operation} of the volume demo was interrupted. It is now finished."
    ]
    world.clock.sleep(60)
    assert world.inventory() == expected
    world.close()


@pytest.mark.parametrize("failpoint", ["begun", "replay/before", "replay/after", "clear/after"])
@pytest.mark.parametrize("prepare", [_journal_left, _journal_fenced], ids=["left", "fenced"])
def test_replay_stopped_at_a_step_leaves_nothing_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare: Act, failpoint: str
) -> None:
    expected = _expected(tmp_path / "whole", prepare, _nothing, _replay)
    world = World(tmp_path / "home")
    prepare(world)
    monkeypatch.setenv(VARIABLE, f"volume.replay/{failpoint}=error")
    with pytest.raises(FailpointError):
        _replay(world)
    monkeypatch.delenv(VARIABLE)
    world.service().converge()
    assert world.service().get("demo").host is None
    assert not [path for path in world.h1.files if path.name.endswith(".keyring")]
    _replay(world)
    assert world.inventory() == expected
    world.close()


def test_a_fence_is_finished_before_what_waits_for_its_host(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resize is cut off, its host is lost, and the fence is cut off too."""
    _attached_volumed(world)
    monkeypatch.setenv(VARIABLE, "volume.resize/device/before=error, volume.fence/key/before=error")
    with pytest.raises(FailpointError):
        _resize(world)
    world.cut_off(world.h1)
    with pytest.raises(FailpointError):
        _fence(world)
    monkeypatch.delenv(VARIABLE)
    assert [op.kind for op in world.journal.unfinished("t")] == ["volume.resize", "volume.fence"]
    assert world.service().converge() == [
        "The fence of the volume demo was interrupted. It is now finished.",
        "The resize of the volume demo was interrupted. It is now finished.",
    ]
    attachment = world.attach(host="h2")
    assert world.h2._device_size(attachment.device) == 2 << 30
    assert world.image.filesystem_bytes == 2 << 30


def test_killed_while_undoing_the_undo_goes_on(tmp_path: Path) -> None:
    """A creation fails at its last call; its undo is killed at each of its own."""
    for point in burn_points():
        world = World(tmp_path / "home")
        empty = world.inventory()
        spec = world.service().plan_create("demo", "databases", 1 << 30)
        world.journal.begin("volume.create", "t", "demo", spec.model_dump(mode="json"))
        world.service().ensure_created(spec)
        stopped = is_stopped(world, lambda w: w.service().converge(), point, Killed())
        world.service().converge()
        assert world.inventory() == empty, f"killed at call {point} of the undo"
        world.close()
        if not stopped:
            assert point > 3
            return


@pytest.mark.parametrize(
    "disaster", [VolumeHost.cut_power, lambda host: host.kill_daemon("qsd-demo")]
)
def test_killed_while_attaching_and_the_host_dies_too(
    tmp_path: Path, disaster: Callable[[VolumeHost], None]
) -> None:
    for _, world in stopped_runs(prepared(tmp_path, _created), _attach, more_than=3):
        if "qsd-demo" in world.h1.daemons:
            disaster(world.h1)
        attachment = world.attach()
        assert world.cluster.watchers(IMAGE)[-1] == attachment.client_address
        assert len(world.h1.loops) == 1


def _require_one_file_system(world: World) -> None:
    """VolumeHost fails the test by itself when a file system with data is made anew."""
    for image in world.cluster.images.values():
        assert image.data in ("", "precious")
