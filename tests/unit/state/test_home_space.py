"""A reserve under GRAMPUS_HOME lets what has begun end, and nothing new begins without room.

INV-82.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import SilentProgress
from grampus.core.units import GIB, MIB
from grampus.state.home import Home
from grampus.state.home_space import (
    RESERVE_FILE,
    HomeSpace,
    SpaceDecision,
    SpaceView,
    decide_space,
)
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock

LAB = "t"
# Of 64 MiB: a reserve of 1 MiB.
SMALL_BYTES = 64 * MIB


@pytest.mark.parametrize(
    ("size", "free", "has_reserve", "expected"),
    [
        (100 * GIB, 50 * GIB, False, SpaceDecision("make", True, False)),
        (100 * GIB, 50 * GIB, True, SpaceDecision("keep", True, False)),
        # Warned of at 90 %, long before the room is gone.
        (100 * GIB, 9 * GIB, True, SpaceDecision("keep", True, True)),
        (100 * GIB, 11 * GIB, True, SpaceDecision("keep", True, False)),
        # 16 MiB of reserve: released with 8 MiB left, and nothing new begins.
        (100 * GIB, 8 * MIB, True, SpaceDecision("keep", True, True)),
        (100 * GIB, 8 * MIB - 1, True, SpaceDecision("release", False, True)),
        # What is free then belongs to what has begun.
        (100 * GIB, 23 * MIB, False, SpaceDecision("keep", False, True)),
        (100 * GIB, 24 * MIB, False, SpaceDecision("keep", True, True)),
        # Made again only with more room than it takes, so that it does not come and go.
        (100 * GIB, 47 * MIB, False, SpaceDecision("keep", True, True)),
        (100 * GIB, 48 * MIB, False, SpaceDecision("make", True, True)),
        # A small file system has a small reserve.
        (SMALL_BYTES, 3 * MIB, False, SpaceDecision("make", True, True)),
        (SMALL_BYTES, MIB // 2 - 1, True, SpaceDecision("release", False, True)),
        (0, 0, False, SpaceDecision("keep", False, False)),
    ],
)
def test_what_becomes_of_the_reserve(
    size: int, free: int, has_reserve: bool, expected: SpaceDecision
) -> None:
    assert decide_space(SpaceView(size, size - free, free, has_reserve)) == expected


@pytest.mark.parametrize("size", [0, MIB, 64 * MIB, GIB, 100 * GIB])
@pytest.mark.parametrize("free_share", [0, 1, 5, 50, 100])
def test_a_released_reserve_lets_nothing_new_begin(size: int, free_share: int) -> None:
    free = size * free_share // 1000
    before = SpaceView(size, size - free, free, has_reserve=True)
    if decide_space(before).reserve == "release":
        given = free + before.reserve_bytes
        after = SpaceView(size, size - given, given, has_reserve=False)
        assert decide_space(after) == SpaceDecision(
            "keep", False, decide_space(after).is_nearly_full
        )


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB, for who may mount one."""
    root = tmp_path / "home"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "tmpfs", str(root)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("it takes root to mount a small file system")
    yield root
    subprocess.run(["umount", "--lazy", str(root)], check=True)


def fill(root: Path, *, leave: int) -> Path:
    """Take all but so much of the file system."""
    file = root / "filler"
    found = os.statvfs(root)  # the real one: shutil.disk_usage is replaced for all unit tests
    free = found.f_bavail * found.f_frsize
    with file.open("wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, free - leave)
    return file


def test_a_full_file_system_is_told_of_and_recovered_from(small: Path) -> None:
    space = HomeSpace(Home(small))
    assert space.keep() == ""
    reserve = small / RESERVE_FILE
    assert reserve.stat().st_blocks * 512 >= MIB, "not real blocks"
    filler = fill(small, leave=4 * MIB)
    assert "90% full" in space.keep()
    space.require_room("db.create")
    filler.unlink()
    filler = fill(small, leave=100_000)
    said = space.keep()
    assert f"The file system of {small} is full" in said
    assert not reserve.exists()
    with pytest.raises(RefusedError) as refused:
        space.require_room("db.create")
    assert refused.value.code == "home-full"
    space.require_room("db.close")
    space.require_room("db.delete")
    filler.unlink()
    assert space.keep() == ""
    assert reserve.exists()
    space.require_room("db.create")


def test_what_has_begun_is_undone_and_recorded_on_a_full_disk(small: Path) -> None:
    """The disk fills up in the middle of an operation: its undo has the reserve."""
    home = Home(small)
    space = HomeSpace(home)
    space.keep()
    store = Store(home.store_file)
    journal = OperationJournal(store, FakeClock(), room=space)
    undone: list[str] = []

    def fail() -> None:
        fill(small, leave=0)
        (small / "secrets").write_bytes(b"x" * 100_000)

    def undo() -> None:
        journal.begin("volume.inner", LAB, "inner", {})
        undone.append("x")

    operation = journal.begin("db.create", LAB, "shop", {"padding": "x" * 50_000})
    steps = [Step("make", "Make it", fail, undo)]
    with pytest.raises(OSError, match="No space left"):
        journal.apply(operation, steps, SilentProgress(), undo_on_failure=True)
    assert undone == ["x"]
    assert [one.kind for one in journal.unfinished(LAB)] == ["volume.inner"]
    with pytest.raises(GrampusError, match="is full"):
        journal.begin("db.create", LAB, "other", {})
    (small / "filler").unlink()
    journal.begin("db.create", LAB, "other", {})
    store.close()


def test_a_reserve_that_a_killed_command_left_half_made_is_cleared(tmp_path: Path) -> None:
    space = HomeSpace(Home(tmp_path))
    left = tmp_path / f"{RESERVE_FILE}.999999999"
    left.write_bytes(b"x")
    space.keep()
    assert not left.exists()
    assert (tmp_path / RESERVE_FILE).exists()


def test_an_absent_home_stays_absent(tmp_path: Path) -> None:
    space = HomeSpace(Home(tmp_path / "absent"))
    assert space.keep() == ""
    space.require_room("lab.up")
    assert not (tmp_path / "absent").exists()
