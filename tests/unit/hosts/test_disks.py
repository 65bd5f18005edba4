from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from grampus.hosts.disks import FIND_DISK
from grampus.hosts.process import run_command


def _find(file: Path, sysfs: Path) -> str:
    return run_command(
        [sys.executable, "-c", FIND_DISK, str(file), str(sysfs)], timeout_s=30
    ).stdout.strip()


@pytest.mark.parametrize(
    ("place", "is_partition", "expected"),
    [
        ("virtual/block/vda", False, "/dev/vda"),
        ("pci/block/sda/sda3", True, "/dev/sda"),
        ("pci/block/cciss!c0d0/cciss!c0d0p1", True, "/dev/cciss/c0d0"),
        ("virtual/block/dm-0", False, "/dev/dm-0"),
        (None, False, ""),
    ],
)
def test_a_file_is_on_the_whole_disk_below_its_file_system(
    tmp_path: Path, place: str | None, is_partition: bool, expected: str
) -> None:
    number = tmp_path.stat().st_dev
    sysfs = tmp_path / "sys"
    links = sysfs / "dev" / "block"
    links.mkdir(parents=True)
    if place is not None:
        device = sysfs / "devices" / place
        device.mkdir(parents=True)
        if is_partition:
            (device / "partition").write_text("3\n")
        (links / f"{os.major(number)}:{os.minor(number)}").symlink_to(device)
    assert _find(tmp_path, sysfs) == expected


def test_a_file_in_memory_is_on_no_disk() -> None:
    assert _find(Path("/dev/shm"), Path("/sys")) == ""
