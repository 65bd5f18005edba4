from __future__ import annotations

from itertools import pairwise
from pathlib import PurePosixPath

import pytest

from grampus.core.units import GIB, KIB, MIB
from grampus.hosts.media import (
    HARD_DISK,
    MEDIA,
    WAL_DB_MEDIA,
    MediaName,
    block_limit,
    disk_model,
)
from grampus.hosts.port import BlockLimit
from grampus.lab.ceph_daemons import (
    OSD_MEMORY_LIMIT_BYTES,
    OSD_MEMORY_TARGET_BYTES,
    mgr_spec,
    mon_spec,
    osd_spec,
)

DATA = PurePosixPath("/lab/h1/data")


@pytest.mark.parametrize(
    ("media", "expected"),
    [
        ("nvme", BlockLimit("/dev/loop3", 500_000, 150_000, None, None)),
        ("ssd", BlockLimit("/dev/loop3", 75_000, 25_000, 530 * MIB, 480 * MIB)),
        # It takes its time instead.
        ("hdd", BlockLimit("/dev/loop3")),
    ],
)
def test_media_are_limits_on_the_device(media: MediaName, expected: BlockLimit) -> None:
    assert block_limit(media, "/dev/loop3") == expected
    spec = osd_spec(3, ("/dev/loop3",), (expected,), DATA, cpus=2.0, thread_cache_mib=128)
    assert spec.limits.block == (expected,)


def test_faster_media_are_not_slower_in_anything() -> None:
    limits = [block_limit(media, "/dev/loop0") for media in ("ssd", "nvme")]
    for slow, fast in pairwise(limits):
        for field in ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s"):
            limit = getattr(fast, field)
            assert limit is None or limit > getattr(slow, field)


@pytest.mark.parametrize(
    ("length_bytes", "is_elsewhere", "expected_ms"),
    [
        (0, False, 0.1),
        (0, True, 6.65),
        (4 * KIB, True, 6.65 + 1000 / 51_200),
        (64 * KIB, True, 6.65 + 0.3125),
        (64 * KIB, False, 0.1 + 0.3125),
        (4 * MIB, True, 26.65),
    ],
)
def test_a_hard_disk_takes_time_to_another_place_and_for_each_byte(
    length_bytes: int, is_elsewhere: bool, expected_ms: float
) -> None:
    took_s = HARD_DISK.service_s(length_bytes, is_elsewhere=is_elsewhere)
    assert took_s * 1000 == pytest.approx(expected_ms)


def test_only_a_hard_disk_is_emulated_request_by_request() -> None:
    media = (*MEDIA, *WAL_DB_MEDIA)
    assert {one for one in media if disk_model(one)} == {"hdd"}
    assert HARD_DISK.render() == "6550,100,209715200"


@pytest.mark.parametrize(
    ("target_mib", "arguments", "limit_mib"),
    [
        (None, [], 2048),
        (2048, ["--osd-memory-target", str(2048 * MIB)], 3072),
        (896, ["--osd-memory-target", str(896 * MIB)], 1920),
    ],
)
def test_the_limit_of_an_osd_rises_with_its_memory_target(
    target_mib: int | None, arguments: list[str], limit_mib: int
) -> None:
    spec = osd_spec(0, (), (), DATA, cpus=1.0, thread_cache_mib=128, memory_target_mib=target_mib)
    assert [*spec.argv[len(spec.argv) - len(arguments) :]] == arguments
    assert ("--osd-memory-target" in spec.argv) == bool(arguments)
    assert spec.limits.memory_bytes == limit_mib * MIB


def test_daemons_run_in_the_foreground_with_random_nonces() -> None:
    specs = [
        mon_spec("h1", "10.0.0.1", DATA, cpus=1.0),
        mgr_spec("h1", DATA, cpus=1.0),
        osd_spec(0, ("/dev/loop0",), (), DATA, cpus=2.0, thread_cache_mib=128),
    ]
    assert [spec.name for spec in specs] == ["mon-h1", "mgr-h1", "osd-0"]
    for spec in specs:
        assert "--foreground" in spec.argv
        assert spec.env["CEPH_USE_RANDOM_NONCE"] == "1"
        assert spec.limits.memory_bytes is not None
        assert not spec.privileged
        binds = {bind.target: bind for bind in spec.binds}
        assert binds["/etc/ceph"].read_only
        assert binds["/var/lib/ceph"].source == f"{DATA}/var-lib-ceph"


def test_a_mon_listens_on_its_hosts_address_and_an_osd_sees_its_device_only() -> None:
    mon = mon_spec("h2", "10.0.0.2", DATA, cpus=1.0)
    assert mon.argv[-4:] == ("--id", "h2", "--public-addr", "10.0.0.2")
    below = (block_limit("hdd", "/dev/vda"),)
    osd = osd_spec(7, ("/dev/loop9",), below, DATA, cpus=1.5, thread_cache_mib=32)
    assert osd.argv[-2:] == ("--id", "7")
    assert osd.devices == ("/dev/loop9",)
    assert osd.limits.cpus == 1.5


def test_an_osd_has_room_above_its_memory_target() -> None:
    assert OSD_MEMORY_LIMIT_BYTES >= OSD_MEMORY_TARGET_BYTES + GIB // 2
