"""Volumes that move to another pool while they are used, and the way back; rotated keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from grampus.ceph.migrations import parse_migration
from grampus.ceph.reporting import parse_done
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.volumes.decide_migration import require_abortable
from grampus.volumes.decide_namespace import decide_capabilities
from grampus.volumes.model import FencedAttachment, Migration, VolumeRecord, VolumeSpec, WritePath
from tests.unit.operation_runner import planned

from .cluster import POOL
from .world import IMAGE, World

THERE = "archive"
MOVED = IMAGE.replace(POOL, THERE)
USER = "client.grampus.t.demo"


def _attached(world: World, write_path: WritePath = "journal") -> None:
    world.build_volumed()
    world.create(write_path=write_path)
    world.attach()


def _record(world: World) -> VolumeRecord:
    return world.service().get("demo")


def _pools_of_key(world: World) -> str:
    return world.cluster.users[USER]["osd"]


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
def test_a_volume_moves_under_its_users_and_leaves_nothing_behind(
    world: World, write_path: WritePath
) -> None:
    _attached(world, write_path)
    before = _record(world).attachment
    world.service().ensure_snapshot("demo", "early")
    moved = world.service().migrations.migrate("demo", THERE)
    assert (moved.spec.pool, moved.migration, moved.host) == (THERE, None, "h1")
    image = world.cluster.images[MOVED]
    assert (IMAGE in world.cluster.images, image.data) == (False, "precious")
    assert list(image.snapshots) == ["early"]
    # The mount and the device stay; the client is another one.
    assert before is not None
    assert moved.attachment is not None
    assert moved.attachment.device == before.device
    assert moved.attachment.client_address == image.clients[0].address != before.client_address
    assert _pools_of_key(world) == f"profile rbd pool={THERE} namespace=demo.1"
    assert world.cluster.namespaces == {f"{THERE}/demo.1"}
    assert world.cluster.journals == ({MOVED} if write_path != "direct" else set())
    assert world.service().is_attached("demo")
    world.service().ensure_detached("demo")
    world.service().delete("demo")
    assert (world.cluster.images, world.cluster.namespaces) == ({}, set())


def test_a_detached_volume_moves_with_what_its_journal_held(world: World) -> None:
    _attached(world)
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")
    assert world.image.frames == 3
    world.service().migrations.migrate("demo", THERE)
    image = world.cluster.images[MOVED]
    assert (image.frames, image.is_journal_open, _record(world).host) == (0, False, None)
    world.attach(host="h2")
    assert world.cluster.images[MOVED].clients[0].address.startswith("10.9.0.12")


def test_a_volume_that_is_there_already_stays_as_it_is(world: World) -> None:
    _attached(world)
    commands = len(world.cluster.commands)
    assert world.service().migrations.plan("demo", POOL) is None
    world.service().migrations.migrate("demo", POOL)
    assert not any("migration" in words for words in world.cluster.commands[commands:])


def _with_clone(world: World) -> None:
    service = world.service()
    service.ensure_snapshot("demo", "base")
    source = f"{POOL}/demo.1/demo"
    world.cluster.images[source].snapshots["base"].is_protected = False
    world.cluster.namespaces.add(f"{POOL}/copy.1")
    assert world.cluster.clone(source, "base", f"{POOL}/copy.1/copy")[0] == 0


def _with_dead_driver(world: World) -> None:
    world.h1.kill_daemon("volumed-demo")


def _with_fence(world: World) -> None:
    world.service().fence("demo")
    world.h1.up = False


def _with_small_pool(world: World) -> None:
    world.cluster.available_bytes = GIB - 1


def _with_big_snapshots(world: World) -> None:
    for name in ("early", "late"):
        world.service().ensure_snapshot("demo", name)
    world.image.used_bytes = GIB  # and each snapshot an object of 4 MiB
    world.cluster.available_bytes = GIB + 2 * 4 * MIB - 1


def _with_no_room_for_others(world: World) -> None:
    world.cluster.available_bytes = GIB + 255 * MIB


def _with_overfull_pool(world: World) -> None:
    world.cluster.warnings = {"POOL_BACKFILLFULL": f"pool '{THERE}' is backfillfull"}


def _with_image_there(world: World) -> None:
    world.cluster.namespaces.add(f"{THERE}/demo.1")
    world.cluster.make_image(MOVED, GIB)


def _through_another_driver(world: World) -> None:
    world.service().ensure_detached("demo")
    world.service().ensure_write_path("demo", "direct")
    world.service().ensure_attached("demo", "h1", driver="qsd")


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (_with_clone, "has-clones"),
        (_with_dead_driver, "attachment-lost"),
        (_with_fence, "fenced"),
        (_with_small_pool, "pool-full"),
        (_with_big_snapshots, "pool-full"),
        (_with_no_room_for_others, "pool-full"),
        (_with_overfull_pool, "pool-full"),
        (_with_image_there, "image-exists"),
        (_through_another_driver, "cannot-exchange"),
    ],
)
def test_what_cannot_move_is_refused_before_anything_is_changed(
    world: World, prepare: Callable[[World], None], code: str
) -> None:
    _attached(world)
    prepare(world)
    before = world.inventory()
    with pytest.raises(RefusedError) as refused:
        world.service().migrations.migrate("demo", THERE)
    assert refused.value.code == code
    assert world.inventory() == before


def test_a_pool_that_is_not_for_images_is_not_found(world: World) -> None:
    _attached(world)
    with pytest.raises(NotFoundError, match=r"The pool '\.mgr' does not exist"):
        world.service().migrations.plan("demo", ".mgr")


def _refuse_to_prepare(world: World) -> None:
    world.cluster.refuses_migrations = True


def _refuse_to_let_go(world: World) -> None:
    world.cluster.exchange_failure = "the flush failed (flush-failed)"


def _run_out_of_time(world: World) -> None:
    world.h1.drains = False


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_refuse_to_prepare, "migration-failed"),
        (_run_out_of_time, "undrained"),
    ],
)
def test_a_migration_that_fails_before_it_goes_over_is_undone(
    world: World, spoil: Callable[[World], None], code: str
) -> None:
    _attached(world)
    before = world.inventory()
    spoil(world)
    with pytest.raises(GrampusError) as failed:
        world.service().migrations.migrate("demo", THERE)
    assert failed.value.code == code
    assert world.inventory() == before
    assert world.service().is_attached("demo")


def test_an_image_that_is_not_let_go_of_stays_open(world: World) -> None:
    _attached(world)
    _refuse_to_let_go(world)
    with pytest.raises(GrampusError, match="flush-failed"):
        world.service().migrations.migrate("demo", THERE)
    world.cluster.exchange_failure = ""
    world.service().converge(completes=True)
    assert _record(world).migration is None
    assert world.inventory()["unfinished"] == []


def test_a_copy_that_fails_is_gone_on_with_by_the_next_command(world: World) -> None:
    _attached(world)
    world.cluster.fails_copies = True
    with pytest.raises(GrampusError, match="no space left"):
        world.service().migrations.migrate("demo", THERE)
    record = _record(world)
    assert record.spec.pool == THERE
    assert record.migration is not None
    assert _pools_of_key(world).count("profile rbd pool=") == 2
    world.cluster.fails_copies = False
    assert world.service().converge(completes=True) == [
        "The migration of the volume demo was interrupted. It is now finished."
    ]
    assert _record(world).migration is None


def test_a_copy_that_was_cut_off_waits_for_whoever_asks_for_it(world: World) -> None:
    _cut_off_in_the_copy(world)
    for _ in range(2):
        assert world.service().converge() == [
            "The migration of the volume demo was interrupted. "
            "It waits: `migrate` continues it, `migrate --abort` goes back."
        ]
    migration = _record(world).migration
    assert migration is not None
    # Meanwhile it can be used, also anew after its host was lost, with a key for both images.
    world.service().ensure_detached("demo")
    world.attach(host="h2")
    assert _record(world).migration == migration
    assert _pools_of_key(world).count("profile rbd pool=") == 2
    assert world.cluster.images[MOVED].data == "written since"
    world.service().migrations.migrate("demo", THERE)
    assert _record(world).migration is None
    assert world.cluster.images[MOVED].data == "written since"
    assert world.service().converge() == []


def test_a_source_that_a_commit_left_behind_is_removed(world: World) -> None:
    _attached(world)
    world.service().ensure_snapshot("demo", "early")
    world.cluster.cuts_commits = True
    with pytest.raises(GrampusError, match=r"connection broke|was not copied"):
        world.service().migrations.migrate("demo", THERE)
    with pytest.raises(RefusedError) as refused:
        world.service().migrations.abort("demo")
    assert refused.value.code == "committing"
    world.service().converge(completes=True)
    assert world.cluster.left_sources == {}
    assert _record(world).migration is None


def _cut_off_in_the_copy(world: World, write_path: WritePath = "journal") -> None:
    _attached(world, write_path)
    world.service().ensure_snapshot("demo", "early")
    world.cluster.fails_copies = True
    with pytest.raises(GrampusError):
        world.service().migrations.migrate("demo", THERE)
    world.cluster.fails_copies = False
    world.cluster.images[MOVED].data = "written since"


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
def test_on_the_way_back_nothing_that_was_written_since_is_lost(
    world: World, write_path: WritePath
) -> None:
    _attached(world, write_path)
    world.service().ensure_snapshot("demo", "early")
    before = world.inventory()
    world.cluster.fails_copies = True
    with pytest.raises(GrampusError):
        world.service().migrations.migrate("demo", THERE)
    world.cluster.images[MOVED].data = "written since"
    record = world.service().migrations.abort("demo")
    assert (record.spec.pool, record.migration) == (POOL, None)
    assert world.image.data == "written since"
    assert world.inventory() == before
    assert record.attachment is not None
    assert record.attachment.client_address == world.image.clients[0].address


def test_a_way_back_that_would_lose_a_snapshot_is_refused(world: World) -> None:
    _cut_off_in_the_copy(world)
    image = world.cluster.images[MOVED]
    image.snapshots["late"] = image.snapshots["early"]
    with pytest.raises(RefusedError, match="late") as refused:
        world.service().migrations.abort("demo")
    assert refused.value.code == "has-snapshots"
    assert world.service().migrations.find("demo") is not None


def test_what_does_not_migrate_is_not_aborted(world: World) -> None:
    _attached(world)
    with pytest.raises(RefusedError) as refused:
        world.service().migrations.abort("demo")
    assert refused.value.code == "not-migrating"
    with pytest.raises(RefusedError):
        planned(world.runner, lambda: world.service().migrations.abort("demo"))
    with pytest.raises(NotFoundError):
        world.service().migrations.abort("dem")


def test_a_fence_in_the_middle_leaves_a_volume_that_can_be_attached_elsewhere(
    world: World,
) -> None:
    _cut_off_in_the_copy(world)
    world.cut_off(world.h1)
    world.service().fence("demo")
    world.service().converge(completes=True)
    assert _record(world).migration is None
    world.attach(host="h2")
    assert world.cluster.images[MOVED].data == "written since"


def test_a_host_that_is_away_keeps_the_migration_for_later(world: World) -> None:
    _cut_off_in_the_copy(world)
    world.h1.up = False
    sentences = world.service().converge(completes=True)
    assert len(sentences) == 1
    assert "h1 cannot be reached" in sentences[0]
    world.h1.up = True
    world.service().converge(completes=True)
    assert _record(world).migration is None


def test_users_that_wait_for_an_image_that_nobody_opens_are_not_unmounted_under(
    world: World,
) -> None:
    _attached(world)
    daemon = world.h1.daemons["volumed-demo"]
    world.h1._volumed_answer(daemon, "close-image", ["--limit-s", "60"])
    assert daemon.client is None
    world.service().ensure_detached("demo")
    assert _record(world).host is None
    assert not world.image.is_journal_open


def test_plans_say_what_would_be_done(world: World) -> None:
    _attached(world)
    migrations, before = world.service().migrations, world.inventory()
    plan = planned(world.runner, lambda: migrations.migrate("demo", THERE))
    assert world.inventory() == before
    assert [line.split(",")[0] for line in plan] == [
        f"Allow its key to open {THERE}/demo.1/demo",
        f"Switch to the pool '{THERE}'",
        f"Copy the remaining data from '{POOL}' while the volume is used",
        f"Remove the image from '{POOL}'",
        f"Remove the remains in '{POOL}'",
    ]
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")
    before = world.inventory()
    with_journal = planned(world.runner, lambda: migrations.migrate("demo", THERE))
    assert with_journal[:2] == ["Apply the journal of 'demo', from h1", "Remove the remains on h1"]
    assert with_journal[2:] == plan
    assert world.inventory() == before


def test_a_dry_run_leaves_a_copy_that_waits(world: World) -> None:
    _cut_off_in_the_copy(world)
    world.service().converge()
    before, migrations = world.inventory(), world.service().migrations
    assert planned(world.runner, lambda: migrations.migrate("demo", THERE)) == []
    assert planned(world.runner, lambda: world.resize("demo", 2 * GIB))[0].startswith("Grow")
    back = planned(world.runner, lambda: migrations.abort("demo"))
    assert back[1:] == [f"Remove {MOVED}", f"Continue with {IMAGE}"]
    assert world.inventory() == before
    assert migrations.find("demo") is not None


def test_the_way_back_is_closed_by_the_commit_alone() -> None:
    spec = VolumeSpec(name="demo", pool=THERE, image="n/demo", size_bytes=GIB)
    record = VolumeRecord(spec=spec, ceph_user="u")
    migration = Migration(from_pool=POOL, to_pool=THERE)
    for state, new, kept, code in [
        (None, (), (), None),
        (migration, ("a",), ("a", "b"), None),
        (migration, ("a", "c"), ("a",), "has-snapshots"),
        (migration.model_copy(update={"is_committing": True}), (), (), "committing"),
    ]:
        changed = record.model_copy(update={"migration": state})
        found = None
        try:
            require_abortable(changed, new, kept)
        except RefusedError as refused:
            found = refused.code
        assert found == code


def test_a_key_opens_both_pools_while_the_volume_is_on_its_way() -> None:
    spec = VolumeSpec(name="demo", pool=POOL, image="n/demo", size_bytes=GIB)
    record = VolumeRecord(spec=spec, ceph_user="u", shares_with=(f"{POOL}/golden.1",))
    one = f"profile rbd pool={POOL} namespace=n"
    reads = f"profile rbd-read-only pool={POOL} namespace=golden.1"
    assert decide_capabilities(record)["osd"] == f"{one}, {reads}"
    migration = Migration(from_pool=POOL, to_pool=THERE)
    for pool in (POOL, THERE):
        moving = record.model_copy(
            update={"spec": spec.model_copy(update={"pool": pool}), "migration": migration}
        )
        other = f"profile rbd pool={THERE} namespace=n"
        assert decide_capabilities(moving)["osd"] == f"{one}, {other}, {reads}"


def test_a_key_opens_the_pool_of_the_data_too() -> None:
    spec = VolumeSpec(name="demo", pool="databases-k2m1", image="n/demo", size_bytes=GIB)
    record = VolumeRecord(spec=spec, ceph_user="u", shares_with=("databases-k2m1/golden.1",))
    assert decide_capabilities(record)["osd"] == ", ".join(
        [
            "profile rbd pool=databases-k2m1 namespace=n",
            "profile rbd pool=databases-k2m1-data namespace=n",
            "profile rbd-read-only pool=databases-k2m1 namespace=golden.1",
            "profile rbd-read-only pool=databases-k2m1-data namespace=golden.1",
        ]
    )


def test_what_the_tool_says_is_read() -> None:
    assert parse_migration('{"watchers": []}') is None
    found = parse_migration(
        '{"migration": {"source_pool_name": "a", "source_image_id": "1", "dest_image_id": "2",'
        ' "state": "executing", "state_description": "7% complete"}}'
    )
    assert found is not None
    assert (found.state, found.source_pool, found.source_id, found.target_id) == (
        "executing",
        "a",
        "1",
        "2",
    )
    assert found.copied == 0.07
    odd = parse_migration('{"migration": {"state": "dancing"}}')
    assert odd is not None
    assert odd.state == "unknown"
    for tail, copied in [
        (b"", None),
        (b"\rImage migration: 7% complete...", 0.07),
        (b"\rImage migration: 7% complete...\rImage migration: 100% complete...done.\n", 1.0),
        (b"rbd: error", None),
    ]:
        assert parse_done(tail) == copied


@pytest.mark.parametrize("write_path", ["direct", "journal", "cache"])
def test_a_key_is_rotated_under_the_volumes_users(world: World, write_path: WritePath) -> None:
    _attached(world, write_path)
    before = _record(world).attachment
    world.service().key_rotation.rotate("demo")
    assert (world.cluster.keys[USER], world.cluster.pending_keys) == ("secret-1", {})
    keyring = next(f.content for path, f in world.h1.files.items() if "keyring" in path.name)
    assert "key = secret-1\n" in keyring
    after = _record(world).attachment
    assert before is not None
    assert after is not None
    assert after.client_address == world.image.clients[0].address != before.client_address
    assert not any("secret" in word for words in world.h1.commands for word in words)


def test_the_key_of_a_detached_volume_is_rotated_too(world: World) -> None:
    world.create()
    world.service().key_rotation.rotate("demo")
    assert world.cluster.keys[USER] == "secret-1"
    before = world.inventory()
    assert len(planned(world.runner, lambda: world.service().key_rotation.rotate("demo"))) == 3
    assert (world.inventory(), world.cluster.keys[USER]) == (before, "secret-1")


def test_a_key_is_not_rotated_under_a_driver_that_keeps_its_image(world: World) -> None:
    world.create()
    world.attach()
    with pytest.raises(RefusedError) as refused:
        world.service().key_rotation.rotate("demo")
    assert refused.value.code == "cannot-exchange"
    assert world.cluster.pending_keys == {}


def test_leftovers_of_a_fence_say_where_they_are(world: World) -> None:
    _attached(world)
    record = _record(world)
    moment = datetime(2026, 11, 22, tzinfo=UTC)
    left = FencedAttachment(
        host="h2",
        driver="volumed",
        client_addresses=("10.9.0.12:0/1",),
        fenced_at=moment,
        expires_at=moment + timedelta(days=1),
    )
    world.service()._records.put(record.model_copy(update={"fenced": (left,)}))
    with pytest.raises(RefusedError, match="still on h2"):
        world.service().migrations.plan("demo", THERE)
