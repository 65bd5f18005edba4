"""Attaching through volumed: chosen, forced, mended, and what it says afterwards."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.volumes.model import DriverName, TransportName, VolumeRecord, VolumeSpec, WritePath
from tests.unit.operation_runner import planned
from tests.unit.volumes.machine import Daemon, VolumeHost

from .cluster import POOL
from .world import IMAGE, MOUNT, World


@pytest.fixture
def built(world: World) -> World:
    """A volume, and a volumed that was built."""
    world.build_volumed()
    world.create()
    return world


def test_volumed_is_the_default_where_krbd_is_not_there(built: World) -> None:
    before = built.inventory()
    attachment = built.attach()
    assert attachment.driver == "volumed"
    assert attachment.driver_reason == "the kernel has no rbd driver; volumed works on this host"
    assert attachment.transport == "uring"
    assert attachment.export_path == "/data/h1/exports/demo/image"
    assert [attachment.client_address] == built.cluster.watchers(IMAGE)
    record = built.service().get("demo")
    assert built.service().driver_daemon(record) == "volumed-demo"
    built.service().ensure_detached("demo")
    assert built.inventory() == before
    assert built.cluster.blocklist == []


def test_attach_again_asks_the_daemon_and_changes_nothing(built: World) -> None:
    attachment = built.attach()
    before, commands = built.inventory(), len(built.h1.commands)
    assert built.service().ensure_attached("demo", "h1") == attachment
    assert built.inventory() == before
    assert [argv[0] for argv in built.h1.commands[commands:]] == ["timeout", "python3", "findmnt"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"probe": ""}, "volumed cannot be used: `volumed probe` failed: volumed: cannot run"),
        (
            {"probe": '{"fuse": false, "reason": "no /dev/fuse"}'},
            "volumed cannot be used: FUSE cannot be used .no /dev/fuse.",
        ),
        (
            {"volumed_failure": "volumed: librbd.so.1 is not there"},
            "volumed failed .*librbd.so.1 is not there",
        ),
    ],
)
def test_a_volumed_that_fails_gives_way_to_the_next_driver_and_says_why(
    built: World, change: dict[str, str], reason: str
) -> None:
    for name, value in change.items():
        setattr(built.h1, name, value)
    attachment = built.attach()
    assert attachment.driver == "qsd"
    assert reason.split(".")[0] in attachment.driver_reason
    assert sorted(built.h1.daemons) == ["qsd-demo"]


def test_a_checkout_without_volumed_falls_to_the_next_driver_and_says_why(world: World) -> None:
    world.create()
    attachment = world.attach()
    assert attachment.driver == "qsd"
    assert "volumed cannot be used: it has not been built" in attachment.driver_reason


@pytest.mark.parametrize("driver", ["volumed", "qsd"])
def test_driver_that_is_asked_for_is_taken(built: World, driver: DriverName) -> None:
    attachment = built.service().ensure_attached("demo", "h1", driver=driver)
    assert (attachment.driver, attachment.driver_reason) == (driver, "requested")


def test_a_driver_that_was_asked_for_gives_way_to_none(built: World) -> None:
    built.h1.volumed_failure = "volumed: librbd.so.1 is not there"
    with pytest.raises(GrampusError, match=r"librbd\.so\.1 is not there"):
        built.service().ensure_attached("demo", "h1", driver="volumed")
    assert sorted(built.h1.daemons) == ["volumed-demo"]  # for its log
    built.service().ensure_detached("demo")
    assert not built.h1.daemons


def test_a_driver_that_is_asked_for_and_not_there_is_refused_before_anything(
    world: World,
) -> None:
    world.create()
    before = world.inventory()
    for driver, transport in (("krbd", None), ("volumed", None), (None, "uring")):
        with pytest.raises(GrampusError, match="h1 cannot attach a volume through") as caught:
            world.service().ensure_attached(
                "demo",
                "h1",
                driver=driver,  # type: ignore[arg-type]
                transport=transport,  # type: ignore[arg-type]
            )
        assert caught.value.code == "no-driver"
    assert world.inventory() == before


def test_transport_that_is_asked_for_is_taken(built: World) -> None:
    attachment = built.service().ensure_attached("demo", "h1", transport="classic")
    assert (attachment.driver, attachment.transport) == ("volumed", "classic")


@pytest.mark.parametrize(
    ("driver", "transport", "is_as_asked"),
    [
        (None, None, True),
        ("volumed", None, True),
        (None, "uring", True),
        ("volumed", "auto", True),
        ("qsd", None, False),
        (None, "classic", False),
    ],
)
def test_a_living_attachment_is_kept_or_refused_but_never_exchanged(
    built: World,
    driver: DriverName | None,
    transport: TransportName | None,
    is_as_asked: bool,
) -> None:
    attachment = built.attach()
    service = built.service()
    if is_as_asked:
        again = service.ensure_attached("demo", "h1", driver=driver, transport=transport)
        assert again == attachment
        return
    with pytest.raises(RefusedError, match="attached already, through volumed, transport uring"):
        service.ensure_attached("demo", "h1", driver=driver, transport=transport)
    assert built.service().is_attached("demo")


@pytest.mark.parametrize(
    "disaster", [VolumeHost.cut_power, lambda host: host.kill_daemon("volumed-demo")]
)
def test_killed_daemon_is_fenced_by_its_exact_address_then_attached_anew(
    built: World, disaster: object
) -> None:
    dead = built.attach().client_address
    assert callable(disaster)
    disaster(built.h1)
    assert not built.service().is_attached("demo")
    attachment = built.attach()
    assert built.cluster.blocklist == [dead]
    assert attachment.client_address not in (None, dead)
    assert built.image.data == "precious"
    assert len(built.h1.loops) == 1


@pytest.mark.parametrize("then", ["attach", "detach"])
def test_daemon_that_is_killed_as_it_opens_the_image_keeps_nobody_waiting(
    built: World, then: str
) -> None:
    """No record has its address, for it never served: its log has."""
    built.h1.killed_openings = 1
    with pytest.raises(GrampusError, match="ended on h1"):
        built.service().ensure_attached("demo", "h1", driver="volumed")
    (dead,) = built.image.clients
    before_s = built.clock.slept_s
    if then == "detach":
        built.service().ensure_detached("demo")
    attachment = built.attach()
    assert built.cluster.blocklist == [dead.address]
    assert attachment.client_address not in (None, dead.address)
    assert built.clock.slept_s - before_s < 5


def test_another_driver_does_not_wait_for_one_that_was_killed(built: World) -> None:
    built.h1.killed_openings = 1
    before_s = built.clock.slept_s
    assert built.attach().driver != "volumed"
    dead, living = built.image.clients
    assert built.cluster.blocklist == [dead.address]
    assert living.died_at_s is None
    assert built.clock.slept_s - before_s < 5


def test_an_image_that_somebody_else_writes_to_is_not_attached(built: World) -> None:
    """Not every driver takes the lock and keeps it: both would write."""
    stranger = built.cluster.open_image(IMAGE, "grampus.t.demo", "10.9.0.99")
    with pytest.raises(
        RefusedError, match=f"the client {stranger.address}, which does not belong to Grampus"
    ):
        built.service().ensure_attached("demo", "h1")
    assert not built.h1.daemons


def test_file_system_may_cover_the_first_part_alone(built: World) -> None:
    spec = VolumeSpec(
        name="raw", pool=POOL, image="raw", size_bytes=GIB, filesystem_bytes=400 * MIB
    )
    built.service().ensure_created(spec)
    for _ in range(2):
        built.attach("raw")
        assert built.cluster.images[f"{POOL}/raw.1/raw"].filesystem_bytes == 400 * MIB
        built.service().ensure_detached("raw")


def test_the_plan_of_an_attach_changes_nothing_not_even_the_program(built: World) -> None:
    service, before = built.service(), built.inventory()
    image = "databases/demo.1/demo"
    assert planned(built.runner, lambda: service.ensure_attached("demo", "h1")) == [
        f"Map {image} on h1 through volumed or qsd",
        "Create an xfs file system",
        f"Mount it at {MOUNT}",
    ]
    assert built.inventory() == before
    assert built.h1.programs == {}
    plan = planned(built.runner, lambda: service.ensure_attached("demo", "h1", driver="qsd"))
    assert plan[0] == f"Map {image} on h1 through qsd"
    with pytest.raises(GrampusError, match="h1 cannot attach a volume through krbd"):
        planned(built.runner, lambda: service.ensure_attached("demo", "h1", driver="krbd"))
    assert built.inventory() == before


def test_the_plan_of_an_attach_says_what_is_there(built: World) -> None:
    built.attach()
    before, service = built.inventory(), built.service()
    assert planned(built.runner, lambda: service.ensure_attached("demo", "h1")) == []
    with pytest.raises(RefusedError, match="attached to h1"):
        planned(built.runner, lambda: service.ensure_attached("demo", "h2"))
    assert planned(built.runner, lambda: service.ensure_detached("demo")) == [
        f"Unmount {MOUNT}",
        "Unmap databases/demo.1/demo from h1",
    ]
    assert built.inventory() == before
    built.h1.kill_daemon("volumed-demo")
    before = built.inventory()
    plan = planned(built.runner, lambda: service.ensure_attached("demo", "h1"))
    assert plan[0] == "Keep the attachment to h1 if it works, otherwise remove it"
    assert built.inventory() == before


def test_live_state_and_statistics(built: World) -> None:
    assert built.service().observe_live("demo") is None
    built.attach()
    live = built.service().observe_live("demo")
    assert live is not None
    assert (live.state, live.transport_reason, live.in_flight) == (
        *("running", "the kernel has it"),
        2,
    )
    assert live.kinds["read"].p99_us == 900.0
    assert live.kinds["flush"].p99_us is None


def test_live_state_of_the_dead_the_unreachable_and_other_drivers(built: World) -> None:
    built.attach()
    built.h1.up = False
    live = built.service().observe_live("demo")
    assert live is not None
    assert (live.state, live.state_reason) == ("unknown", "h1 cannot be reached")
    built.h1.up = True
    built.h1.kill_daemon("volumed-demo")
    live = built.service().observe_live("demo")
    assert live is not None
    assert (live.state, live.kinds) == ("dead", {})
    built.service().ensure_detached("demo")
    built.service().ensure_attached("demo", "h1", driver="qsd")
    assert built.service().observe_live("demo") is None


def test_a_removal_waits_neither_for_a_driver_that_does_not_end_nor_for_its_watch(
    built: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One took 150 s: two minutes until its driver gave up, and half a minute of its watch."""
    client = built.attach().client_address
    answer = built.h1._volumed_answer
    asked: list[list[str]] = []

    def hangs(daemon: Daemon, command: str, options: list[str]) -> tuple[int, str]:
        if command != "stop":
            return answer(daemon, command, options)
        asked.append(options)
        built.h1.kill_daemon("volumed-demo")
        return 124, ""

    monkeypatch.setattr(built.h1, "_volumed_answer", hangs)
    began_s = built.clock.monotonic_s()
    built.service().delete("demo")
    assert asked == [["--leave-journal", "--timeout-s", "10"]]
    assert built.cluster.blocklist == [client]
    assert built.clock.monotonic_s() - began_s < 1
    assert IMAGE not in built.cluster.images


