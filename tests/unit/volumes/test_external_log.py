"""A file system whose log is on a device of its own: two devices, one order (INV-98)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import get_args

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.units import GIB, MIB
from grampus.hosts.loop_scripts import DETACH_LOOPS
from grampus.volumes.decide_external_log import (
    EXTERNAL_LOG_BYTES,
    EXTERNAL_LOG_FACT,
    MIN_FILESYSTEM_BYTES,
    decide_external_log,
    external_log_facts,
    parse_external_log,
)
from grampus.volumes.drivers.export_devices import ensure_devices_absent
from grampus.volumes.drivers.port import MapRequest
from grampus.volumes.model import CloneSource, DriverName, VolumeSpec, WritePath
from grampus.volumes.records import VolumeRecords
from tests.unit.hosts.fakes import AnsweringHost

from .block_devices import Loop
from .world import IMAGE, LAB, POOL, World

LEAST_BYTES = EXTERNAL_LOG_BYTES + MIN_FILESYSTEM_BYTES


def create(world: World, write_path: WritePath = "journal") -> None:
    world.build_volumed()
    world.create(write_path=write_path, external_log_bytes=EXTERNAL_LOG_BYTES)


def devices(world: World) -> tuple[str, Loop, str, Loop]:
    """The device of the file system and that of its log, as recorded."""
    attachment = world.service().get("demo").attachment
    assert attachment is not None
    assert attachment.log_device is not None
    loops = world.h1.loops
    return (
        *(attachment.device, loops[attachment.device]),
        *(attachment.log_device, loops[attachment.log_device]),
    )


@pytest.mark.parametrize(
    ("write_path", "size_bytes", "expected"),
    [
        ("journal", GIB, EXTERNAL_LOG_BYTES),
        ("cache", GIB, EXTERNAL_LOG_BYTES),
        ("direct", GIB, None),
        ("journal", LEAST_BYTES, EXTERNAL_LOG_BYTES),
        ("journal", LEAST_BYTES - 1, None),
    ],
)
def test_which_volumes_get_one(
    write_path: WritePath, size_bytes: int, expected: int | None
) -> None:
    assert decide_external_log(write_path, size_bytes) == expected


def test_an_image_says_where_its_file_system_is() -> None:
    spec = VolumeSpec(name="demo", pool=POOL, image=IMAGE, size_bytes=GIB)
    assert parse_external_log("x", external_log_facts(spec)) is None
    apart = spec.model_copy(update={"external_log_bytes": 5 * MIB})
    assert parse_external_log("x", external_log_facts(apart)) == 5 * MIB
    for text in ("", "0", "-1", "64M"):
        with pytest.raises(GrampusError) as caught:
            parse_external_log("x", {EXTERNAL_LOG_FACT: text})
        assert caught.value.code == "unknown-layout"


@pytest.mark.parametrize("write_path", get_args(WritePath))
def test_writes_to_the_log_are_durable_and_the_data_keeps_its_order(
    world: World, write_path: WritePath
) -> None:
    """Without a journal nothing keeps the order: then the data is flushed."""
    create(world, write_path)
    world.attach()
    data_device, data, log_device, log = devices(world)
    assert (log.offset_bytes, log.size_bytes, log.is_durable) == (0, EXTERNAL_LOG_BYTES, True)
    assert (data.offset_bytes, data.is_durable) == (EXTERNAL_LOG_BYTES, False)
    assert data.size_bytes == GIB - EXTERNAL_LOG_BYTES == world.image.filesystem_bytes
    ordered = {log_device} | ({data_device} if write_path != "direct" else set())
    assert world.h1.drops_flushes == ordered
    world.service().ensure_detached("demo")
    assert (world.h1.loops, world.h1.drops_flushes) == ({}, set())


def test_what_must_be_durable_is_flushed_past_the_devices(world: World) -> None:
    """They answer flushes themselves, and go on to do so."""
    create(world)
    world.attach()
    data_device, data, log_device, _ = devices(world)
    service = world.service()
    assert service.drop_flushes("demo") is True
    service.ensure_flushed("demo")
    service.ensure_durable("demo")
    assert world.h1.flushed == [str(data.file)] * 2
    assert world.h1.drops_flushes == {data_device, log_device}


@pytest.mark.parametrize("write_path", ["direct", "journal"])
def test_what_is_durable_once_it_is_flushed_needs_nothing(
    world: World, write_path: WritePath
) -> None:
    world.build_volumed()
    world.create(write_path=write_path)
    service = world.service()
    service.ensure_durable("demo")
    world.attach()
    service.ensure_durable("demo")
    assert world.h1.flushed == []


@pytest.mark.parametrize("path", ["/", "/ (deleted)"])
@pytest.mark.parametrize("log_bytes", [None, EXTERNAL_LOG_BYTES])
def test_devices_over_a_file_that_has_no_path_are_found_by_their_references(
    path: str, log_bytes: int | None
) -> None:
    """As of a volumed that was told to end: its mount is gone, and it waits for its users."""
    loops = [
        {"name": f"/dev/loop{number}", "ref": reference, "back-file": path}
        for number, reference in enumerate(("g/a", "g/a/log", "g/b", "g/b/log"))
    ]
    detached: list[str] = []

    def answer(argv: Sequence[str]) -> str:
        if DETACH_LOOPS in argv:
            detached.extend(argv[3::2])
        return json.dumps({"loopdevices": loops})

    spec = VolumeSpec(name="a", pool=POOL, image="a", size_bytes=GIB, external_log_bytes=log_bytes)
    request = MapRequest(spec, "user", "g/a")
    ensure_devices_absent(AnsweringHost("h1", answer), PurePosixPath("/x/image"), request)
    assert detached == ["/dev/loop0", "/dev/loop1"][: 1 if log_bytes is None else 2]


def test_a_device_that_is_missing_is_no_attachment(world: World) -> None:
    create(world)
    world.attach()
    _, _, log_device, _ = devices(world)
    del world.h1.loops[log_device]
    world.service().ensure_attached("demo", "h1")
    assert len(world.h1.loops) == 2
    devices(world)


def test_it_grows_behind_its_log(world: World) -> None:
    create(world)
    world.attach()
    world.resize("demo", 2 * GIB)
    assert world.image.filesystem_bytes == 2 * GIB - EXTERNAL_LOG_BYTES
    _, data, _, log = devices(world)
    assert (data.size_bytes, log.size_bytes) == (2 * GIB - EXTERNAL_LOG_BYTES, EXTERNAL_LOG_BYTES)


@pytest.mark.parametrize("log_bytes", [None, EXTERNAL_LOG_BYTES])
@pytest.mark.parametrize("write_path", get_args(WritePath))
def test_volumed_is_told_when_no_flushes_come(
    world: World, write_path: WritePath, log_bytes: int | None
) -> None:
    """Then it bounds what is not durable by itself; one of before knows no such option."""
    world.build_volumed()
    world.create(write_path=write_path, external_log_bytes=log_bytes)
    world.attach()
    argv = world.h1.daemons["volumed-demo"].spec.argv
    assert ("--ordered" in argv) == (log_bytes is not None and write_path != "direct")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_clone_is_as_its_source(world: World, *, is_known: bool) -> None:
    """By the record of the source, or by what the image of nobody here says."""
    create(world)
    world.attach()
    service = world.service()
    service.ensure_snapshot("demo", "s")
    source = service.get("demo").spec
    if not is_known:
        service.ensure_detached("demo")
        VolumeRecords(world.store, LAB).remove("demo")
    wanted = source.model_copy(
        update={"name": "copy", "image": "copy", "identity": "c", "external_log_bytes": None}
    )
    service.ensure_cloned(wanted, CloneSource(pool=POOL, image=source.image, snapshot="s"))
    made = service.get("copy").spec
    assert made.external_log_bytes == EXTERNAL_LOG_BYTES
    facts = world.cluster.images[f"{POOL}/{made.image}"].metadata
    assert facts[f"grampus.{EXTERNAL_LOG_FACT}"] == str(EXTERNAL_LOG_BYTES)
    attached = service.ensure_attached("copy", "h2")
    assert attached.log_device is not None


@pytest.mark.parametrize("driver", ["krbd", "nbd", "qsd"])
def test_no_driver_serves_it_that_gives_one_device(world: World, driver: DriverName) -> None:
    world.h1.capabilities = ("krbd", "nbd", "fuse")
    create(world, "direct")
    with pytest.raises(RefusedError) as caught:
        world.service().ensure_attached("demo", "h1", driver=driver)
    assert caught.value.code == "external-log"
    assert world.attach().driver == "volumed"
