"""Daemons as services of systemd, and what systemd says of them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from grampus.hosts.port import Bind, BlockLimit, CpuWait, DaemonSpec, DaemonStatus, Limits, Usage
from grampus.hosts.remote.units import (
    UnitPlace,
    cpu_waits_argv,
    image_note,
    parse_cpu_waits,
    parse_statuses,
    parse_usages,
    render_new_limits,
    render_start,
    status_argv,
)
from tests.fakes.programs import put_first_in_path

PLACE = UnitPlace("1a2b3", "/var/lib/grampus/1a2b3", "sid-1")
SERVER = DaemonSpec(
    name="mysqld-shop",
    argv=("/usr/sbin/mysqld", "--init=$HOME"),
    binds=(
        Bind("/data/conf", "/data/conf", read_only=True, owner=999),
        Bind("/data/volume", "/volume", owner=999),
        Bind("/data/bin", "/data/bin", read_only=True),
    ),
    env={"MALLOC_ARENA_MAX": "2"},
    limits=Limits(cpus=0.5, memory_bytes=512 * 2**20),
    uid=70100,
    gid=70100,
    stop_timeout_s=60.0,
)


def properties(spec: DaemonSpec, *, maps_owners: bool = True) -> list[str]:
    """The properties of the spec's service."""
    words = render_start(spec, PLACE, maps_owners=maps_owners)
    return [word.removeprefix("--property=") for word in words if word.startswith("--property=")]


@pytest.mark.parametrize(
    "wanted",
    [
        "RootDirectory=/var/lib/grampus/1a2b3/daemons/mysqld-shop/root",
        "BindReadOnlyPaths=/var/lib/grampus/1a2b3/data/mapped/mysqld-shop/0:/data/conf",
        "BindPaths=/var/lib/grampus/1a2b3/data/mapped/mysqld-shop/1:/volume",
        # Nobody else's files: as they are.
        "BindReadOnlyPaths=/data/bin:/data/bin",
        "MemoryMax=536870912",
        "CPUQuota=50%",
        "TimeoutStopSec=60",
        "KillSignal=SIGTERM",
        "LimitCORE=0",
        "NoNewPrivileges=yes",
    ],
)
def test_a_server_is_confined(wanted: str) -> None:
    assert wanted in properties(SERVER)


def test_a_server_whose_owners_cannot_be_mapped_runs_as_their_owner() -> None:
    assert "BindPaths=/data/volume:/volume" in properties(SERVER, maps_owners=False)
    assert "--reuid=999" in render_start(SERVER, PLACE, maps_owners=False)


def test_a_privileged_daemon_stays_in_the_hosts_mount_namespace() -> None:
    """Any property that makes a mount namespace would hide its FUSE mount from the host."""
    found = properties(replace(SERVER, privileged=True))
    assert "RootDirectory=/var/lib/grampus/1a2b3/roots/sid-1/root" in found
    assert "MountAPIVFS=no" in found
    namespaced = ("Bind", "Temporary", "Private", "Protect", "ReadOnly", "Inaccessible")
    assert not [one for one in found if one.startswith(namespaced)]


def test_a_service_is_transient_and_named_after_the_site() -> None:
    words = render_start(SERVER, PLACE, maps_owners=True)
    assert words[0] == "systemd-run"
    assert "--unit=grampus-1a2b3-mysqld-shop.service" in words
    user = ["setpriv", "--reuid=70100", "--regid=70100", "--clear-groups", "--"]
    # systemd would put a variable in the place of `$HOME`.
    assert words[words.index("--") + 1 :] == [*user, "/usr/sbin/mysqld", "--init=$$HOME"]


def test_limits_of_a_device_name_it() -> None:
    block = BlockLimit("/dev/loop3", write_iops=100, read_bytes_per_s=5)
    found = properties(replace(SERVER, limits=Limits(block=(block,))))
    assert {"IOWriteIOPSMax=/dev/loop3 100", "IOReadBandwidthMax=/dev/loop3 5"} <= {*found}
    assert "MemoryMax=infinity" in found


