from __future__ import annotations

from pathlib import Path

import pytest

from grampus.hosts.mounts import Mount, is_mounted, mounts_below, parse_mount_table

ROOT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


@pytest.mark.parametrize(
    ("line", "mount"),
    [
        (ROOT, Mount("/", "ext4", "/dev/sda1", True)),
        (
            "41 22 0:36 / /mnt/data rw,noatime - xfs /dev/loop3 rw,attr2",
            Mount("/mnt/data", "xfs", "/dev/loop3", False),
        ),
        (
            "42 22 0:37 / /mnt/slave rw master:7 - tmpfs tmpfs rw",
            Mount("/mnt/slave", "tmpfs", "tmpfs", False),
        ),
        (
            "43 22 0:37 / /mnt/both rw shared:9 master:7 - tmpfs tmpfs rw",
            Mount("/mnt/both", "tmpfs", "tmpfs", True),
        ),
        (
            "44 22 0:37 / /mnt/other rw master:7 propagate_from:2 unbindable - tmpfs none rw",
            Mount("/mnt/other", "tmpfs", "none", False),
        ),
        (
            r"45 22 0:38 / /mnt/a\040b\011c\012d\134e rw - tmpfs my\040tmpfs rw",
            Mount("/mnt/a b\tc\nd\\e", "tmpfs", "my tmpfs", False),
        ),
        (
            r"46 22 0:38 / /mnt/a\040-\040b rw - fuse.grampus vol\134040 rw",
            Mount("/mnt/a - b", "fuse.grampus", "vol\\040", False),
        ),
        (
            "47 22 0:39 / /mnt/käse rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/c",
            Mount("/mnt/käse", "overlay", "overlay", False),
        ),
        ("48 22 0:40 / /mnt/empty rw - tmpfs  rw", Mount("/mnt/empty", "tmpfs", "", False)),
        # An option of the mount itself is no sharing.
        ("49 22 0:40 / /x rw,shared:1 - tmpfs t rw", Mount("/x", "tmpfs", "t", False)),
    ],
)
def test_line(line: str, mount: Mount) -> None:
    assert parse_mount_table(line + "\n") == [mount]


def test_order_is_that_of_the_table_and_stacked_mounts_stay_apart() -> None:
    text = "\n".join(
        [
            ROOT,
            "50 22 0:41 / /data rw - ext4 /dev/loop0 rw",
            "51 50 0:42 / /data/volumes/shop rw - xfs /dev/loop1 rw",
            "52 22 0:43 / /data rw - tmpfs over rw",
        ]
    )
    assert [(mount.target, mount.source) for mount in parse_mount_table(text)] == [
        ("/", "/dev/sda1"),
        ("/data", "/dev/loop0"),
        ("/data/volumes/shop", "/dev/loop1"),
        ("/data", "over"),
    ]


def test_empty_table() -> None:
    assert parse_mount_table("") == []


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    assert is_mounted(Path("/proc"))
    assert not is_mounted(tmp_path)
    assert mounts_below(tmp_path) == []
    assert mounts_below(Path("/proc"))[-1].filesystem == "proc"
    # A directory is not below another one because its name begins alike.
    assert mounts_below(Path("/pro")) == []
