from __future__ import annotations

import os
from pathlib import Path

import pytest

from grampus.hosts.loop_devices import AttachedLoop
from tests.system.systemd_host_disk import is_still, parse_devices, parse_own_devices
from tests.system.systemd_hosts import CgroupTree, parse_cgroup_trees

HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,clone_children
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""
UNIFIED = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HOST = """\
90 80 0:60 / / rw shared:1 - overlay overlay rw,lowerdir=/r,upperdir=/d/s1/upper,workdir=/d/s1/work
91 90 7:3 / /var/lib/grampus/x rw shared:2 - xfs /dev/loop3 rw
"""


@pytest.mark.parametrize(
    ("mountinfo", "trees"),
    [
        (
            HYBRID,
            [
                ("cpu,cpuacct", "cgroup", "cpu,cpuacct"),
                ("cpuset", "cgroup", "cpuset"),
                ("systemd", "cgroup", "none,name=systemd"),
                ("unified", "cgroup2", "rw"),
            ],
        ),
        (UNIFIED, [("", "cgroup2", "rw")]),
    ],
)
def test_trees_of_control_groups(mountinfo: str, trees: list[tuple[str, str, str]]) -> None:
    root = Path("/sys/fs/cgroup")
    assert parse_cgroup_trees(mountinfo) == [
        CgroupTree(root / where, *how) for where, *how in trees
    ]


def test_only_a_host_with_that_disk_has_devices_of_its_own() -> None:
    assert parse_own_devices(HOST, "/d/s1/upper") == {os.makedev(0, 60), os.makedev(7, 3)}
    assert parse_own_devices(HOST, "/d/s1/up") == set()
    assert parse_own_devices(UNIFIED, "/d/s1/upper") == set()
    assert parse_devices(UNIFIED) == {os.makedev(0, 28)}


@pytest.mark.parametrize(
    ("device", "file", "file_id", "still"),
    [
        ("/dev/loop6", "/var/lib/grampus/x/image", (9, 1), True),
        ("/dev/loop6", "/image", None, True),  # its server has died, its mount has gone
        ("/dev/loop6", "/", None, True),  # and the mount was of the file alone
        ("/dev/loop6", "/image", (9, 2), False),
        ("/dev/loop6", "/other", None, False),
        ("/dev/loop7", "/image", (9, 1), False),
    ],
)
def test_a_loop_device_is_known_while_it_has_its_file(
    device: str, file: str, file_id: tuple[int, int] | None, still: bool
) -> None:
    former = AttachedLoop("/dev/loop6", "/var/lib/grampus/x/image", None, (9, 1))
    assert is_still(AttachedLoop(device, file, None, file_id), former) is still
