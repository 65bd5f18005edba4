from __future__ import annotations

import re

import pytest

from grampus.core.errors import (
    GrampusError,
    NotFoundError,
    RefusedError,
    UsageError,
)
from grampus.core.units import GIB, MIB
from grampus.hosts.port import HostUnreachableError
from grampus.state.locks import hold_lock
from grampus.volumes.decide_external_log import MIN_FILESYSTEM_BYTES
from grampus.volumes.model import VolumeSpec
from tests.unit.volumes.machine import VolumeHost

from .cluster import POOL, Image
from .world import IMAGE, LAB, MOUNT, World


def test_create_makes_an_image_a_user_of_its_own_and_a_record(world: World) -> None:
    world.create()
    record = world.service().get("demo")
    assert world.image.size_bytes == GIB
    assert world.cluster.users == {
        "client.grampus.t.demo": {
            "mon": "profile rbd",
            "osd": f"profile rbd pool={POOL} namespace=demo.1",
        }
    }
    assert (record.host, record.attachment, record.is_formatted) == (None, None, False)


@pytest.mark.parametrize(
    ("name", "size_bytes", "error", "code"),
    [
        ("Demo", GIB, UsageError, "invalid-name"),
        ("a/b", GIB, UsageError, "invalid-name"),
        ("../x", GIB, UsageError, "invalid-name"),
        ("", GIB, UsageError, "invalid-name"),
        ("x" * 33, GIB, UsageError, "invalid-name"),
        ("all", GIB, UsageError, "invalid-name"),
        ("other", MIN_FILESYSTEM_BYTES - 1, RefusedError, "too-small"),
        ("other", 101 * GIB, RefusedError, "pool-full"),
        ("demo", GIB, RefusedError, "exists"),
    ],
)
def test_what_cannot_be_created_is_refused(
    world: World, name: str, size_bytes: int, error: type[GrampusError], code: str
) -> None:
    world.create()
    world.cluster.images[f"{POOL}/foreign"] = Image(GIB, data="somebody else's")
    before = world.inventory()
    with pytest.raises(error) as caught:
        world.service().plan_create(name, POOL, size_bytes)
    assert caught.value.code == code
    assert world.inventory() == before


@pytest.mark.parametrize("free_bytes", [GIB - 1, GIB, GIB + 1])
def test_room_is_what_the_pool_says(world: World, free_bytes: int) -> None:
    world.cluster.available_bytes = free_bytes
    if free_bytes >= GIB:
        world.service().check_room(POOL, GIB)
        return
    with pytest.raises(RefusedError, match="has space for"):
        world.service().check_room(POOL, GIB)


@pytest.mark.parametrize(("stored_bytes", "fits"), [(2 * GIB, True), (2 * GIB + 1, False)])
def test_a_quota_leaves_no_more_room_than_it_says(
    world: World, stored_bytes: int, *, fits: bool
) -> None:
    world.cluster.quota_bytes, world.cluster.stored_bytes = 3 * GIB, stored_bytes
    if fits:
        world.service().check_room(POOL, GIB)
        return
    with pytest.raises(RefusedError, match="has space for"):
        world.service().check_room(POOL, GIB)


def test_unknown_pool_is_an_error(world: World) -> None:
    with pytest.raises(NotFoundError, match="The pool 'archiv' does not exist") as caught:
        world.service().check_room("archiv", GIB)
    assert "Did you mean 'archive'?" in str(caught.value.remedy)
    with pytest.raises(NotFoundError, match=r"The pool '\.mgr' does not exist"):
        world.service().check_room(".mgr", GIB)


@pytest.mark.parametrize(("looks", "is_told"), [(1, True), (5, True), (10**6, False)])
def test_a_new_pool_is_waited_for_until_it_is_counted(
    world: World, looks: int, is_told: bool
) -> None:
    world.cluster.uncounted_looks[POOL] = looks
    if is_told:
        world.service().check_room(POOL, GIB)
        return
    with pytest.raises(
        GrampusError, match=f"the cluster to report the free space of the pool '{POOL}'"
    ) as caught:
        world.service().check_room(POOL, GIB)
    assert caught.value.code == "timeout"


