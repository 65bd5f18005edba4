from __future__ import annotations

from itertools import pairwise
from pathlib import PurePosixPath

import pytest

from grampus.core.units import GIB, MIB
from grampus.hosts.media import MediaName, block_limit
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
        ("hdd", BlockLimit("/dev/loop3", 150, 150, 200 * MIB, 200 * MIB)),
    ],
)
def test_media_are_limits_on_the_device(media: MediaName, expected: BlockLimit) -> None:
    assert block_limit(media, "/dev/loop3") == expected
    spec = osd_spec(3, ("/dev/loop3",), (expected,), DATA, cpus=2.0, thread_cache_mib=128)
    assert spec.limits.block == (expected,)


def test_faster_media_are_not_slower_in_anything() -> None:
    limits = [block_limit(media, "/dev/loop0") for media in ("hdd", "ssd", "nvme")]
    for slow, fast in pairwise(limits):
        for field in ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s"):
            limit = getattr(fast, field)
            assert limit is None or limit > getattr(slow, field)


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
