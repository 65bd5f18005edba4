from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.hosts.cgroups import Cgroups, parse_key_values, parse_v1_blkio, parse_v2_io_stat
from grampus.hosts.port import BlockLimit, CpuWait, Usage
from tests.fakes.clock import FakeClock

V1_SERVICED = """\
7:6 Read 120
7:6 Write 30
7:6 Sync 140
7:6 Async 10
7:6 Discard 5
7:6 Total 155
8:0 Read 3
8:0 Write 4
8:0 Sync 7
8:0 Async 0
8:0 Discard 0
8:0 Total 7
Total 162
"""
V2_IO_STAT = """\
7:6 rbytes=1966080 wbytes=491520 rios=120 wios=30 dbytes=81920 dios=5
8:0 rbytes=12288 wbytes=16384 rios=3 wios=4 dbytes=0 dios=0
253:0
"""
CPU_STAT = """\
usage_usec 1234567
user_usec 1000000
system_usec 234567
nr_periods 10
core_sched.force_idle_usec 0
"""
EXPECTED = Usage(
    cpu_us=1234567,
    memory_bytes=104857600,
    read_ops=123,
    write_ops=34,
    read_bytes=1978368,
    write_bytes=507904,
)
PATH = "/grampus/3f2a0"


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        (V1_SERVICED, (123, 34)),
        ("Total 0\n", (0, 0)),
        ("", (0, 0)),
        ("7:6 Read 18446744073709551615\n", (18446744073709551615, 0)),
    ],
)
def test_v1_block_counters(text: str, sums: tuple[int, int]) -> None:
    assert parse_v1_blkio(text) == sums


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        (V2_IO_STAT, {"rbytes": 1978368, "wbytes": 507904, "rios": 123, "wios": 34}),
        ("", {"rbytes": 0, "wbytes": 0, "rios": 0, "wios": 0}),
        ("8:0 \n", {"rbytes": 0, "wbytes": 0, "rios": 0, "wios": 0}),
        (
            "8:0 rbytes=1 wbytes=2 rios=3 wios=4 cost.usage=99 cost.wait=max\n",
            {"rbytes": 1, "wbytes": 2, "rios": 3, "wios": 4},
        ),
    ],
)
def test_v2_block_counters(text: str, sums: dict[str, int]) -> None:
    assert parse_v2_io_stat(text) == sums


def test_key_values_skip_what_is_no_counter() -> None:
    text = f"{CPU_STAT}limit max\nlonely\nthree words here\nbelow -5\n"
    assert parse_key_values(text) == {
        "usage_usec": 1234567,
        "user_usec": 1000000,
        "system_usec": 234567,
        "nr_periods": 10,
        "core_sched.force_idle_usec": 0,
    }


def write(files: dict[Path, str]) -> None:
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def make_v2(root: Path, group: str) -> None:
    directory = root / PATH.strip("/") / group
    write(
        {
            root / "cgroup.controllers": "cpu io memory pids\n",
            directory / "cgroup.procs": "11\n12\n",
            directory / "cpu.stat": CPU_STAT,
            directory / "io.stat": V2_IO_STAT,
            directory / "memory.current": "104857600\n",
        }
    )


def make_v1(root: Path, group: str) -> None:
    below = f"{PATH.strip('/')}/{group}"
    write(
        {
            # Hybrid: version 2 is there too, beside the controllers, and counts nothing.
            root / "unified" / "cgroup.controllers": "",
            root / "unified" / below / "cgroup.procs": "11\n12\n",
            root / "blkio" / below / "blkio.throttle.io_serviced": V1_SERVICED,
            root / "blkio" / below / "blkio.throttle.io_service_bytes": (
                "7:6 Read 1966080\n7:6 Write 491520\n7:6 Total 2457600\n"
                "8:0 Read 12288\n8:0 Write 16384\nTotal 2486272\n"
            ),
            root / "blkio" / below / "cgroup.procs": "11\n12\n",
            root / "cpu,cpuacct" / below / "cpuacct.usage": "1234567890\n",
            root / "cpu,cpuacct" / below / "cgroup.procs": "11\n12\n",
            root / "memory" / below / "memory.usage_in_bytes": "104857600\n",
            root / "memory" / below / "cgroup.procs": "12\n",
        }
    )
    for name in ("cpu", "cpuacct"):
        if not (root / name).exists():
            (root / name).symlink_to("cpu,cpuacct")


LAYOUTS = pytest.mark.parametrize("make", [make_v1, make_v2], ids=["v1-hybrid", "v2"])


@LAYOUTS
def test_usage_is_the_same_in_both_layouts(
    tmp_path: Path, make: Callable[[Path, str], None]
) -> None:
    make(tmp_path, "h1/osd-0")
    cgroups = Cgroups(f"{PATH}/h1", root=tmp_path)
    assert cgroups.observe_usage("osd-0") == EXPECTED
    assert cgroups.observe_usage("osd-1") is None
    assert cgroups.observe_usage("../h2/osd-0") is None