def test_odd_sizes_are_rounded_up_so_that_the_export_has_that_size(world: World) -> None:
    spec = VolumeSpec(name="demo", pool=POOL, image="demo", size_bytes=GIB + 1)
    assert world.service().ensure_created(spec).spec.size_bytes == GIB + MIB
    assert world.image.size_bytes == GIB + MIB
    assert world.attach().device


def test_an_image_that_is_no_volume_is_never_taken_over(world: World) -> None:
    """In a namespace of its own a volume meets nobody's image."""
    foreign = Image(GIB, data="somebody else's")
    world.cluster.images[f"{POOL}/demo"] = foreign
    spec = VolumeSpec(name="demo", pool=POOL, image="demo", size_bytes=GIB, namespace="default")
    for take in (world.service().ensure_created, world.service().create):
        with pytest.raises(RefusedError) as caught:
            take(spec)
        assert caught.value.code == "image-exists"
    assert foreign.data == "somebody else's"
    assert world.service().all() == []
    assert world.cluster.users == {}
    world.create()
    world.attach()
    assert (world.image.data, foreign.data) == ("precious", "somebody else's")


def test_ensure_created_again_changes_nothing(world: World) -> None:
    world.create()
    world.attach()
    before = world.service().get("demo")
    assert world.service().ensure_created(before.spec) == before


def test_creating_a_name_that_was_taken_meanwhile_leaves_the_first_alone(world: World) -> None:
    plan = world.service().plan_create("demo", POOL, GIB)
    world.create()
    world.attach()
    with pytest.raises(RefusedError, match="already"):
        world.service().create(plan)
    assert world.image.data == "precious"
    assert world.service().is_attached("demo")


def test_attach_mounts_a_new_file_system_with_safe_options(world: World) -> None:
    world.create()
    attachment = world.attach()
    assert world.h1.mounts[MOUNT] == attachment.device
    assert attachment.mount_path == str(MOUNT)
    assert attachment.driver == "qsd"
    assert attachment.client_address == world.cluster.watchers(IMAGE)[0]
    (mount,) = [argv for argv in world.h1.commands if argv[0] == "mount"]
    assert {"nodev", "nosuid", "nouuid"} <= set(mount[4].split(","))
    record = world.service().get("demo")
    assert (record.host, record.attachment, record.is_formatted) == ("h1", attachment, True)
    assert world.service().driver_daemon(record) == "qsd-demo"
    assert world.service().is_attached("demo")


def test_attach_again_changes_nothing(world: World) -> None:
    world.create()
    attachment = world.attach()
    before, commands = world.inventory(), len(world.h1.commands)
    assert world.service().ensure_attached("demo", "h1") == attachment
    assert world.inventory() == before
    assert {argv[0] for argv in world.h1.commands[commands:]} <= {"python3", "findmnt"}


def test_detach_leaves_nothing_and_may_be_repeated(world: World) -> None:
    world.create()
    before = world.inventory()
    world.attach()
    for _ in range(2):
        world.service().ensure_detached("demo")
        assert world.inventory() == before
        assert not world.service().is_attached("demo")
    assert world.cluster.blocklist == []  # a client that said goodbye needs no fence


def test_data_stay_over_detach_and_attach_on_another_host(world: World) -> None:
    world.create()
    world.attach()
    world.service().ensure_detached("demo")
    world.attach(host="h2")
    assert world.image.data == "precious"
    assert not world.h1.mounts
    assert [argv[0] for argv in world.h2.commands].count("mkfs.xfs") == 0


def test_delete_leaves_nothing(world: World) -> None:
    before = world.inventory()
    world.create()
    world.attach()
    world.service().delete("demo")
    assert world.inventory() == before


def test_ensure_absent_and_detached_of_nothing_do_nothing(world: World) -> None:
    before = world.inventory()
    world.service().ensure_absent("demo")
    world.service().ensure_detached("demo")
    assert world.inventory() == before