def test_a_journal_is_drawn_down_while_somebody_can_be_asked(built: World) -> None:
    spec = built.service().plan_create("drawn", "databases", GIB, write_path="journal")
    built.service().create(spec)
    built.service().draw_down("drawn")  # attached nowhere: nobody is asked
    built.attach("drawn")
    made = built.service().get("drawn").spec
    image = built.cluster.images[f"{POOL}/{made.image}"]
    built.h1.is_volumed_mute = True
    built.service().draw_down("drawn")
    assert image.frames == 3
    built.h1.is_volumed_mute = False
    built.service().draw_down("drawn")
    assert image.frames == 0
    built.h1.up = False
    built.service().draw_down("drawn")
    with pytest.raises(NotFoundError):
        built.service().draw_down("drown")


@pytest.mark.parametrize("write_path", ["journal", "cache"])
def test_what_only_a_journal_holds_is_not_brought_into_an_image_that_is_removed(
    built: World, write_path: WritePath
) -> None:
    before = built.inventory()
    spec = built.service().plan_create("gone", "databases", GIB, write_path=write_path)
    built.service().create(spec)
    built.attach("gone")
    made = built.service().get("gone").spec
    image = built.cluster.images[f"{POOL}/{made.image}"]
    assert image.frames == 3
    built.service().delete("gone")
    assert image.applied_frames == 0
    assert built.inventory() == before
    # One that stays is left with all that it was promised.
    kept = built.cluster.images[IMAGE]
    built.attach()
    frames = kept.frames
    built.service().ensure_detached("demo")
    assert (kept.frames, kept.applied_frames) == (0, frames)