def test_no_limit_takes_an_earlier_one_away() -> None:
    assert render_new_limits(Limits()) == ["MemoryMax=infinity", "CPUQuota="]


# It knows one unit, and says nothing while the file `down` is there. Units are one block each.
SYSTEMCTL = """#!/bin/sh
test ! -e "$FAKE/down" || { echo "Failed to connect to bus" >&2; exit 1; }
between=
for unit; do
  case $unit in
    *.service) ;;
    *) continue ;;
  esac
  printf "$between"
  between='\\n'
  case $unit in
    *mysqld-shop.service) echo "MainPID=$PPID"; echo Result=success ;;
    *) echo MainPID=0; echo Result=success ;;
  esac
  echo "Id=$unit"
  case $unit in
    *mysqld-shop.service) echo ActiveState=active ;;
    *) echo ActiveState=inactive ;;
  esac
done
"""


def show(directory: Path, daemon: str = "") -> subprocess.CompletedProcess[str]:
    """What the script says of the daemons in a directory."""
    argv = status_argv(UnitPlace("1a2b3", str(directory), "sid-1"), daemon)
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


def test_the_script_asks_for_the_daemons_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_first_in_path(tmp_path, {"systemctl": SYSTEMCTL}, monkeypatch)
    for name in ("mysqld-shop", "volumed-shop"):
        (tmp_path / "daemons" / name).mkdir(parents=True)
    found = {one.name: one.state for one in parse_statuses(show(tmp_path).stdout, "sid-1")}
    assert found == {"mysqld-shop": "running", "volumed-shop": "stopped"}
    (tmp_path / "daemons" / "a-file").touch()
    (tmp_path / "daemons" / "mysqld-shop" / "image").write_text("own sid-0\n")
    (one,) = parse_statuses(show(tmp_path, "mysqld-shop").stdout, "sid-1")
    assert (one.state, one.uid, one.is_outdated) == ("running", os.getuid(), True)
    assert show(tmp_path, "mysqld-blog").stdout == ""


def test_a_host_without_daemons_is_not_asked_of_all_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`systemctl show` without a unit tells of systemd itself."""
    put_first_in_path(tmp_path, {"systemctl": "#!/bin/sh\nexit 1\n"}, monkeypatch)
    (tmp_path / "daemons").mkdir()
    shown = show(tmp_path)
    assert (shown.returncode, shown.stdout) == (0, "")


def test_a_systemd_that_does_not_answer_is_no_sign_of_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_first_in_path(tmp_path, {"systemctl": SYSTEMCTL}, monkeypatch)
    assert show(tmp_path).returncode != 0, "its directory is missing"
    (tmp_path / "daemons" / "mysqld-shop").mkdir(parents=True)
    (tmp_path / "down").touch()
    shown = show(tmp_path)
    assert shown.returncode != 0
    assert "Failed to connect" in shown.stderr


SHOWN = """Daemon=mysqld-blog
Id=grampus-1a2b3-mysqld-blog.service
ActiveState=failed
MainPID=0
Result=oom-kill
User=70101

Daemon=mysqld-shop
Id=grampus-1a2b3-mysqld-shop.service
ActiveState=active
MainPID=4711
Result=success
User=70100

Daemon=volumed-gone
Id=grampus-1a2b3-volumed-gone.service
ActiveState=inactive
MainPID=0
Result=success

Daemon=volumed-shop
ActiveState=deactivating
MainPID=12
Result=success
User=