@pytest.mark.parametrize("verb", ["get", "delete", "is_attached"])
def test_unknown_volume_is_not_found_with_a_suggestion(world: World, verb: str) -> None:
    world.create()
    with pytest.raises(NotFoundError, match="Did you mean 'demo'"):
        getattr(world.service(), verb)("demi")
    with pytest.raises(NotFoundError):
        world.service().ensure_attached("../demo", "h1")


def test_attached_elsewhere_is_refused(world: World) -> None:
    world.create()
    world.attach()
    before = world.inventory()
    with pytest.raises(RefusedError, match="attached to h1") as caught:
        world.service().ensure_attached("demo", "h2")
    assert caught.value.code == "attached-elsewhere"
    assert world.inventory() == before


def test_attached_elsewhere_is_refused_also_when_that_host_is_gone(world: World) -> None:
    world.create()
    world.attach()
    world.h1.up = False
    with pytest.raises(RefusedError, match="attached to h1"):
        world.service().ensure_attached("demo", "h2")
    assert not world.service().is_attached("demo")


def test_a_host_that_is_away_does_not_get_hold_of_the_volume(world: World) -> None:
    world.create()
    world.h1.up = False
    with pytest.raises(HostUnreachableError):
        world.service().ensure_attached("demo", "h1")
    assert world.service().get("demo").host is None
    world.attach(host="h2")


def test_unknown_host_is_not_found(world: World) -> None:
    world.create()
    with pytest.raises(NotFoundError):
        world.service().ensure_attached("demo", "h9")
    assert world.service().get("demo").host is None


def test_detaching_from_a_host_that_is_away_says_so_and_forgets_nothing(world: World) -> None:
    world.create()
    world.attach()
    world.h1.up = False
    with pytest.raises(HostUnreachableError):
        world.service().ensure_detached("demo")
    assert world.service().get("demo").host == "h1"


def _kill_driver(host: VolumeHost) -> None:
    host.kill_daemon("qsd-demo")


@pytest.mark.parametrize("disaster", [_kill_driver, VolumeHost.cut_power])
def test_killed_driver_is_fenced_by_its_exact_address_then_attached_anew(
    world: World, disaster: object
) -> None:
    world.create()
    dead = world.attach().client_address
    assert callable(disaster)
    disaster(world.h1)
    assert not world.service().is_attached("demo")
    attachment = world.attach()
    assert world.cluster.blocklist == [dead]
    assert attachment.client_address not in (None, dead)
    assert world.cluster.watchers(IMAGE) == [attachment.client_address]
    assert world.image.data == "precious"
    assert (len(world.h1.loops), sorted(world.h1.mounts)[-1]) == (1, MOUNT)


def test_fence_comes_before_the_image_is_opened_again(world: World) -> None:
    world.create()
    world.attach()
    world.h1.kill_daemon("qsd-demo")
    world.cluster.commands.clear()
    world.attach()
    verbs = [" ".join(argv) for argv in world.cluster.commands]
    fence = next(n for n, verb in enumerate(verbs) if "blocklist add" in verb)
    # The next look at the watchers is the one right before mapping.
    assert any("rbd status" in verb for verb in verbs[fence:])
    assert sum("blocklist" in verb for verb in verbs) == 1


def test_client_that_is_gone_already_needs_no_fence(world: World) -> None:
    world.create()
    world.attach()
    world.h1.cut_power()
    world.clock.sleep(31)
    world.attach()
    assert world.cluster.blocklist == []


def test_a_stranger_that_watches_is_not_fenced(world: World) -> None:
    world.create()
    world.attach()
    world.h1.cut_power()
    world.clock.sleep(31)
    stranger = world.cluster.open_image(IMAGE, "grampus.t.demo", world.h1.address)
    world.cluster.kill_client(stranger)  # dead, and yet on our host
    attachment = world.attach()
    assert world.cluster.blocklist == []
    assert attachment.client_address != stranger.address


