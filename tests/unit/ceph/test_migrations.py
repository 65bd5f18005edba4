from __future__ import annotations

from collections.abc import Iterator

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.migrations import RbdMigrations
from grampus.core.errors import GrampusError
from tests.fakes.clock import FakeClock
from tests.fakes.commands import FakeRunner, Output

PREPARE = (
    "rbd --rbd-default-clone-format 2 migration prepare databases/shop.1/db-shop "
    "archive/shop.1/db-shop"
)
ABORT = "rbd migration abort --no-progress databases/shop.1/db-shop"
COMMIT = "rbd migration commit --no-progress archive/shop.1/db-shop"
BUSY = Output(16, "", "rbd: the migration failed: (16) Device or resource busy")


def _carry_out(line: str, replies: Iterator[Output]) -> tuple[FakeRunner, FakeClock]:
    runner, clock = FakeRunner({line: lambda: next(replies)}), FakeClock()
    migrations = RbdMigrations(CephCluster(runner), clock)
    if line == PREPARE:
        migrations.prepare("databases", "archive", "shop.1/db-shop")
    elif line == COMMIT:
        migrations.commit("archive", "shop.1/db-shop")
    else:
        migrations.abort("databases", "shop.1/db-shop")
    return runner, clock


@pytest.mark.parametrize("line", [PREPARE, ABORT, COMMIT])
def test_who_has_the_image_open_for_a_moment_is_waited_for(line: str) -> None:
    runner, clock = _carry_out(line, iter([BUSY, BUSY, Output()]))
    assert runner.asked == [line, line, line]
    assert clock.slept_s == 1.0


@pytest.mark.parametrize("line", [PREPARE, ABORT, COMMIT])
def test_who_keeps_the_image_open_is_told(line: str) -> None:
    def always() -> Iterator[Output]:
        while True:
            yield BUSY

    with pytest.raises(GrampusError, match="resource busy") as caught:
        _carry_out(line, always())
    assert caught.value.code == "migration-failed"


@pytest.mark.parametrize("line", [PREPARE, ABORT, COMMIT])
def test_any_other_failure_is_told_at_once(line: str) -> None:
    with pytest.raises(GrampusError, match="No space left"):
        _carry_out(line, iter([Output(28, "", "rbd: (28) No space left on device")]))


def test_source_in_a_trash_that_cannot_be_listed_is_not_taken_for_gone() -> None:
    listing = "rbd trash ls --all --format json databases/shop.1"
    runner = FakeRunner({listing: Output(110, "", "rbd: (110) Connection timed out")})
    migrations = RbdMigrations(CephCluster(runner), FakeClock())
    with pytest.raises(GrampusError, match="Connection timed out"):
        migrations.ensure_source_absent("databases", "shop.1/db-shop", "180c")