"""


def test_statuses() -> None:
    assert parse_statuses(SHOWN, "sid-1") == [
        DaemonStatus("mysqld-blog", "stopped", None, 1, None),
        DaemonStatus("mysqld-shop", "running", 4711, 0, 70100),
        # Its host was restarted: the service is gone, what it left on disk is there.
        DaemonStatus("volumed-gone", "stopped", None, 0, None),
        # It still writes until its end.
        DaemonStatus("volumed-shop", "running", 12, 0, 0),
    ]
    assert parse_statuses("", "sid-1") == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("Image=own sid-1\nProgram=/usr/sbin/mysqld", False),
        ("Image=own sid-0\nProgram=/usr/sbin/mysqld", True),
        # Its database names the image: its host's own is nothing to it.
        ("Image=named trixie-1\nProgram=/usr/sbin/mariadbd", False),
        ("Image=own sid-1\nProgram=/d/data/bin/volumed (deleted)", True),
        # Of a release that noted nothing.
        ("Program=/usr/sbin/mysqld", False),
    ],
)
def test_a_daemon_of_an_older_image_or_program_is_outdated(lines: str, expected: bool) -> None:
    text = f"Daemon=mysqld-shop\nActiveState=active\nMainPID=12\n{lines}\n\n"
    assert [one.is_outdated for one in parse_statuses(text, "sid-1")] == [expected]
    ended = text.replace("MainPID=12", "MainPID=0").replace("=active", "=inactive")
    assert [one.is_outdated for one in parse_statuses(ended, "sid-1")] == [False]


def test_the_image_of_a_daemon_is_noted_as_the_hosts_or_its_own() -> None:
    assert image_note(SERVER, PLACE) == "own sid-1"
    assert image_note(replace(SERVER, image="trixie-1"), PLACE) == "named trixie-1"


def test_usages_leave_out_what_is_not_counted() -> None:
    text = """Daemon=mysqld-shop
CPUUsageNSec=2500000
MemoryCurrent=1024
IOReadOperations=[not set]
IOWriteOperations=7
IOReadBytes=18446744073709551615
IOWriteBytes=9

Daemon=mysqld-blog
CPUUsageNSec=[not set]
MemoryCurrent=[not set]

Daemon=volumed-shop
CPUUsageNSec=[not set]
MemoryCurrent=2048

"""
    assert parse_usages(text) == {
        "mysqld-shop": Usage(2500, 1024, 0, 7, 0, 9),
        "volumed-shop": Usage(0, 2048, 0, 0, 0, 0),
    }


def test_waits_leave_out_daemons_that_the_kernel_does_not_count() -> None:
    text = """Daemon=mysqld-shop
throttled_usec=1500
waited_ns=2500000

Daemon=volumed-shop
throttled_time=7000000
waited_ns=0

Daemon=haproxy-shop
throttled_usec=0

"""
    assert parse_cpu_waits(text) == {
        "mysqld-shop": CpuWait(2500, 1500),
        "volumed-shop": CpuWait(0, 7000),
    }


@pytest.mark.parametrize("tree", [".", "cpu"], ids=["v2", "v1"])
def test_the_host_adds_up_what_the_threads_of_a_daemon_waited(tmp_path: Path, tree: str) -> None:
    slice_name = f"grampus.slice/grampus-{PLACE.tag}.slice/grampus-{PLACE.tag}-mysqld-shop.service"
    group = tmp_path / "cgroup" / tree / slice_name
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("7\n9\n")
    (group / "cpu.stat").write_text("nr_periods 3\nthrottled_usec 12\nburst_usec 4\n")
    for thread, waited_ns in (("7/task/7", 1000), ("7/task/8", 20_000), ("9/task/9", 300_000)):
        (tmp_path / "proc" / thread).mkdir(parents=True)
        (tmp_path / "proc" / thread / "schedstat").write_text(f"5 {waited_ns} 1\n")
    argv = [
        word.replace("/sys/fs/cgroup", f"{tmp_path}/cgroup").replace("/proc/", f"{tmp_path}/proc/")
        for word in cpu_waits_argv(PLACE, ["mysqld-shop", "stopped"])
    ]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert parse_cpu_waits(shown) == {"mysqld-shop": CpuWait(321, 12)}