def test_reattached_after_a_reboot_although_the_record_says_attached(world: World) -> None:
    world.create()
    world.attach()
    for host in (world.h1, world.h2):
        host.cut_power()
    world.clock.sleep(60)
    assert world.service().get("demo").attachment is not None
    assert not world.service().is_attached("demo")
    world.attach()
    assert world.image.data == "precious"


def test_partitioned_host_keeps_its_attachment_when_it_is_healed(world: World) -> None:
    world.create()
    attachment = world.attach()
    world.h1.up = False  # its driver goes on running behind the cut
    assert not world.service().is_attached("demo")
    with pytest.raises(HostUnreachableError):
        world.service().ensure_attached("demo", "h1")
    world.h1.up = True
    assert world.service().ensure_attached("demo", "h1") == attachment
    assert world.cluster.blocklist == []


def test_foreign_mount_on_our_place_is_taken_away_first(world: World) -> None:
    """A mount whose device is not ours (its number was reused) is no attachment."""
    world.create()
    world.attach()
    world.h1.cut_power()
    world.h1.mounts[MOUNT] = "/dev/loop77"
    attachment = world.attach()
    assert world.h1.mounts[MOUNT] == attachment.device != "/dev/loop77"


def test_deleting_after_the_host_lost_power(world: World) -> None:
    before = world.inventory()
    world.create()
    dead = world.attach().client_address
    world.h1.cut_power()
    world.service().delete("demo")
    assert world.inventory() == before
    assert world.cluster.blocklist == [dead]  # else the image would be busy for 30 s


@pytest.mark.parametrize(
    ("capabilities", "refused", "driver", "reason"),
    [
        (("krbd", "nbd", "fuse"), (), "krbd", "the kernel has the rbd driver"),
        (("krbd", "nbd", "fuse"), ("krbd",), "nbd", "krbd failed .*Operation not supported"),
        (("krbd", "fuse"), ("krbd",), "qsd", "krbd failed"),
        (("nbd", "fuse"), ("nbd",), "qsd", "no rbd driver; .*the host has FUSE; nbd failed"),
    ],
)
def test_falls_to_the_next_driver_and_says_why(
    world: World, capabilities: tuple[str, ...], refused: tuple[str, ...], driver: str, reason: str
) -> None:
    world.h1.capabilities, world.h1.refused_maps = capabilities, refused
    world.create()
    before = world.inventory()
    attachment = world.attach()
    assert attachment.driver == driver
    assert re.search(reason, attachment.driver_reason)
    assert world.cluster.watchers(IMAGE) == [attachment.client_address]
    world.service().ensure_detached("demo")
    assert world.inventory() == before


def test_a_driver_that_failed_half_way_lets_go_before_the_next_opens_the_image(
    world: World,
) -> None:
    world.h1.capabilities, world.h1.late_maps = ("krbd", "fuse"), ("krbd",)
    world.create()
    assert world.attach().driver == "qsd"  # RbdCluster refuses a second writer
    assert not world.h1.mappings


def test_host_without_any_driver_is_told_what_to_load(world: World) -> None:
    world.h1.capabilities = ()
    world.create()
    with pytest.raises(GrampusError, match="cannot attach an RBD image") as caught:
        world.service().ensure_attached("demo", "h1")
    assert caught.value.code == "no-driver"
    world.service().ensure_detached("demo")


def test_last_driver_that_fails_is_the_error_and_detach_clears_up(world: World) -> None:
    world.create()
    before = world.inventory()
    world.h1.has_exports = False
    with pytest.raises(GrampusError, match="Gave up waiting for the export"):
        world.service().ensure_attached("demo", "h1")
    world.service().ensure_detached("demo")
    assert world.inventory() == before


def test_a_volume_named_like_an_osd_takes_no_osds_loop_device(world: World) -> None:
    world.create("osd-0")
    world.attach("osd-0")
    (loop,) = world.h1.loops.values()
    assert loop.reference == "grampus/1a2b3/volume-osd-0"
    assert len(loop.reference) < 64


