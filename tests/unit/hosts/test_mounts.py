from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError
from grampus.hosts.mounts import (
    BUSY_INTERVAL_S,
    BUSY_TIMEOUT_S,
    Mount,
    ensure_unmounted,
    ensure_unmounted_below,
    is_mounted,
    mounts_below,
    parse_mount_table,
)
from grampus.hosts.port import CommandFailedError, CommandResult
from grampus.hosts.process import run_command
from tests.fakes.clock import FakeClock
from tests.unit.hosts.fakes import AnsweringHost

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


BUSY = "umount: /data: target is busy.\n"


@dataclass
class BusyMount:
    """A host that answers for one mount: `umount` ends so as `refusals` say, in turn."""

    refusals: list[str]
    users: str = ""
    is_mounted: bool = True

    def __call__(self, argv: Sequence[str]) -> CommandResult:
        code, out, err = 0, "", ""
        if argv[0] == "findmnt":
            code, out = (0, "/dev/loop1\n") if self.is_mounted else (1, "")
        elif argv[0] == "sh":
            out = self.users
        elif self.refusals:
            code, err = 32, self.refusals.pop(0)
        else:
            self.is_mounted = False
        return CommandResult(tuple(argv), code, out, err)


@pytest.mark.parametrize("refusals", [[], [BUSY], [BUSY] * 20])
def test_a_mount_that_is_busy_for_a_moment_is_waited_for(refusals: list[str]) -> None:
    mount, clock = BusyMount(list(refusals)), FakeClock()
    started_s = clock.monotonic_s()
    ensure_unmounted(AnsweringHost("h1", mount), PurePosixPath("/data"), clock)
    assert not mount.is_mounted
    waited_s = clock.monotonic_s() - started_s
    assert waited_s == pytest.approx(len(refusals) * BUSY_INTERVAL_S)


@pytest.mark.parametrize(
    ("users", "said"),
    [
        ("12 mysqld\n", "/data on h1 is in use by mysqld (PID 12)."),
        ("1 systemd\n12 my sql\n", "in use by systemd (PID 1), my sql (PID 12)."),
        ("".join(f"{pid} sh\n" for pid in range(1, 9)), "sh (PID 5) and 3 more."),
        ("", "target is busy"),
    ],
)
def test_a_mount_that_stays_busy_names_its_users(users: str, said: str) -> None:
    mount, clock = BusyMount([BUSY] * 1000, users), FakeClock()
    started_s = clock.monotonic_s()
    with pytest.raises(GrampusError, match=re.escape(said)):
        ensure_unmounted(AnsweringHost("h1", mount), PurePosixPath("/data"), clock)
    assert BUSY_TIMEOUT_S <= clock.monotonic_s() - started_s < BUSY_TIMEOUT_S + 1
    assert mount.is_mounted


def test_another_failure_is_not_waited_for() -> None:
    mount, clock = BusyMount(["umount: /data: must be superuser.\n"] * 2), FakeClock()
    started_s = clock.monotonic_s()
    with pytest.raises(CommandFailedError, match="must be superuser"):
        ensure_unmounted(AnsweringHost("h1", mount), PurePosixPath("/data"), clock)
    assert clock.monotonic_s() == started_s
    mount.is_mounted = False
    ensure_unmounted(AnsweringHost("h1", mount), PurePosixPath("/data"), clock)
    assert len(mount.refusals) == 1, "nothing mounted, and umount was called"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_process_that_ends_late_delays_a_real_unmount(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    run_command(["mount", "-t", "tmpfs", "tmpfs", str(place)])
    try:
        with subprocess.Popen(["sleep", "60"], cwd=place) as user:
            try:
                clock = FakeClock()
                with pytest.raises(GrampusError, match=rf"sleep \(PID {user.pid}\)"):
                    ensure_unmounted_below(place, clock=clock)
                threading.Timer(0.3, user.kill).start()
                ensure_unmounted_below(place)
            finally:
                user.kill()
        assert not is_mounted(place)
    finally:
        ensure_unmounted_below(place, lazy=True)
