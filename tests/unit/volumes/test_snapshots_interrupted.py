"""INV-22, INV-23: snapshots, clones and rollbacks stopped before or after any single call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB
from grampus.volumes.model import CloneSource, VolumeSpec
from tests.fakes.interruption import Killed, stopped_runs

from .cluster import POOL
from .world import World, prepared

Act = Callable[[World], object]
SOURCE = CloneSource(pool=POOL, image="demo.1/demo", snapshot="before")
COPY = VolumeSpec(name="copy", pool=POOL, image="copy", size_bytes=2 * GIB)


def _left_with_a_journal(world: World) -> None:
    """Detached, with a journal that nobody has applied."""
    world.build_volumed()
    world.create(write_path="journal")
    world.attach()
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")


def _snapped(world: World, write_path: str = "journal") -> None:
    """Attached, with a snapshot; then more is written, and volumed dies."""
    world.build_volumed()
    world.create(write_path=write_path)  # type: ignore[arg-type]
    world.attach()
    world.service().set_metadata("demo", {"database": "demo", "journal.local": "h1:/data"})
    world.service().ensure_snapshot("demo", "before")
    world.image.data = "later"
    world.image.frames = 3
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")


def _snapped_cache(world: World) -> None:
    _snapped(world, "cache")


def _cloned(world: World) -> None:
    _snapped(world)
    _clone(world)


def _snapshot(world: World) -> None:
    world.service().ensure_snapshot("demo", "before")


def _roll_back(world: World) -> None:
    world.service().ensure_rolled_back("demo", "before")


def _clone(world: World) -> None:
    service = world.service()
    if service.find("copy") is None:
        service.clone(service.plan_clone(COPY, SOURCE))


def _ensure_cloned(world: World) -> None:
    world.service().ensure_cloned(COPY, SOURCE)


def _flatten(world: World) -> None:
    world.service().ensure_flattened("copy")


def _cloned_and_snapped(world: World) -> None:
    _cloned(world)
    world.service().ensure_snapshot("copy", "shared")


def _delete(world: World) -> None:
    if world.service().find("copy") is not None:
        world.service().delete("copy")


CASES: dict[str, tuple[Act, Act]] = {
    "snapshot": (_left_with_a_journal, _snapshot),
    "rollback": (_snapped, _roll_back),
    "rollback-cache": (_snapped_cache, _roll_back),
    "clone": (_snapped, _clone),
    "ensure-cloned": (_snapped, _ensure_cloned),
    "flatten": (_cloned_and_snapped, _flatten),
    "delete-clone": (_cloned, _delete),
}


def _state(world: World) -> dict[str, list[str]]:
    images = world.cluster.images
    return world.inventory() | {
        "contents": sorted(f"{name}:{image.data}:{image.frames}" for name, image in images.items()),
        "metadata": sorted(f"{name}:{image.facts}" for name, image in images.items()),
        "object maps": sorted(
            f"{name}:{sorted(image.features)}:{one.flags}"
            for name, image in images.items()
            for one in (image, *image.snapshots.values())
        ),
    }


@pytest.mark.parametrize(
    ("case", "error"),
    [
        *((case, Killed()) for case in CASES),
        # A log that its disk does not give up is told of, and keeps nothing from being done.
        *((case, GrampusError("The call failed.")) for case in CASES if case != "rollback-cache"),
    ],
    ids=repr,
)
def test_stopped_at_any_call_the_next_process_makes_it_whole(
    tmp_path: Path, case: str, error: BaseException
) -> None:
    prepare, act = CASES[case]
    whole = World(tmp_path / "whole")
    prepare(whole)
    act(whole)
    expected = _state(whole)
    whole.close()
    for point, world in stopped_runs(prepared(tmp_path, prepare), act, error, more_than=3):
        world.service().converge()
        assert world.journal.unfinished("t") == []
        act(world)
        assert _state(world) == expected, f"stopped at call {point}"


def test_a_rollback_cut_off_is_finished_before_anything_else(tmp_path: Path) -> None:
    """Half of it, the image is neither the one nor the other: nobody may be given it."""
    for _, world in stopped_runs(prepared(tmp_path, _snapped), _roll_back, more_than=3):
        has_begun = bool(world.journal.unfinished("t"))
        world.attach()
        assert world.image.data == ("precious" if has_begun else "later")


def test_a_clone_cut_off_leaves_nothing(tmp_path: Path) -> None:
    start = prepared(tmp_path, _snapped)
    with closing(start(0)) as world:
        before = _state(world)
    for point, world in stopped_runs(start, _clone, more_than=3):
        world.service().converge()
        if world.service().find("copy") is None:
            assert _state(world) == before, f"killed at call {point}"