def test_longest_name_fits_the_loop_devices_reference(world: World) -> None:
    name = "x" * 32
    world.create(name)
    world.attach(name)
    (loop,) = world.h1.loops.values()
    assert len(loop.reference) < 64


def test_keyring_on_the_host_is_private_and_goes_with_the_attachment(world: World) -> None:
    world.create()
    world.attach()
    (path,) = [path for path in world.h1.files if path.suffix == ".keyring"]
    assert world.h1.files[path].mode == 0o600
    world.service().ensure_detached("demo")
    assert path not in world.h1.files


def test_a_busy_mount_is_an_error_and_nothing_under_it_is_touched(world: World) -> None:
    world.create()
    attachment = world.attach()

    def refuse(target: object) -> tuple[int, str]:
        return 32, f"umount: {target}: target is busy."

    world.h1._umount = refuse  # type: ignore[method-assign]
    with pytest.raises(GrampusError, match=r"in use by mysqld \(PID 4711\)"):
        world.service().ensure_detached("demo")
    assert world.h1.image_of(attachment.device) is world.image
    assert world.service().get("demo").host == "h1"


def test_metadata_go_to_the_image_under_our_prefix(world: World) -> None:
    world.create()
    world.service().set_metadata("demo", {"flavour": "mysql"})
    assert world.image.metadata["grampus.flavour"] == "mysql"


def test_volumes_of_another_process_at_work_are_left_to_it(world: World) -> None:
    """INV-27: an unfinished operation whose lock is held is not interrupted but in progress."""
    spec = world.service().plan_create("demo", POOL, GIB)
    world.journal.begin("volume.create", LAB, "demo", spec.model_dump(mode="json"))
    world.service().ensure_created(spec)
    with hold_lock(world.home, f"volume.{LAB}.demo", world.clock):
        assert world.service().converge() == []
        assert IMAGE in world.cluster.images
        with pytest.raises(RefusedError) as caught:
            world.service().ensure_attached("demo", "h1")
        assert caught.value.code == "busy"
    assert world.service().converge() == [
        "The creation of the volume demo was interrupted. It is now undone."
    ]
    assert world.cluster.images == {}


def test_what_failed_on_a_host_that_answers_is_left_to_the_controller(world: World) -> None:
    """INV-72, of volumes: commands on other volumes neither try it again nor wait for it."""
    world.create("away")
    world.attach("away")
    world.h1.up = False
    with pytest.raises(HostUnreachableError):
        world.service().delete("away")
    world.h1.up = True
    world.h1.mounts_in_use = set(world.h1.mounts)
    (said,) = world.service().converge()
    assert "volume away was interrupted and could not be recovered" in said
    asked = len(world.h1.commands)
    assert world.service().converge() == []
    assert world.service().converge(completes=True) == [said], "before its time"
    assert len(world.h1.commands) == asked
    world.h1.mounts_in_use.clear()
    world.clock.sleep(3600)
    assert world.service().converge(completes=True) == [
        "The deletion of the volume away was interrupted. It is now finished."
    ]


def test_what_cannot_be_settled_now_is_said_and_does_not_stop_the_rest(world: World) -> None:
    world.create("away")
    world.attach("away")
    world.h1.up = False
    with pytest.raises(HostUnreachableError):
        world.service().delete("away")
    spec = world.service().plan_create("half", POOL, GIB)
    world.journal.begin("volume.create", LAB, "half", spec.model_dump(mode="json"))
    sentences = world.service().converge()
    assert len(sentences) == 2
    assert (
        "volume away was interrupted and could not be recovered: The host h1 cannot be reached."
        in sentences[0]
    )
    assert "half was interrupted. It is now undone" in sentences[1]
    world.create("demo")  # other volumes go on
    assert world.service().converge() == [], "every command says it again"
    assert world.service().converge(completes=True) == sentences[:1], "the controller does not"
    world.h1.up = True
    assert world.service().converge() == [
        "The deletion of the volume away was interrupted. It is now finished."
    ]
    assert list(world.cluster.images) == [IMAGE]
    assert not world.h1.loops
