"""The devices of OSDs on a host in memory; what an OSD opens merges where its medium does."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import cast

import pytest

from grampus.core.units import GIB
from grampus.hosts.media import DeviceMediaName, block_limit
from grampus.hosts.port import BlockLimit, Host
from grampus.lab.osd_plans import DeviceSlice
from grampus.lab.slice_devices import (
    SliceDevice,
    decide_limit,
    ensure_slice_device,
    ensure_slice_devices_absent,
    find_slice_device,
    lifted,
)
from tests.fakes.interruption import Fuse
from tests.fakes.lab_host import FakeCeph, FakeLabHost

DIRECTORY = PurePosixPath("/lab/h1/data/osd")
REFERENCE = "grampus/aa/osd-0"


def _part(media: DeviceMediaName, shared_by: int = 1, at: int = 0) -> DeviceSlice:
    return DeviceSlice("0.img", at * 4 * GIB, 4 * GIB, media, shared_by)


def _host() -> tuple[FakeLabHost, Host]:
    fake = FakeLabHost("h1", "10.0.0.1", FakeCeph(), Fuse())
    return fake, cast(Host, fake)


@pytest.mark.parametrize(
    ("part", "references"),
    [
        (_part("hdd"), [REFERENCE, f"{REFERENCE}-queue"]),
        (_part("hdd", shared_by=2, at=1), [REFERENCE, f"{REFERENCE}-queue"]),
        (_part("ssd"), [REFERENCE]),
        (_part("nvme"), [REFERENCE]),
    ],
)
def test_a_hard_disk_counts_what_its_queue_has_merged(
    part: DeviceSlice, references: list[str]
) -> None:
    fake, host = _host()
    assert find_slice_device(host, DIRECTORY, part, REFERENCE) is None
    made = ensure_slice_device(host, DIRECTORY, part, REFERENCE)
    assert ensure_slice_device(host, DIRECTORY, part, REFERENCE) == made
    assert find_slice_device(host, DIRECTORY, part, REFERENCE) == made
    assert [reference for _, reference in fake.loops.values()] == references
    # The OSD opens the uppermost, and the limit is on the lowest.
    assert [made.device, made.medium] == [list(fake.loops)[-1], next(iter(fake.loops))]
    limit = block_limit(part.media, made.medium, shared_by=part.shared_by)
    assert decide_limit(part, made) == limit
    assert fake.rotational == {made.device: "1" if part.media == "hdd" else "0"}
    ensure_slice_devices_absent(host, DIRECTORY, [(part, REFERENCE)])
    ensure_slice_devices_absent(host, DIRECTORY, [(part, REFERENCE)])
    assert fake.loops == {}


def test_slices_of_one_hard_disk_go_together() -> None:
    fake, host = _host()
    parts = [(_part("hdd", 2, at), f"grampus/aa/osd-{at}") for at in range(2)]
    for part, reference in parts:
        ensure_slice_device(host, DIRECTORY, part, reference)
    assert len(fake.loops) == 4
    ensure_slice_devices_absent(host, DIRECTORY, parts)
    assert fake.loops == {}


def test_a_hard_disk_that_has_lost_its_queue_is_not_whole() -> None:
    fake, host = _host()
    made = ensure_slice_device(host, DIRECTORY, _part("hdd"), REFERENCE)
    del fake.loops[made.device]
    assert find_slice_device(host, DIRECTORY, _part("hdd"), REFERENCE) is None
    assert ensure_slice_device(host, DIRECTORY, _part("hdd"), REFERENCE) == made


def test_a_lifted_limit_is_none_on_the_same_device() -> None:
    limit = decide_limit(_part("hdd"), SliceDevice("/dev/loop4", "/dev/loop3"))
    assert lifted(limit) == BlockLimit("/dev/loop3")
