"""INV-1: whatever a journal holds gets into the image before anything else uses the image."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB
from grampus.hosts.port import HostUnreachableError
from grampus.volumes.journals import Replayed, ReplayOrder
from grampus.volumes.model import DriverName, VolumeRecord, WritePath
from tests.fakes.interruption import Killed
from tests.unit.operation_runner import planned

from .cluster import POOL
from .world import IMAGE, LAB, World

KEYRING = "ceph.client.grampus.t.demo.keyring"


@pytest.fixture
def journaled(world: World) -> World:
    """A detached volume with the write path journal."""
    world.build_volumed()
    world.create(write_path="journal")
    return world


def _leave_unapplied(world: World) -> None:
    """Attached, written to, its volumed killed, detached."""
    world.attach()
    world.h1.kill_daemon("volumed-demo")
    world.service().ensure_detached("demo")
    assert (world.image.frames, world.image.is_journal_open) == (3, True)


def _keyrings(world: World) -> list[str]:
    return [
        str(path) for host in (world.h1, world.h2) for path in host.files if "keyring" in path.name
    ]


def test_volumed_serves_it_and_drains_it_as_it_is_detached(journaled: World) -> None:
    attachment = journaled.attach()
    assert attachment.driver == "volumed"
    assert attachment.driver_reason == "only volumed serves the write path journal"
    assert journaled.image.is_journal_open
    live = journaled.service().observe_live("demo")
    assert live is not None
    assert live.journal is not None
    assert (live.write_path, live.journal.state, live.journal.fill_ratio) == (
        *("journal", "running"),
        0.25,
    )
    assert journaled.service().observe_unapplied("demo") is None
    before = journaled.inventory()
    plan = planned(journaled.runner, lambda: journaled.service().ensure_detached("demo"))
    assert "Apply the journal" in plan
    assert journaled.inventory() == before
    journaled.service().ensure_detached("demo")
    assert (journaled.image.frames, journaled.image.is_journal_open) == (0, False)
    assert journaled.service().observe_unapplied("demo") is False


def test_volumed_is_taken_even_where_krbd_is_there(journaled: World) -> None:
    journaled.h1.capabilities = ("krbd", "nbd", "fuse")
    assert journaled.attach().driver == "volumed"


def test_direct_stays_the_default_and_starts_no_journal(world: World) -> None:
    world.build_volumed()
    world.create()
    world.attach()
    assert world.service().get("demo").spec.write_path == "direct"
    assert "--write-path" not in world.h1.daemons["volumed-demo"].spec.argv
    assert world.cluster.journals == set()


@pytest.mark.parametrize("driver", ["krbd", "nbd", "qsd"])
def test_another_driver_is_refused_before_anything_is_changed(
    journaled: World, driver: DriverName
) -> None:
    journaled.h1.capabilities = ("krbd", "nbd", "fuse")
    for prepare, code in ((None, "write-path"), (_leave_unapplied, "unapplied-journal")):
        if prepare is not None:
            prepare(journaled)
        before, service = journaled.inventory(), journaled.service()
        for act in (
            lambda s=service: s.ensure_attached("demo", "h1", driver=driver),
            lambda s=service: planned(
                journaled.runner, lambda: s.ensure_attached("demo", "h1", driver=driver)
            ),
        ):
            with pytest.raises(RefusedError) as caught:
                act()
            assert caught.value.code == code
        assert journaled.inventory() == before


def test_no_other_driver_is_fallen_back_to(journaled: World) -> None:
    journaled.h1.volumed_failure = "volumed: no librbd there"
    with pytest.raises(GrampusError, match="no librbd there"):
        journaled.service().ensure_attached("demo", "h1")
    journaled.h1.probe = ""
    with pytest.raises(GrampusError, match="only volumed serves the write path journal") as caught:
        journaled.service().ensure_attached("demo", "h1")
    assert caught.value.code == "no-driver"
    assert list(journaled.h1.mounts) == []


def test_what_was_left_is_applied_by_the_next_attach_whatever_its_write_path(
    journaled: World,
) -> None:
    _leave_unapplied(journaled)
    journaled.service().ensure_write_path("demo", "direct")
    journaled.h2.capabilities = ("krbd", "fuse")
    before = journaled.inventory()
    plan = planned(journaled.runner, lambda: journaled.service().ensure_attached("demo", "h2"))
    assert journaled.inventory() == before
    assert plan[:2] == ["Apply the journal", f"Map {IMAGE} on h2 through volumed"]
    attachment = journaled.attach(host="h2")
    assert (attachment.driver, attachment.driver_reason) == (
        "volumed",
        "only volumed can apply the journal that the image has",
    )
    assert (journaled.image.frames, journaled.image.is_journal_open) == (0, False)
    journaled.service().ensure_detached("demo")
    assert journaled.attach(host="h2").driver == "krbd"


def test_a_fenced_journal_is_applied_by_the_heir(journaled: World) -> None:
    journaled.attach()
    journaled.cut_off(journaled.h1)
    journaled.service().fence("demo")
    assert journaled.image.frames == 3
    journaled.service().ensure_attached("demo", "h2")
    assert journaled.image.frames == 0


@pytest.mark.parametrize(
    ("held", "wanted"), [("direct", "journal"), ("journal", "direct"), ("journal", "journal")]
)
def test_set_changes_the_record_of_a_detached_volume_alone(
    world: World, held: WritePath, wanted: WritePath
) -> None:
    world.build_volumed()
    world.create(write_path=held)
    world.attach()
    world.service().ensure_detached("demo")
    before = world.inventory()
    plan = planned(world.runner, lambda: world.service().ensure_write_path("demo", wanted))
    step = f"Set the write path of the volume 'demo' to {wanted}"
    assert plan == ([] if held == wanted else [step])
    assert world.inventory() == before
    for _ in range(2):
        assert world.service().ensure_write_path("demo", wanted).spec.write_path == wanted
    assert world.inventory() == {**before, "write paths": [f"demo:{wanted}"]}
    world.attach()
    assert world.image.is_journal_open is (wanted == "journal")


def test_set_is_refused_while_it_is_attached_unless_it_changes_nothing(journaled: World) -> None:
    journaled.attach()
    before, service = journaled.inventory(), journaled.service()
    for act in (
        lambda: service.ensure_write_path("demo", "direct"),
        lambda: planned(journaled.runner, lambda: service.ensure_write_path("demo", "direct")),
    ):
        with pytest.raises(RefusedError, match="attached to h1") as caught:
            act()
        assert caught.value.code == "attached"
        assert "grampus volume detach demo" in caught.value.remedy
    service.ensure_write_path("demo", "journal")
    assert planned(journaled.runner, lambda: service.ensure_write_path("demo", "journal")) == []
    assert journaled.inventory() == before


def test_journal_without_a_built_volumed_is_refused_before_anything(world: World) -> None:
    service = world.service()
    with pytest.raises(GrampusError, match="has not been built") as caught:
        service.plan_create("demo", POOL, GIB, write_path="journal")
    assert caught.value.code == "no-volumed"
    world.create()
    for act in (
        lambda: service.ensure_write_path("demo", "journal"),
        lambda: service.require_served("h1", "journal"),
    ):
        with pytest.raises(GrampusError, match="has not been built"):
            act()
    service.require_served("h1", "direct")


def test_a_host_without_fuse_cannot_serve_a_journal(world: World) -> None:
    world.build_volumed()
    world.service().require_served("h1", "journal")
    world.h1.capabilities = ("krbd",)
    with pytest.raises(GrampusError, match="the kernel has no FUSE") as caught:
        world.service().require_served("h1", "journal")
    assert caught.value.code == "no-driver"
    assert world.h1.programs == {}


def test_replay_brings_everything_into_the_image_and_leaves_nothing_on_the_host(
    journaled: World,
) -> None:
    _leave_unapplied(journaled)
    before = journaled.inventory()
    assert journaled.service().observe_unapplied("demo") is True
    assert planned(journaled.runner, lambda: journaled.service().replay("demo")) == [
        "Apply the journal of 'demo', from h1",
        "Remove the remains on h1",
    ]
    assert journaled.inventory() == before
    assert journaled.service().replay("demo") == Replayed(replayed_frames=3, replayed_bytes=12288)
    assert journaled.image.frames == 0
    assert journaled.inventory() == {**before, "unapplied": []}
    (tool,) = [argv for argv in journaled.h1.commands if "replay" in argv]
    assert tool == (
        *("timeout", "600", "/data/h1/bin/volumed", "replay", "--image", IMAGE),
        *("--user", "grampus.t.demo", "--conf", "/etc/ceph/ceph.conf"),
    )
    # Again, it is not even asked for.
    commands = len(journaled.h1.commands)
    assert planned(journaled.runner, lambda: journaled.service().replay("demo")) == []
    assert journaled.service().replay("demo") == Replayed()
    assert len(journaled.h1.commands) == commands


def test_a_damaged_journal_is_replayed_only_once_its_loss_is_accepted(journaled: World) -> None:
    _leave_unapplied(journaled)
    journaled.h1.volumed_failure = (
        "volumed: The journal of demo cannot be opened: slot 0003 of the journal is missing. "
        "To open it without what is lost, run `volumed replay --accept-damage`."
    )
    with pytest.raises(GrampusError, match="slot 0003 of the journal is missing") as caught:
        journaled.service().replay("demo")
    assert caught.value.code == "journal-damaged"
    assert "`grampus volume replay demo --accept-loss`" in caught.value.remedy
    assert journaled.image.frames == 3
    journaled.h1.volumed_failure = ""
    journaled.service().replay("demo", accept_loss=True)
    argv = [argv for argv in journaled.h1.commands if "replay" in argv][-1]
    assert "--accept-damage" in argv
    # An order of an earlier release accepts nothing.
    assert not ReplayOrder.model_validate({"name": "demo", "host": "h1"}).accept_loss


def test_replay_after_a_fence_runs_with_the_new_key(journaled: World) -> None:
    journaled.attach()
    journaled.service().fence("demo")
    assert "client.grampus.t.demo" not in journaled.cluster.users
    assert journaled.service().replay("demo").replayed_frames == 3
    assert _keyrings(journaled) == []
    assert journaled.service().get("demo").fenced == ()  # it was cleared away as well


def test_replay_uses_a_host_that_can_be_reached(journaled: World) -> None:
    _leave_unapplied(journaled)
    journaled.h1.up = False
    assert journaled.service().replay("demo").replayed_frames == 3
    assert [argv for argv in journaled.h2.commands if "replay" in argv]
    journaled.image.metadata["grampus.journal"] = "open"
    journaled.h2.up = False
    with pytest.raises(HostUnreachableError, match="No host"):
        journaled.service().replay("demo")


def test_replay_of_an_attached_volume_is_refused(journaled: World) -> None:
    journaled.attach()
    with pytest.raises(RefusedError, match="attached to h1: the detach applies") as caught:
        journaled.service().replay("demo")
    assert caught.value.code == "attached"
    assert journaled.image.frames == 3
    with pytest.raises(NotFoundError):
        journaled.service().replay("other")


def test_replay_of_what_never_had_a_journal_does_nothing(world: World) -> None:
    world.create()
    assert world.service().replay("demo") == Replayed()


def test_replay_waits_for_nobody_who_may_still_write(journaled: World) -> None:
    _leave_unapplied(journaled)
    stranger = journaled.cluster.open_image(IMAGE, "grampus.t.demo", "10.9.0.99")
    with pytest.raises(RefusedError, match=f"the client {stranger.address}") as caught:
        journaled.service().replay("demo")
    assert caught.value.code == "in-use"
    assert (journaled.image.frames, _keyrings(journaled)) == (3, [])
    assert journaled.service().get("demo").host is None
    assert journaled.journal.unfinished(LAB) == []


@pytest.mark.parametrize(
    ("change", "code", "sentence"),
    [
        ({"volumed_failure": "volumed: no quorum"}, "volumed-failed", "applied on h1: volumed: no"),
        ({"volumed_answers": "done"}, "volumed-answer", "is not valid"),
        ({"volumed_answers": '{"replayed_frames": "x"}'}, "volumed-answer", "is not valid"),
    ],
)
def test_a_replay_that_fails_says_why_and_leaves_nothing(
    journaled: World, change: dict[str, str], code: str, sentence: str
) -> None:
    _leave_unapplied(journaled)
    for name, value in change.items():
        setattr(journaled.h1, name, value)
    with pytest.raises(GrampusError, match=sentence) as caught:
        journaled.service().replay("demo")
    assert caught.value.code == code
    assert (_keyrings(journaled), journaled.service().get("demo").host) == ([], None)
    assert journaled.journal.unfinished(LAB) == []


def test_a_replay_on_a_host_that_is_lost_does_not_bind_the_volume_to_it(journaled: World) -> None:
    """Killed once the record names the host; then the host is lost, and its client fenced."""
    _leave_unapplied(journaled)
    for point in range(200):
        journaled.fuse.left, journaled.fuse.error = point, Killed()
        with pytest.raises(Killed):
            journaled.service().replay("demo")
        if _keyrings(journaled):
            break
        journaled.service().converge()
    journaled.cluster.open_image(IMAGE, "grampus.t.demo", journaled.h1.address)
    journaled.cut_off(journaled.h1)
    (said,) = journaled.service().converge()
    assert "h1 cannot be reached" in said
    assert "grampus volume fence demo" in said
    journaled.service().fence("demo")
    journaled.service().ensure_attached("demo", "h2")
    assert journaled.image.frames == 0
    journaled.h1.up = True
    journaled.service().ensure_detached("demo")
    assert _keyrings(journaled) == []


def test_an_interrupted_replay_is_cleared_away_and_said(journaled: World) -> None:
    _leave_unapplied(journaled)
    journaled.fuse.left = 8
    with pytest.raises(Killed):
        journaled.service().replay("demo")
    assert journaled.service().converge() == [
        "The replay of the volume demo was interrupted. "
        "It is now undone; the journal keeps all new writes."
    ]


def test_what_a_volumed_could_not_drain_in_time_waits_in_the_journal(journaled: World) -> None:
    journaled.attach()
    journaled.h1.drains = False
    journaled.service().ensure_detached("demo")
    assert journaled.service().observe_unapplied("demo") is True
    assert journaled.service().replay("demo").replayed_frames == 3


@pytest.mark.parametrize("prepare", ["attached", "unapplied", "fenced", "set-direct"])
def test_delete_removes_the_journal_with_the_image(journaled: World, prepare: str) -> None:
    journaled.attach()
    if prepare == "unapplied":
        journaled.h1.kill_daemon("volumed-demo")
    elif prepare == "fenced":
        journaled.service().fence("demo")
    elif prepare == "set-direct":
        journaled.service().ensure_detached("demo")
        journaled.service().ensure_write_path("demo", "direct")
    before = journaled.inventory()
    plan = planned(journaled.runner, lambda: journaled.service().delete("demo"))
    assert journaled.inventory() == before
    assert plan == ["Detach", "Remove its journal, if it has one", f"Remove the image {IMAGE}"]
    journaled.service().delete("demo")  # RbdCluster fails the test on objects left
    assert journaled.cluster.journals == set()
    assert (journaled.cluster.images, journaled.cluster.users) == ({}, {})
    assert _keyrings(journaled) == []


def test_a_volume_that_never_had_a_journal_is_deleted_without_volumed(world: World) -> None:
    world.create()
    world.attach()
    world.service().delete("demo")
    assert not [argv for argv in world.h1.commands if "remove-journal" in argv]


def test_delete_that_cannot_remove_the_journal_keeps_the_image_and_goes_on_later(
    journaled: World,
) -> None:
    journaled.attach()
    journaled.service().ensure_detached("demo")
    journaled.h1.volumed_failure = "volumed: no librbd there"
    with pytest.raises(GrampusError, match=r"could not be removed on h1: .*no librbd"):
        journaled.service().delete("demo")
    assert IMAGE in journaled.cluster.images
    journaled.h1.volumed_failure = ""
    journaled.service().converge()
    assert (journaled.cluster.images, journaled.cluster.journals) == ({}, set())


def test_records_of_an_earlier_version_write_directly() -> None:
    old = '{"spec":{"name":"d","pool":"p","image":"i","size_bytes":1},"ceph_user":"u"}'
    assert VolumeRecord.model_validate_json(old).spec.write_path == "direct"


def test_resize_keeps_the_write_path(journaled: World) -> None:
    journaled.attach()
    journaled.resize("demo", 2 * GIB)
    assert journaled.service().get("demo").spec.write_path == "journal"


def test_fences_are_cleared_where_it_can_be_done_and_what_stays_is_kept(journaled: World) -> None:
    journaled.attach()
    journaled.service().fence("demo")
    journaled.h1.up = False
    journaled.service().takeovers.ensure_cleared("demo")
    assert [left.host for left in journaled.service().get("demo").fenced] == ["h1"]
    journaled.h1.up = True
    journaled.service().takeovers.ensure_cleared("demo")
    journaled.service().takeovers.ensure_cleared("demo")
    journaled.service().takeovers.ensure_cleared("none")
    record = journaled.service().get("demo")
    assert (record.fenced, record.host) == ((), None)
    assert (journaled.h1.mounts, journaled.h1.loops, journaled.h1.daemons) == ({}, {}, {})
