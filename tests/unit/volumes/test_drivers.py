from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from grampus.core.errors import GrampusError
from grampus.core.units import GIB
from grampus.hosts.port import CommandFailedError
from grampus.volumes.drivers.port import Driver, MapRequest
from grampus.volumes.drivers.table import build_drivers
from grampus.volumes.drivers.volumed import VolumedProgram
from grampus.volumes.model import DriverName, VolumeSpec

from .cluster import POOL, Image
from .machine import Mapping
from .world import IMAGE, World

EXPORT = PurePosixPath("/data/h1/exports/demo/image")
REQUEST = MapRequest(
    VolumeSpec(name="demo", pool=POOL, image="demo.1/demo", size_bytes=GIB),
    "u",
    "grampus/1a2b3/demo",
)


@pytest.fixture
def prepared(world: World) -> World:
    """An image and its user, and the user's keyring on h1."""
    world.cluster.images[IMAGE] = Image(GIB)
    world.cluster.users["client.u"] = {}
    keyring = PurePosixPath("/data/h1/etc-ceph/ceph.client.u.keyring")
    world.h1.write_file(keyring, "key", mode=0o600)
    world.h1.capabilities = ("krbd", "nbd", "fuse")
    world.build_volumed()
    return world


def _driver(world: World, name: DriverName) -> Driver:
    return build_drivers(world.clock, VolumedProgram(world.volumed))[name]


EXPORTS: tuple[DriverName, ...] = ("qsd", "volumed")
ALL: tuple[DriverName, ...] = (*EXPORTS, "krbd", "nbd")


@pytest.mark.parametrize("name", ALL)
def test_mapped_found_and_unmapped(prepared: World, name: DriverName) -> None:
    driver, before = _driver(prepared, name), prepared.inventory()
    assert driver.find(prepared.h1, REQUEST) is None
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    assert prepared.h1.image_of(device) is prepared.image
    assert driver.find(prepared.h1, REQUEST) == device
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert driver.find(prepared.h1, REQUEST) is None
    assert prepared.inventory() == before


@pytest.mark.parametrize("name", ALL)
def test_mapping_and_unmapping_again_change_nothing(prepared: World, name: DriverName) -> None:
    driver, before = _driver(prepared, name), prepared.inventory()
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    mapped = prepared.inventory()
    assert driver.ensure_mapped(prepared.h1, REQUEST).device == device
    assert prepared.inventory() == mapped
    driver.ensure_unmapped(prepared.h1, REQUEST)
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert prepared.inventory() == before


@pytest.mark.parametrize(
    ("name", "daemon"),
    [("qsd", "qsd-demo"), ("volumed", "volumed-demo"), ("krbd", None), ("nbd", None)],
)
def test_daemon_that_serves_the_device(world: World, name: DriverName, daemon: str | None) -> None:
    assert _driver(world, name).daemon(REQUEST) == daemon


@pytest.mark.parametrize("name", ALL)
def test_a_mounted_device_is_not_taken_away(prepared: World, name: DriverName) -> None:
    driver = _driver(prepared, name)
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    prepared.h1.mounts[PurePosixPath("/mnt")] = device
    with pytest.raises(CommandFailedError, match="busy"):
        driver.ensure_unmapped(prepared.h1, REQUEST)
    assert driver.find(prepared.h1, REQUEST) == device


def test_export_is_of_the_image_as_its_own_user(prepared: World) -> None:
    _driver(prepared, "qsd").ensure_mapped(prepared.h1, REQUEST)
    spec = prepared.h1.daemons["qsd-demo"].spec
    image, export = json.loads(spec.argv[2]), json.loads(spec.argv[4])
    place = (image["pool"], image["namespace"], image["image"], image["user"])
    assert place == (POOL, "demo.1", "demo", "u")
    assert export["mountpoint"] == str(EXPORT)
    assert export["writable"] is True
    assert {bind.target: bind.read_only for bind in spec.binds}["/etc/ceph"] is True


def test_killed_daemon_is_mapped_anew(prepared: World) -> None:
    driver = _driver(prepared, "qsd")
    driver.ensure_mapped(prepared.h1, REQUEST)
    prepared.h1.kill_daemon("qsd-demo")
    assert driver.find(prepared.h1, REQUEST) is None
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    assert prepared.h1.image_of(device) is prepared.image
    assert list(prepared.h1.loops) == [device]
    assert list(prepared.h1.mounts) == [EXPORT]


