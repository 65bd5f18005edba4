"""The devices of OSDs on a host in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from grampus.core.errors import GrampusError
from grampus.core.installation import VOLUMED_VARIABLE
from grampus.core.units import GIB
from grampus.hosts.media import HARD_DISK, DeviceMediaName, block_limit
from grampus.hosts.port import BlockLimit, Host
from grampus.lab.osd_plans import DeviceSlice
from grampus.lab.slice_devices import SliceDevices, decide_limit, lifted
from tests.fakes.interruption import Fuse
from tests.fakes.lab_host import FakeCeph, FakeLabHost

DIRECTORY = PurePosixPath("/lab/h1/data/osd")
REFERENCE = "grampus/aa/osd-0"
FILE = Path(DIRECTORY / "0.img")
SERVED = Path("/lab/h1/data/disks/0/disk")


def _part(media: DeviceMediaName, shared_by: int = 1, at: int = 0) -> DeviceSlice:
    return DeviceSlice("0.img", at * 4 * GIB, 4 * GIB, media, shared_by)


def _host() -> tuple[FakeLabHost, Host]:
    fake = FakeLabHost("h1", "10.0.0.1", FakeCeph(), Fuse())
    return fake, cast(Host, fake)


@pytest.mark.parametrize("part", [_part("hdd"), _part("hdd", 2, at=1), _part("ssd"), _part("nvme")])
def test_a_slice_is_a_device_over_its_file_or_over_what_is_served_for_it(part: DeviceSlice) -> None:
    fake, host = _host()
    devices = SliceDevices()
    assert devices.find(host, DIRECTORY, part, REFERENCE) is None
    made = devices.ensure(host, DIRECTORY, part, REFERENCE)
    assert devices.ensure(host, DIRECTORY, part, REFERENCE) == made
    assert devices.find(host, DIRECTORY, part, REFERENCE) == made
    file = SERVED if part.media == "hdd" else FILE
    assert fake.loops == {made: (file, REFERENCE)}
    assert str(fake.slice(made)).startswith(str(FILE))
    assert fake.rotational == {made: "1" if part.media == "hdd" else "0"}
    assert decide_limit(part, made) == block_limit(part.media, made, shared_by=part.shared_by)
    for is_paced in (False, True):
        devices.set_paced(host, DIRECTORY, part, is_paced=is_paced)
        assert fake.unpaced == ({"disk-h1-0"} if part.media == "hdd" and not is_paced else set())
    for _ in range(2):
        devices.ensure_absent(host, DIRECTORY, [(part, REFERENCE)])
        assert (fake.loops, fake.served, fake.daemons) == ({}, {}, {})


def test_a_hard_disk_takes_the_time_of_its_model() -> None:
    fake, host = _host()
    SliceDevices().ensure(host, DIRECTORY, _part("hdd"), REFERENCE)
    argv = fake.daemons["disk-h1-0"].spec.argv
    assert argv[argv.index("--emulate-disk") + 1] == "6550,100,209715200"
    assert "--no-sync" not in argv
    assert block_limit("hdd", "/dev/loop3") == BlockLimit("/dev/loop3")
    seconds = {size: HARD_DISK.service_s(size, is_elsewhere=True) for size in (4096, 4 << 20)}
    assert 1 / seconds[4096] == pytest.approx(150, rel=0.002)
    assert (4 << 20) / seconds[4 << 20] == pytest.approx(150 * 2**20, rel=0.01)


def test_a_hard_disk_of_a_benchmark_does_not_wait_for_the_machines_disk() -> None:
    fake, host = _host()
    part = replace(_part("hdd"), is_synced=False)
    SliceDevices().ensure(host, DIRECTORY, part, REFERENCE)
    assert "--no-sync" in fake.daemons["disk-h1-0"].spec.argv


def test_slices_of_one_hard_disk_share_its_arm_and_go_together() -> None:
    fake, host = _host()
    devices = SliceDevices()
    parts = [(_part("hdd", 2, at), f"grampus/aa/osd-{at}") for at in range(2)]
    for part, reference in parts:
        devices.ensure(host, DIRECTORY, part, reference)
    assert (len(fake.loops), list(fake.daemons)) == (2, ["disk-h1-0"])
    devices.ensure_absent(host, DIRECTORY, parts)
    assert (fake.loops, fake.served, fake.daemons) == ({}, {}, {})


def _end_daemon(fake: FakeLabHost) -> None:
    fake.kill_daemon("disk-h1-0")


def _remove_daemon(fake: FakeLabHost) -> None:
    del fake.daemons["disk-h1-0"]


@pytest.mark.parametrize("lose", [_end_daemon, _remove_daemon, FakeLabHost.reboot])
def test_a_hard_disk_that_nobody_serves_any_more_is_served_anew(
    lose: Callable[[FakeLabHost], None],
) -> None:
    fake, host = _host()
    devices = SliceDevices()
    parts = [(_part("hdd", 2, at), f"grampus/aa/osd-{at}") for at in range(2)]
    for part, reference in parts:
        devices.ensure(host, DIRECTORY, part, reference)
    lose(fake)
    for part, reference in parts:
        assert devices.find(host, DIRECTORY, part, reference) is None
    for part, reference in parts:
        made = devices.ensure(host, DIRECTORY, part, reference)
        assert devices.find(host, DIRECTORY, part, reference) == made
    assert (len(fake.loops), list(fake.served)) == (2, [SERVED])


def test_a_daemon_that_ends_is_told_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, host = _host()
    monkeypatch.setattr(FakeLabHost, "_serve_disk", lambda self, spec: False)
    with pytest.raises(GrampusError, match="disk-h1-0 ended") as caught:
        SliceDevices().ensure(host, DIRECTORY, _part("hdd"), REFERENCE)
    assert caught.value.code == "disk-failed"
    assert fake.loops == {}


def test_without_volumed_a_hard_disk_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VOLUMED_VARIABLE, "/nowhere/volumed")
    fake, host = _host()
    with pytest.raises(GrampusError, match="has not been built") as caught:
        SliceDevices().ensure(host, DIRECTORY, _part("hdd"), REFERENCE)
    assert caught.value.code == "no-volumed"
    assert fake.daemons == {}
    SliceDevices().ensure(host, DIRECTORY, _part("ssd"), REFERENCE)


def test_a_lifted_limit_is_none_on_the_same_device() -> None:
    assert lifted(decide_limit(_part("ssd"), "/dev/loop3")) == BlockLimit("/dev/loop3")
