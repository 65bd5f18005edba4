"""INV-22, INV-48: migrations, ways back and rotated keys, stopped at any single call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.failpoints import VARIABLE, FailpointError
from grampus.volumes.model import WritePath
from tests.fakes.interruption import Killed, is_stopped, stopped_runs

from .cluster import POOL
from .world import IMAGE, World, prepared

Act = Callable[[World], object]
THERE = "archive"
MOVED = IMAGE.replace(POOL, THERE)


def _attached(world: World, write_path: WritePath) -> None:
    world.build_volumed()
    world.create(write_path=write_path)
    world.attach()
    world.service().ensure_snapshot("demo", "early")
    world.image.data = "later"


def _direct(world: World) -> None:
    _attached(world, "direct")


def _journal(world: World) -> None:
    _attached(world, "journal")


def _cache(world: World) -> None:
    _attached(world, "cache")


def _detached(world: World) -> None:
    _attached(world, "journal")
    world.service().ensure_detached("demo")


def _undrained(world: World) -> None:
    _attached(world, "journal")
    world.image.frames = 3
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")


def _half_way(world: World) -> None:
    _journal(world)
    world.cluster.fails_copies = True
    with pytest.raises(GrampusError):
        _migrate(world)
    world.cluster.fails_copies = False
    world.cluster.images[MOVED].data = "written since"


def _half_way_with_a_dead_daemon(world: World) -> None:
    _half_way(world)
    world.cluster.images[MOVED].frames = 3
    world.h1.kill_daemon("volumed-demo")


def _half_way_and_detached(world: World) -> None:
    _half_way_with_a_dead_daemon(world)
    world.service().ensure_detached("demo")


def _migrate(world: World) -> None:
    world.service().migrations.migrate("demo", THERE)


def _abort(world: World) -> None:
    if world.service().migrations.find("demo") is not None:
        world.service().migrations.abort("demo")


def _rotate(world: World) -> None:
    world.service().key_rotation.rotate("demo")


CASES: dict[str, tuple[Act, Act]] = {
    "direct": (_direct, _migrate),
    "journal": (_journal, _migrate),
    "cache": (_cache, _migrate),
    "detached": (_detached, _migrate),
    "undrained": (_undrained, _migrate),
    "abort": (_half_way, _abort),
    "abort-undrained": (_half_way_with_a_dead_daemon, _abort),
    "abort-detached": (_half_way_and_detached, _abort),
}
ROTATIONS = [(prepare, _rotate) for prepare in (_direct, _journal, _cache, _detached)]


def _state(world: World) -> dict[str, object]:
    images = world.cluster.images
    return world.inventory() | {
        "contents": sorted(f"{name}:{image.data}:{image.frames}" for name, image in images.items()),
        "moving": sorted(world.cluster.moving),
        "left": sorted(world.cluster.left_sources),
        "detached": [d.image for d in world.h1.daemons.values() if d.client is None],
    }


def _finished(world: World) -> dict[str, object]:
    world.service().converge(completes=True)
    return _state(world)


def _assert_one_writer_at_most(world: World) -> None:
    """INV-48: nobody has the former image open once there is another."""
    for moving in world.cluster.moving.values():
        assert all(client.died_at_s is not None for client in moving.image.clients)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("error", [Killed(), GrampusError("The call failed.")], ids=repr)
def test_stopped_at_any_call_the_next_process_makes_it_whole(
    tmp_path: Path, case: str, error: BaseException
) -> None:
    prepare, act = CASES[case]
    whole = World(tmp_path / "whole")
    prepare(whole)
    ends = [_finished(whole) if act is _abort else _state(whole)]
    whole.close()
    whole = World(tmp_path / "again")
    prepare(whole)
    act(whole)
    after = _state(whole)
    ends.append(after)
    if case == "abort-detached":  # of a replay that was cut off: it looks like half an attachment
        whole.service().ensure_attached("demo", "h1")
        ends.append(_state(whole))
    whole.close()
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, error, more_than=8):
        _assert_one_writer_at_most(world)
        world.service().converge(completes=True)
        if case != "undrained":  # what was replayed stays so
            assert _state(world) in ends, f"stopped at {point}"
        if act is not _abort:
            act(world)
            assert _state(world) == after, f"done again after {point}"


@pytest.mark.parametrize("case", ["direct", "journal", "detached"])
def test_stopped_at_any_call_it_can_be_aborted_up_to_the_commit(tmp_path: Path, case: str) -> None:
    prepare, act = CASES[case]
    whole = World(tmp_path / "whole")
    prepare(whole)
    before = _state(whole)
    whole.close()
    aborted = 0
    for _, world in stopped_runs(prepared(tmp_path, prepare), act, more_than=8):
        record = world.service().get("demo")
        migration = record.migration
        is_over = migration is None and record.spec.pool == THERE
        if is_over or (migration is not None and migration.is_committing):
            continue
        _abort(world)
        world.service().converge(completes=True)
        if _state(world) == before:
            aborted += 1
    assert aborted > 8


def _migrate_into_a_filling_pool(world: World) -> None:
    def fill() -> None:
        world.cluster.available_bytes = 0

    world.cluster.copy_looks = [fill, lambda: None]
    try:
        _migrate(world)
    except GrampusError as error:
        if error.code not in ("pool-filling", "pool-full"):
            raise


@pytest.mark.parametrize("prepare", [_journal, _detached])
def test_stopped_at_any_call_while_its_pool_fills_up_it_goes_back(
    tmp_path: Path, prepare: Act
) -> None:
    whole = World(tmp_path / "whole")
    prepare(whole)
    before = _state(whole)
    _migrate_into_a_filling_pool(whole)
    assert _state(whole) == before
    whole.close()
    waited = 0
    for point, world in stopped_runs(
        prepared(tmp_path, prepare), _migrate_into_a_filling_pool, more_than=20
    ):
        _assert_one_writer_at_most(world)
        world.service().converge()
        waited += world.service().migrations.find("demo") is not None
        world.service().converge(completes=True)
        assert _state(world) == before, f"stopped at {point}"
    assert waited > 1


def test_one_that_was_over_but_for_its_end_is_finished_and_not_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(prepared(tmp_path, _journal)(0)) as world:
        monkeypatch.setenv(VARIABLE, "volume.migrate/tidy/after=error")
        with pytest.raises(FailpointError):
            _migrate(world)
        monkeypatch.delenv(VARIABLE)
        with pytest.raises(RefusedError) as caught:
            world.service().migrations.abort("demo")
        assert caught.value.code == "not-migrating"
        assert world.service().converge() == [
            "The migration of the volume demo was interrupted. It is now finished."
        ]
        assert world.service().get("demo").spec.pool == THERE


def test_stopped_at_any_call_any_command_brings_it_to_where_it_can_wait(tmp_path: Path) -> None:
    waited = 0
    for _, world in stopped_runs(prepared(tmp_path, _journal), _migrate, more_than=8):
        said = world.service().converge()
        _assert_one_writer_at_most(world)
        assert world.service().is_attached("demo")
        assert _state(world)["detached"] == []  # nobody waits for an image
        if any("waits" in sentence for sentence in said):
            waited += 1
            assert world.service().converge() == said
        else:
            assert world.service().migrations.find("demo") is None
    assert waited > 1


def test_stopped_twice_it_is_made_whole_by_the_third_process(tmp_path: Path) -> None:
    whole = World(tmp_path / "whole")
    _journal(whole)
    _migrate(whole)
    expected = _state(whole)
    whole.close()
    start = prepared(tmp_path, _half_way)
    for point in range(0, 40, 2):
        with closing(start(point)) as world:
            world.cluster.images[MOVED].data = "later"
            is_stopped(world, lambda each: each.service().converge(completes=True), point, Killed())
            world.service().converge(completes=True)
            assert _state(world) == expected


@pytest.mark.parametrize(("prepare", "act"), ROTATIONS)
def test_a_rotation_that_was_stopped_leaves_a_key_that_opens_the_volume(
    tmp_path: Path, prepare: Act, act: Act
) -> None:
    whole = World(tmp_path / "whole")
    prepare(whole)
    expected = _state(whole)
    whole.close()
    for _, world in stopped_runs(prepared(tmp_path, prepare), act, more_than=3):
        world.service().converge(completes=True)
        assert _state(world) == expected
        assert world.cluster.pending_keys == {}
        assert world.service().get("demo").migration is None