@pytest.mark.parametrize("disaster", ["daemon-killed", "power-cut"])
def test_what_a_dead_driver_left_is_cleared(prepared: World, disaster: str) -> None:
    driver, before = _driver(prepared, "qsd"), prepared.inventory()
    driver.ensure_mapped(prepared.h1, REQUEST)
    if disaster == "power-cut":
        prepared.h1.cut_power()
    else:
        prepared.h1.kill_daemon("qsd-demo")
    prepared.clock.sleep(31)
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert prepared.inventory() == before


def test_export_that_never_appears_is_a_clear_error(prepared: World) -> None:
    prepared.h1.has_exports = False
    with pytest.raises(
        GrampusError, match=r"export of databases/demo\.1/demo on h1 after 30 s"
    ) as caught:
        _driver(prepared, "qsd").ensure_mapped(prepared.h1, REQUEST)
    assert caught.value.code == "timeout"
    assert not prepared.h1.loops


def test_a_daemon_that_ends_over_a_damaged_journal_says_what_can_be_done(prepared: World) -> None:
    prepared.h1.daemon_failure = (
        "The journal of demo cannot be opened: slot 0000 of the journal is missing. To open it "
        "without what is lost, run `volumed replay --accept-damage`; then check the file system."
    )
    with pytest.raises(GrampusError, match="slot 0000 of the journal is missing") as caught:
        _driver(prepared, "qsd").ensure_mapped(prepared.h1, REQUEST)
    assert caught.value.code == "journal-damaged"
    assert "`grampus volume replay demo --accept-loss`" in caught.value.remedy


def test_daemon_that_ends_says_why_at_once(prepared: World) -> None:
    prepared.h1.daemon_failure = "qemu-storage-daemon: error connecting: Permission denied"
    with pytest.raises(GrampusError, match=r"ended on h1: .*Permission denied") as caught:
        _driver(prepared, "qsd").ensure_mapped(prepared.h1, REQUEST)
    assert caught.value.code == "driver-failed"
    assert prepared.clock.slept_s < 1


def test_export_of_another_size_is_waited_for(prepared: World) -> None:
    other = MapRequest(REQUEST.volume.model_copy(update={"size_bytes": 2 * GIB}), "u", "r")
    with pytest.raises(GrampusError, match="Gave up waiting"):
        _driver(prepared, "qsd").ensure_mapped(prepared.h1, other)


def test_krbd_leaves_an_image_of_another_cluster_alone(prepared: World) -> None:
    driver = _driver(prepared, "krbd")
    foreign = Mapping("krbd", 99, IMAGE, fsid="00000000-0000-0000-0000-000000000000")
    prepared.h1.mappings["/dev/rbd99"] = foreign
    assert driver.find(prepared.h1, REQUEST) is None
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert driver.ensure_mapped(prepared.h1, REQUEST).device != "/dev/rbd99"
    assert prepared.h1.mappings["/dev/rbd99"] is foreign


@pytest.mark.parametrize("name", ["krbd", "nbd"])
def test_kernel_driver_finds_nothing_where_the_host_has_none(
    prepared: World, name: DriverName
) -> None:
    prepared.h1.capabilities = ("fuse",)
    assert _driver(prepared, name).find(prepared.h1, REQUEST) is None
    _driver(prepared, name).ensure_unmapped(prepared.h1, REQUEST)


@pytest.mark.parametrize("name", ["krbd", "nbd"])
def test_kernel_driver_that_cannot_list_is_not_taken_for_unmapped(
    prepared: World, name: DriverName
) -> None:
    driver = _driver(prepared, name)
    device = driver.ensure_mapped(prepared.h1, REQUEST).device
    prepared.h1.broken_programs["rbd"] = 12
    for act in (driver.find, driver.ensure_mapped, driver.ensure_unmapped):
        with pytest.raises(CommandFailedError):
            act(prepared.h1, REQUEST)
    prepared.h1.broken_programs.clear()
    assert driver.find(prepared.h1, REQUEST) == device


@pytest.mark.parametrize("program", ["stat", "findmnt"])
def test_export_that_cannot_be_looked_for_is_neither_made_nor_removed(
    prepared: World, program: str
) -> None:
    driver, before = _driver(prepared, "volumed"), prepared.inventory()
    driver.ensure_mapped(prepared.h1, REQUEST)
    prepared.h1.broken_programs[program] = 127
    act = driver.ensure_mapped if program == "stat" else driver.ensure_unmapped
    with pytest.raises(CommandFailedError):
        act(prepared.h1, REQUEST)
    prepared.h1.broken_programs.clear()
    driver.ensure_mapped(prepared.h1, REQUEST)
    driver.ensure_unmapped(prepared.h1, REQUEST)
    assert prepared.inventory() == before