@LAYOUTS
def test_processes_of_all_groups_below(tmp_path: Path, make: Callable[[Path, str], None]) -> None:
    make(tmp_path, "h1/osd-0")
    make(tmp_path, "h2/osd-1")
    make(tmp_path, "")
    assert Cgroups(PATH, root=tmp_path).pids() == {11, 12}
    assert Cgroups("/grampus/other", root=tmp_path).pids() == set()


@pytest.mark.parametrize("missing", ["io.stat"])
def test_v2_group_without_block_io_counts_none(tmp_path: Path, missing: str) -> None:
    make_v2(tmp_path, "h1/mon-h1")
    (tmp_path / PATH.strip("/") / "h1/mon-h1" / missing).unlink()
    usage = Cgroups(f"{PATH}/h1", root=tmp_path).observe_usage("mon-h1")
    assert usage is not None
    assert (usage.read_ops, usage.write_bytes, usage.cpu_us) == (0, 0, 1234567)


def test_group_half_removed_is_absent(tmp_path: Path) -> None:
    make_v2(tmp_path, "h1/osd-0")
    (tmp_path / PATH.strip("/") / "h1/osd-0/memory.current").unlink()
    assert Cgroups(f"{PATH}/h1", root=tmp_path).observe_usage("osd-0") is None


def directories(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}


def make_empty_groups(root: Path, trees: list[str], groups: list[str]) -> None:
    for tree in trees:
        for group in groups:
            (root / tree / group).mkdir(parents=True)


@pytest.mark.parametrize("trees", [["."], ["blkio", "memory", "unified"]], ids=["v2", "v1"])
def test_groups_are_removed_deepest_first_and_the_parent_with_the_last_lab(
    tmp_path: Path, trees: list[str]
) -> None:
    if trees == ["."]:
        (tmp_path / "cgroup.controllers").touch()
    make_empty_groups(
        tmp_path, trees, ["grampus/one/h1/osd-0", "grampus/one/h2", "grampus/two/h1", "other"]
    )
    harmless("/grampus/one", tmp_path).ensure_absent(FakeClock())
    for tree in trees:
        left = directories(tmp_path / tree)
        assert {"grampus", "grampus/two", "grampus/two/h1", "other"} == left
    harmless("/grampus/one", tmp_path).ensure_absent(FakeClock())  # again: nothing happens
    harmless("/grampus/two", tmp_path).ensure_absent(FakeClock())
    for tree in trees:
        assert directories(tmp_path / tree) == {"other"}


def test_group_in_use_is_not_passed_over(tmp_path: Path) -> None:
    make_v2(tmp_path, "h1")  # its files stand for processes: rmdir refuses
    with pytest.raises(OSError, match="not empty"):
        harmless(PATH, tmp_path).ensure_absent(FakeClock())