def test_on_a_host_where_nothing_of_it_is_left_nothing_is_looked_for(built: World) -> None:
    built.attach()
    assert "python3" not in {argv[0] for argv in built.h1.commands}
    built.h1.kill_daemon("volumed-demo")
    built.service().ensure_attached("demo", "h1")
    assert "python3" in {argv[0] for argv in built.h1.commands}


def test_what_an_attach_asks_for_is_found_out_beforehand_and_once(built: World) -> None:
    def asked() -> int:
        said = (*built.cluster.commands, *built.h1.commands, *built.h2.commands)
        return sum("get-or-create" in argv or argv[-1] == "probe" for argv in said)

    built.attach()
    service = built.service()
    service.draw_down("demo", towards="h2")
    for host, questions in (("h2", 0), ("h1", 2)):
        service.ensure_detached("demo")
        before = asked()
        service.ensure_attached("demo", host)
        assert asked() == before + questions, host


def test_records_of_an_earlier_version_load() -> None:
    old = (
        '{"spec":{"name":"demo","pool":"p","image":"i","size_bytes":1,"filesystem":"xfs"},'
        '"ceph_user":"u","host":"h1","is_formatted":true,"attachment":{"host":"h1","driver":"qsd",'
        '"driver_reason":"r","device":"/dev/loop0","mount_path":"/m","client_address":null}}'
    )
    record = VolumeRecord.model_validate_json(old)
    assert record.attachment is not None
    assert (record.attachment.export_path, record.attachment.transport) == (None, None)
    assert (record.spec.filesystem_bytes, record.fenced) == (None, ())
