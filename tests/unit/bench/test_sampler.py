"""The monitor keeps going, and says what it could not read."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from grampus.bench.calm import wait_until_calm
from grampus.bench.measured_ports import IoDevice
from grampus.bench.sampler import MAX_REASONS, Sampler
from grampus.hosts.port import HostUnreachableError, Usage
from grampus.state.runs import RunArchive
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.sysbench_host import SysbenchHost

STAT = "/sys/class/block/{}/stat"
DEVICES = [
    IoDevice("daemon", "osd-0", "h1", "/dev/loop3"),
    IoDevice("volume", "demo", "h2", "/dev/loop7", log_device="/dev/loop8"),
]


def usage(cpu_us: int, writes: int = 0) -> Usage:
    return Usage(cpu_us, 64, 0, writes, 0, 0)


class Setup:
    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.first, self.second = SysbenchHost("h1"), SysbenchHost("h2")
        self.fleet = FakeFleet([self.first, self.second])
        self.archive = RunArchive(directory)
        self.sampler = Sampler(
            self.fleet,
            DEVICES,
            machine="h2",
            file=self.archive.resources_file("r"),
            clock=self.clock,
            interval_s=0.001,
        )
        self.tick(0)

    def tick(self, second: int) -> None:
        self.clock.slept_s = float(second)
        self.first.usage = {"osd-0": usage(second * 250_000)}
        self.second.usage = {"mysqld-demo": usage(second * 500_000)}
        self.first.put(STAT.format("loop3"), f"0 0 0 0 {second * 40} 0 {second * 80}")
        self.second.put(STAT.format("loop7"), f"{second * 7} 0 0 0 0 0 0")
        self.second.put(STAT.format("loop8"), f"0 0 0 0 {second * 3} 0 {second * 6}")
        self.second.put("/proc/stat", f"cpu {second * 50} 0 0 {second * 150} 0 0 0\ncpu0\ncpu1\n")
        self.second.put("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 60 kB\n")


def test_samples_of_all_subjects_share_one_clock(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    for second in (1, 2):
        setup.sampler.sample_once()
        setup.tick(second)
    setup.sampler.sample_once()
    samples = setup.archive.load_resources("r")
    assert len(samples) == 8
    last = {sample.name: sample for sample in samples[4:]}
    assert {sample.at_s for sample in samples[4:]} == {setup.clock.now().timestamp()}
    assert last["osd-0@h1"].cpu_cores == 0.25
    assert last["osd-0@h1"].write_iops == 40.0
    assert last["mysqld-demo@h2"].cpu_cores == 0.5
    assert last["demo"].read_iops == 7.0
    assert last["demo"].write_iops == 3.0, "of the device with the log"
    assert last["machine"].cpu_cores == 0.5
    assert last["machine"].memory_bytes == 40 * 1024
    assert setup.sampler.warnings() == ()


@pytest.mark.parametrize("device", ["loop7", "loop8"])
def test_what_cannot_be_read_is_a_warning_and_the_rest_is_sampled(
    tmp_path: Path, device: str
) -> None:
    setup = Setup(tmp_path)
    setup.sampler.sample_once()
    setup.tick(1)
    setup.first.usage_errors = [HostUnreachableError("h1 does not answer.")]
    del setup.second.files[PurePosixPath(STAT.format(device))]
    setup.sampler.sample_once()
    names = {sample.name for sample in setup.archive.load_resources("r")}
    assert names == {"mysqld-demo@h2", "machine"}
    warnings = " ".join(setup.sampler.warnings())
    assert "the daemons of h1 cannot be read (h1 does not answer.) (1 time)" in warnings
    assert f"/dev/{device} of demo" in warnings


def test_a_daemon_that_ends_while_it_is_read_does_not_end_the_monitor(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.first.usage_errors = [FileNotFoundError(2, "No such file", "/sys/fs/cgroup/osd-0")]
    setup.sampler.sample_once()
    assert "the daemons of h1 cannot be read" in setup.sampler.warnings()[0]


def test_a_host_that_is_down_is_left_out(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.first.up = False
    setup.sampler.sample_once()
    setup.tick(1)
    setup.sampler.sample_once()
    names = {sample.name for sample in setup.archive.load_resources("r")}
    assert names == {"mysqld-demo@h2", "demo", "machine"}


def test_reasons_do_not_pile_up(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.first.usage_errors = [HostUnreachableError(f"error {n}") for n in range(50)]
    for _ in range(50):
        setup.sampler.sample_once()
    assert len(setup.sampler.warnings()) == MAX_REASONS


def test_an_unwritable_archive_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("a file where the directory should be", encoding="utf-8")
    setup = Setup(tmp_path)
    setup.sampler.sample_once()
    setup.tick(1)
    setup.sampler.sample_once()
    assert "cannot be written" in setup.sampler.warnings()[0]


def test_the_thread_ends_when_told(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.sampler.start()
    setup.sampler.stop()
    count = len(setup.archive.load_resources("r"))
    setup.tick(9)
    assert len(setup.archive.load_resources("r")) == count
    setup.sampler.stop()


@pytest.mark.parametrize(
    ("writes_a_poll", "max_s", "calm", "waited_s"),
    [
        ([0], 5.0, True, 0.3),
        ([900, 300, 0], 5.0, True, 0.9),
        ([900] * 40, 1.0, False, 1.2),
        ([900], 0.0, False, 0.0),
    ],
)
def test_waiting_for_calm_is_bounded(
    writes_a_poll: list[int], max_s: float, calm: bool, waited_s: float
) -> None:
    clock, host = FakeClock(), SysbenchHost("h1")
    written = 0

    class Busy(SysbenchHost):
        def observe_usage(self) -> dict[str, Usage]:
            nonlocal written
            polls = round(clock.slept_s / 0.3)
            written = sum(writes_a_poll[:polls])
            return {"mysqld-demo": usage(0, written), "osd-0": usage(polls * 10**6, 0)}

    host = Busy("h1")
    settled = wait_until_calm(
        FakeFleet([host]),
        [("h1", "mysqld-demo")],
        clock=clock,
        max_s=max_s,
    )
    assert settled.calm is calm
    assert settled.waited_s == pytest.approx(waited_s)


@pytest.mark.parametrize(("idle_cores", "calm"), [(None, False), ({("h1", "vm-demo"): 0.2}, True)])
def test_what_takes_more_when_it_does_nothing_can_be_calm(
    idle_cores: dict[tuple[str, str], float] | None, calm: bool
) -> None:
    clock = FakeClock()

    class Idle(SysbenchHost):
        def observe_usage(self) -> dict[str, Usage]:
            return {"vm-demo": usage(round(0.1 * clock.slept_s * 1_000_000), 0)}

    settled = wait_until_calm(
        FakeFleet([Idle("h1")]),
        [("h1", "vm-demo")],
        clock=clock,
        max_s=1.0,
        idle_cores=idle_cores,
    )
    assert settled.calm is calm
