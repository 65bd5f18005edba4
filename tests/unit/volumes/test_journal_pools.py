"""Journals in another pool than their image, such as one on flash in front of an image on disks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grampus.cli.volume import details_of_record, volume_document
from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.units import GIB, MIB
from grampus.volumes.decide_pool import journal_bytes
from grampus.volumes.model import CloneSource
from tests.unit.operation_runner import planned

from .cluster import POOL
from .test_migrate import MOVED, THERE
from .world import IMAGE, World

FLASH = "flash"
USER = "client.grampus.t.demo"
OWN = f"profile rbd pool={POOL} namespace=demo.1"
BESIDE = f"profile rbd pool={FLASH} namespace=demo.1"


@pytest.fixture
def world(world: World) -> World:
    """One with three more pools: two of them have fewer copies than that of the images."""
    world.build_volumed()
    world.cluster.pools += [FLASH, "weak", "lax"]
    return world


def _pool_of_journal(world: World) -> str | None:
    assert world.cluster.journals == {IMAGE}
    return world.cluster.journal_pools.get(IMAGE)


def _leave_unapplied(world: World) -> None:
    world.attach()
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")
    assert (world.image.frames, world.image.is_journal_open) == (3, True)


def test_the_journal_begins_there_and_the_key_opens_its_namespace_there_alone(world: World) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    world.attach()
    argv = world.h1.daemons["volumed-demo"].spec.argv
    assert argv[argv.index("--journal-pool") + 1] == FLASH
    assert _pool_of_journal(world) == FLASH
    assert world.cluster.users[USER]["osd"] == f"{OWN}, {BESIDE}"
    record = world.service().get("demo")
    assert volume_document(record)["journal_pool"] == FLASH
    assert details_of_record(record)["write path"] == "journal, its journal in the pool flash"


@pytest.mark.parametrize(
    ("journal_pool", "error", "code", "said"),
    [
        ("flahs", NotFoundError, None, "Did you mean 'flash'?"),
        (
            "weak",
            RefusedError,
            "weaker-journal",
            "has size 2 (copies of each object), and 'databases' has size 3",
        ),
        (
            "lax",
            RefusedError,
            "weaker-journal",
            "has min_size 1 (copies that a write needs), and 'databases' has",
        ),
    ],
)
def test_a_pool_that_would_lose_more_is_refused_whoever_asks(
    world: World, journal_pool: str, error: type[GrampusError], code: str | None, said: str
) -> None:
    world.create("other", write_path="journal")
    world.attach("other")
    world.service().ensure_detached("other")
    world.service().ensure_snapshot("other", "base")
    source = CloneSource(pool=POOL, image="other.1/other", snapshot="base")
    spec = world.service().get("other").spec
    copy = spec.model_copy(update={"name": "copy", "journal_pool": journal_pool, "identity": ""})
    before = world.inventory()
    acts: list[Callable[[], object]] = [
        lambda: world.create(write_path="journal", journal_pool=journal_pool),
        lambda: world.service().ensure_write_path("other", None, journal_pool=journal_pool),
        lambda: world.service().plan_clone(copy, source),
    ]
    for act in acts:
        with pytest.raises(error) as caught:
            act()
        assert said in f"{caught.value} {caught.value.remedy}"
        assert code is None or caught.value.code == code
    assert world.inventory() == before


def test_a_pool_without_room_is_refused(world: World) -> None:
    world.create(write_path="journal")
    world.cluster.available_bytes = 100 * MIB
    with pytest.raises(RefusedError, match="space for 100 MiB, not for 256 MiB") as caught:
        world.service().ensure_write_path("demo", None, journal_pool=FLASH)
    assert caught.value.code == "pool-full"
    assert "for the journal" in caught.value.remedy


@pytest.mark.parametrize(
    ("size_bytes", "expected_bytes"),
    [(320 * MIB, 256 * MIB), (2 * GIB, 512 * MIB), (4 * GIB, GIB), (500 * GIB, GIB)],
)
def test_a_journal_takes_what_volumed_gives_it(size_bytes: int, expected_bytes: int) -> None:
    assert journal_bytes(size_bytes) == expected_bytes


def test_without_a_journal_a_pool_for_it_is_refused(world: World) -> None:
    with pytest.raises(UsageError, match="has no journal") as caught:
        world.create(journal_pool=FLASH)
    assert caught.value.code == "journal-pool"


def test_the_pool_of_the_image_is_the_default(world: World) -> None:
    world.create(write_path="journal", journal_pool=POOL)
    assert world.service().get("demo").spec.journal_pool is None
    assert world.cluster.users[USER]["osd"] == OWN


def test_a_journal_that_moves_is_applied_first_and_leaves_nothing(world: World) -> None:
    world.create(write_path="journal")
    _leave_unapplied(world)
    before = world.inventory()

    def move() -> object:
        return world.service().ensure_write_path("demo", None, journal_pool=FLASH)

    assert planned(world.runner, move) == [
        "Apply the journal of 'demo' to its image, if it has one",
        "Remove the journal from the pool 'databases'",
        "Set the write path of the volume to journal, its journal in the pool flash",
    ]
    assert world.inventory() == before
    move()
    assert (world.image.applied_frames, world.image.is_journal_open) == (3, False)
    assert world.cluster.journals == set()
    assert world.cluster.users[USER]["osd"] == f"{OWN}, {BESIDE}"
    world.attach()
    assert _pool_of_journal(world) == FLASH
    _detach(world)
    move()  # it is there
    world.service().ensure_write_path("demo", None, journal_pool=POOL)
    assert world.cluster.journals == set()
    assert world.cluster.users[USER]["osd"] == OWN
    world.attach()
    assert _pool_of_journal(world) is None


def _detach(world: World) -> None:
    world.service().ensure_detached("demo")


def test_a_journal_that_has_not_begun_begins_there(world: World) -> None:
    world.create(write_path="journal")
    world.service().ensure_write_path("demo", None, journal_pool=FLASH)
    assert world.cluster.users[USER]["osd"] == f"{OWN}, {BESIDE}"
    world.attach()
    assert _pool_of_journal(world) == FLASH


def test_the_write_path_direct_takes_it_out_of_the_pool(world: World) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    _leave_unapplied(world)
    world.service().ensure_write_path("demo", "direct")
    assert (world.image.applied_frames, world.cluster.journals) == (3, set())
    assert world.service().get("demo").spec.journal_pool is None
    world.service().ensure_write_path("demo", "journal")
    assert world.service().get("demo").spec.journal_pool is None


def test_another_bound_leaves_it_where_it_is(world: World) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    _leave_unapplied(world)
    world.service().ensure_write_path("demo", "cache", max_lag_ms=50)
    assert (_pool_of_journal(world), world.image.frames) == (FLASH, 3)
    assert world.service().get("demo").spec.journal_pool == FLASH


def test_while_it_is_attached_it_stays(world: World) -> None:
    world.create(write_path="journal")
    world.attach()
    with pytest.raises(RefusedError) as caught:
        world.service().ensure_write_path("demo", None, journal_pool=FLASH)
    assert caught.value.code == "attached"


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_migrated_image_leaves_no_journal_in_that_pool(world: World, ends: str) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    world.attach()
    migrations = world.service().migrations
    if ends == "commit":
        migrations.migrate("demo", THERE)
        assert world.cluster.journals == {MOVED}
        assert world.cluster.journal_pools == {MOVED: FLASH}
        moved = OWN.replace(POOL, THERE)
        assert world.cluster.users[USER]["osd"] == f"{moved}, {BESIDE}"
        return
    world.cluster.fails_copies = True
    with pytest.raises(GrampusError):
        migrations.migrate("demo", THERE)
    world.service().migrations.abort("demo")
    assert world.cluster.journals == {IMAGE}
    assert world.cluster.journal_pools == {IMAGE: FLASH}
    assert world.cluster.users[USER]["osd"] == f"{OWN}, {BESIDE}"


def test_a_full_pool_of_the_journal_stops_its_users_too(world: World) -> None:
    world.create(write_path="journal", journal_pool=FLASH)
    world.service().require_writable("demo")
    world.cluster.full_pools = {FLASH}
    with pytest.raises(RefusedError, match="'flash' is full") as caught:
        world.service().require_writable("demo")
    assert caught.value.code == "pool-full"