def test_processes_are_killed_and_waited_for(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    group = tmp_path / "grampus/one/h1"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("11\n12\n")
    killed: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        killed.append(pid)
        if len(killed) == 2:
            (group / "cgroup.procs").unlink()

    Cgroups("/grampus/one", root=tmp_path, kill=kill).ensure_ended(FakeClock())
    assert sorted(killed) == [11, 12]
    assert not (tmp_path / "grampus/one").exists()
    assert (tmp_path / "grampus").exists()


def harmless(path: str, root: Path) -> Cgroups:
    """Groups of a made-up tree, whose numbers are no processes of ours."""

    def kill(pid: int, number: int) -> None:
        del pid, number

    return Cgroups(path, root=root, kill=kill)


def make_cpu_v1(root: Path, group: str, quota_us: int) -> Path:
    directory = root / "cpu" / PATH.strip("/") / group
    write(
        {
            directory / "cpu.cfs_quota_us": f"{quota_us}\n",
            directory / "cpu.cfs_period_us": "100000\n",
        }
    )
    return directory / "cpu.cfs_quota_us"


def make_cpu_v2(root: Path, group: str, quota_us: int) -> Path:
    directory = root / PATH.strip("/") / group
    limit = "max" if quota_us < 0 else str(quota_us)
    write(
        {
            root / "cgroup.controllers": "cpu io memory pids\n",
            directory / "cpu.max": f"{limit} 100000\n",
        }
    )
    return directory / "cpu.max"


@pytest.mark.parametrize(
    ("make", "limited", "unlimited"),
    [(make_cpu_v1, "67000", "-1"), (make_cpu_v2, "67000 100000", "max 100000")],
    ids=["v1", "v2"],
)
def test_a_group_is_limited_to_cores_and_freed_again(
    tmp_path: Path, make: Callable[[Path, str, int], Path], limited: str, unlimited: str
) -> None:
    file = make(tmp_path, "h1", -1)
    make(tmp_path, "h1/osd-0", 200_000)
    cgroups = harmless(f"{PATH}/h1", tmp_path)
    assert cgroups.observe_cpu_quota("") is None
    assert cgroups.observe_cpu_quota("osd-0") == 2.0
    cgroups.set_cpu_quota("", 0.67)
    assert file.read_text().strip().startswith(limited)
    assert cgroups.observe_cpu_quota("") == 0.67
    cgroups.set_cpu_quota("", None)
    assert file.read_text().strip().startswith(unlimited)
    assert cgroups.observe_cpu_quota("") is None


@pytest.mark.parametrize("make", [make_cpu_v1, make_cpu_v2])
def test_a_group_that_is_gone_has_no_limit_and_gets_none(
    tmp_path: Path, make: Callable[[Path, str, int], Path]
) -> None:
    make(tmp_path, "h1", -1)
    cgroups = harmless(f"{PATH}/h1", tmp_path)
    cgroups.set_cpu_quota("osd-9", 1.0)
    assert cgroups.observe_cpu_quota("osd-9") is None
    assert not any("osd-9" in str(path) for path in tmp_path.rglob("*"))


LIMITED = BlockLimit("/dev/loop7", read_iops=150, write_iops=140, write_bytes_per_s=1000)


@pytest.mark.parametrize(
    ("limit", "written"),
    [
        (LIMITED, ["7:7 150", "7:7 140", "7:7 0", "7:7 1000"]),
        (BlockLimit("/dev/loop7"), ["7:7 0"] * 4),
    ],
)
def test_limits_on_a_device_in_version_1(
    tmp_path: Path, limit: BlockLimit, written: list[str]
) -> None:
    group = tmp_path / "blkio" / PATH.strip("/") / "h1/osd-3"
    kinds = ("read_iops", "write_iops", "read_bps", "write_bps")
    files = [group / f"blkio.throttle.{kind}_device" for kind in kinds]
    write(dict.fromkeys(files, "7:7 99\n"))
    harmless(f"{PATH}/h1", tmp_path).set_block_limit("osd-3", "7:7", limit)
    assert [file.read_text() for file in files] == written


@pytest.mark.parametrize(
    ("limit", "written"),
    [
        (LIMITED, "7:7 riops=150 wiops=140 rbps=max wbps=1000"),
        (BlockLimit("/dev/loop7"), "7:7 riops=max wiops=max rbps=max wbps=max"),
    ],
)
def test_limits_on_a_device_in_version_2(tmp_path: Path, limit: BlockLimit, written: str) -> None:
    file = tmp_path / PATH.strip("/") / "h1/osd-3/io.max"
    write({tmp_path / "cgroup.controllers": "io\n", file: ""})
    cgroups = harmless(f"{PATH}/h1", tmp_path)
    cgroups.set_block_limit("osd-3", "7:7", limit)
    assert file.read_text() == written
    cgroups.set_block_limit("osd-9", "7:7", limit)  # it does not run
    assert not any("osd-9" in str(path) for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("marker", "file", "text"),
    [
        ("cgroup.controllers", "memory.events", "low 0\nmax 12\noom 2\noom_kill 1\n"),
        (
            "memory/tasks",
            "memory/PATH/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        ),
    ],
)
def test_processes_that_a_memory_limit_ended_are_counted(
    tmp_path: Path, marker: str, file: str, text: str
) -> None:
    root = tmp_path / "cgroup"
    (root / marker).parent.mkdir(parents=True)
    (root / marker).touch()
    group = f"{PATH.strip('/')}/mysqld-shop"
    found = root / (file.replace("PATH", group) if "PATH" in file else f"{group}/{file}")
    found.parent.mkdir(parents=True)
    found.write_text(text)
    groups = Cgroups(PATH, root=root)
    assert groups.observe_out_of_memory("mysqld-shop") == 1
    assert groups.observe_out_of_memory("gone") == 0


@pytest.mark.parametrize(
    ("tree", "listed", "stat", "throttled_us"),
    [
        (".", "cgroup.threads", "usage_usec 5\nthrottled_usec 1234\n", 1234),
        (".", "cgroup.threads", "usage_usec 5\n", 0),
        ("cpu", "tasks", "nr_throttled 2\nthrottled_time 5678000\n", 5678),
    ],
)
def test_threads_that_wait_for_a_cpu(
    tmp_path: Path, tree: str, listed: str, stat: str, throttled_us: int
) -> None:
    if tree == ".":
        (tmp_path / "cgroup.controllers").touch()
    group = tmp_path / tree / "grampus/3f2a0/h1/osd-0"
    group.mkdir(parents=True)
    (group / listed).write_text("11\n12\n13\n")
    (group / "cpu.stat").write_text(stat)
    proc = tmp_path / "proc"
    for thread, counts in (("11", "9 1000000 3"), ("12", "9 2500000 3")):  # 13 has just ended
        (proc / thread).mkdir(parents=True)
        (proc / thread / "schedstat").write_text(f"{counts}\n")
    cgroups = Cgroups(f"{PATH}/h1", root=tmp_path, proc=proc)
    assert cgroups.observe_cpu_wait("osd-0") == CpuWait(3500, throttled_us)
    assert cgroups.observe_cpu_wait("osd-1") is None
    # The limit of all groups together, which has no thread itself.
    (group.parent / listed).write_text("")
    (group.parent / "cpu.stat").write_text(stat)
    assert cgroups.observe_cpu_wait("") == CpuWait(0, throttled_us)
    # A kernel that does not count it.
    for thread in ("11", "12"):
        (proc / thread / "schedstat").unlink()
    assert cgroups.observe_cpu_wait("osd-0") is None
