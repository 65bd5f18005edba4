"""A whole run against played instances, and every way it can end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from grampus.bench.drivers.outcome import DriverError
from grampus.bench.quick_documents import compare_document, show_document
from grampus.bench.quick_plan import BenchOptions
from grampus.bench.quick_runner import BenchRunner
from grampus.bench.quick_suite import load_suite
from grampus.core.errors import NotFoundError, RefusedError
from grampus.hosts.port import Usage
from grampus.state.home import Home
from grampus.state.locks import hold_lock
from grampus.state.runs import Run, RunArchive
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFleet
from tests.fakes.progress import RecordedProgress
from tests.fakes.sysbench_host import (
    MIB,
    PASSWORD,
    FakeCommand,
    FakeDatabases,
    FakeDevices,
    FakeFacts,
    FakeServer,
    SysbenchHost,
    run_output,
)

from .test_suite import SUITES

SUITE = load_suite(SUITES, "quick")


class Setup:
    def __init__(self, root: Path, *, size_bytes: int = 2048 * MIB) -> None:
        self.home = Home(root)
        self.archive = RunArchive(self.home.runs_dir)
        self.clock = FakeClock()
        self.host = SysbenchHost("h1", clock=self.clock)
        self.host.servers = {"10.0.1.1": FakeServer(), "10.0.1.2": FakeServer()}
        idle = Usage(0, 64, 0, 0, 0, 0)
        self.host.usage = {"mysqld-demo": idle, "mysqld-local-demo": idle}
        for path, text in {
            "/proc/stat": "cpu 5 0 5 90 0 0 0\ncpu0\ncpu1\n",
            "/proc/meminfo": "MemTotal: 2097152 kB\nMemAvailable: 60 kB\n",
            "/proc/cpuinfo": "processor : 0\nmodel name : Test CPU\n",
            "/proc/sys/kernel/osrelease": "6.18.0\n",
            "/proc/loadavg": "0.10 0.20 0.30 1/2 3\n",
        }.items():
            self.host.put(path, text)
        self.machine_files = dict(self.host.files)
        self.databases = FakeDatabases(size_bytes=size_bytes)
        self.progress = RecordedProgress()
        self.runner = BenchRunner(
            home=self.home,
            lab="default",
            fleet=FakeFleet([self.host]),
            databases=self.databases,
            devices=FakeDevices(),
            facts=FakeFacts(),
            clock=self.clock,
            progress=self.progress,
        )

    def run(self, options: BenchOptions | None = None) -> Run:
        return self.runner.run(SUITE, "demo", options or BenchOptions())

    def assert_nothing_left(self) -> None:
        assert all(command.terminated.is_set() for command in self.host.spawned)
        assert not self.databases.scratch_running
        assert self.host.files == self.machine_files


def test_a_run_measures_every_workload_on_both_arms(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    run = setup.run()
    assert setup.archive.load("latest") == run
    assert run.run_id.startswith("20260101-0000")
    assert [workload.name for workload in run.workloads] == [
        "point-select",
        "update-index",
        "read-write",
    ]
    order = [phase for phase in setup.progress.phases if phase.endswith(": measuring")]
    assert order == [
        "point-select on Ceph: measuring",
        "point-select on local disk: measuring",
        "update-index on local disk: measuring",
        "update-index on Ceph: measuring",
        "read-write on Ceph: measuring",
        "read-write on local disk: measuring",
    ]
    assert ("408 TPS, p99 43.4 ms", 1.0) in setup.progress.details
    setup.assert_nothing_left()


def test_figures_come_from_the_measuring_run_alone(tmp_path: Path) -> None:
    setup = Setup(tmp_path)

    def play(argv: Sequence[str]) -> FakeCommand:
        warm_up = "--time=4" in argv
        lines = run_output(4 if warm_up else 12, tps=1.0 if warm_up else 500.0)
        return FakeCommand(argv, lines, clock=setup.clock)

    setup.host.scripts["oltp_update_index run"] = play
    run = setup.run()
    result = run.workloads[1].ceph
    assert result.tps == pytest.approx(500.0)
    assert result.latency_avg_ms == pytest.approx(32050.38 / 1638)
    # The bucket in which it is: 19.645 ms in the middle.
    assert result.latency_p99_ms == pytest.approx(19.645, rel=1e-3)
    assert result.latency_max_ms == pytest.approx(47.82)
    assert result.tps_cov == 0.0
    samples = setup.archive.load_samples(run.run_id, "update-index", "ceph")
    assert len(samples) == 16
    measured = [sample for sample in samples if sample.at_s > result.started_at_s]
    assert [sample.tps for sample in measured] == [500.0] * 12
    assert result.ended_at_s == pytest.approx(result.started_at_s + 3.276)
    raw = setup.archive.run_dir(run.run_id) / "raw"
    assert sorted(file.name for file in raw.glob("update-index.*")) == [
        "update-index.ceph.measuring.txt",
        "update-index.ceph.warm-up.txt",
        "update-index.local.measuring.txt",
        "update-index.local.warm-up.txt",
    ]
    assert "99th percentile" in (raw / "update-index.ceph.measuring.txt").read_text()
    measuring = [spawned.argv for spawned in setup.host.spawned if "--time=12" in spawned.argv]
    assert all("--histogram=on" in argv and "--percentile=99" in argv for argv in measuring)


def test_options_reach_sysbench(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    run = setup.run(BenchOptions(threads=3, measure_s=5, warmup_s=0))
    assert (run.threads, run.measure_s, run.warmup_s) == (3, 5, 0)
    runs = [spawned.argv for spawned in setup.host.spawned if spawned.argv[-1] == "run"]
    assert len(runs) == 6
    assert all("--threads=3" in argv and "--time=5" in argv for argv in runs)


def test_the_environment_and_the_limits_of_trust_are_kept(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.host.servers["10.0.1.2"].variables["sync_binlog"] = "0"
    run = setup.run()
    facts = {(setting.group, setting.name): setting.value for setting in run.environment}
    assert facts["versions", "ceph"] == "20.2.4"
    assert facts["versions", "sysbench"] == "1.0.20"
    assert facts["versions", "kernel"] == "6.18.0"
    assert facts["versions", "mysql"] == "9.7.4"
    assert facts["machine", "CPU"] == "Test CPU"
    assert facts["machine", "cores"] == "2"
    assert facts["server settings", "sync_binlog"] == "1"
    assert facts["waited before", "read-write on Ceph"] == "0.3 s"
    assert any("no confidence interval" in warning for warning in run.warnings)
    assert any("sync_binlog is 1 on Ceph and 0 on local" in warning for warning in run.warnings)
    archived = (setup.archive.run_dir(run.run_id) / "run.json").read_text()
    assert PASSWORD not in archived


def waits(run: Run) -> list[float]:
    return [
        float(setting.value.removesuffix(" s"))
        for setting in run.environment
        if setting.group == "waited before"
    ]


def test_a_fresh_data_set_is_written_out_before_the_first_arm(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.host.flushing_until_s = 20.0
    run = setup.run()
    assert waits(run)[0] == pytest.approx(20.0, abs=1.0)
    assert not any("writing out" in warning for warning in run.warnings)


def test_waiting_for_calm_ends_in_a_warning(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.run()
    setup.host.flushing_until_s = 1e9
    run = setup.run()
    assert waits(run) == pytest.approx([SUITE.settle_max_s] * 6, abs=0.5)
    late = [warning for warning in run.warnings if "still writing out older changes" in warning]
    assert len(late) == 6
    assert late[0].startswith("point-select on Ceph began")


def test_a_second_run_reuses_the_data(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.run()
    loads = [spawned for spawned in setup.host.spawned if spawned.argv[-1] == "prepare"]
    setup.run()
    assert [s for s in setup.host.spawned if s.argv[-1] == "prepare"] == loads
    assert len(setup.archive.run_ids()) == 2


@pytest.mark.parametrize("failing", ["oltp_point_select run", "oltp_read_write run"])
def test_a_failed_run_keeps_its_raw_data_and_leaves_nothing_running(
    tmp_path: Path, failing: str
) -> None:
    setup = Setup(tmp_path)
    setup.host.scripts[failing] = lambda argv: FakeCommand(
        argv,
        run_output(2)[:12],
        returncode=1,
        stderr="FATAL: mysql_stmt_execute() returned error 2013 (Lost connection)\n",
    )
    with pytest.raises(DriverError) as caught:
        setup.run()
    assert "error 2013 (Lost connection)" in caught.value.problem
    assert "during warm-up of " in caught.value.problem
    assert setup.archive.run_ids() == []
    (run_dir,) = setup.home.runs_dir.iterdir()
    assert any("did not finish" in note and str(run_dir) in note for note in setup.progress.notes)
    raw = run_dir / "raw" / f"{failing.split('_')[1]}-{failing.split('_')[2].split()[0]}"
    assert "Lost connection" in Path(f"{raw}.ceph.warm-up.txt").read_text()
    setup.assert_nothing_left()


@pytest.mark.parametrize("command", ["oltp_read_write prepare", "oltp_update_index run"])
def test_ctrl_c_leaves_nothing_running(tmp_path: Path, command: str) -> None:
    setup = Setup(tmp_path)
    setup.host.scripts[command] = lambda argv: FakeCommand(
        argv, [*run_output(2)[:12], KeyboardInterrupt()]
    )
    with pytest.raises(KeyboardInterrupt):
        setup.run()
    assert setup.archive.run_ids() == []
    setup.assert_nothing_left()


def test_refusals_come_before_anything_is_started(tmp_path: Path) -> None:
    setup = Setup(tmp_path, size_bytes=200 * MIB)
    with pytest.raises(RefusedError):
        setup.run()
    with pytest.raises(NotFoundError):
        setup.runner.run(SUITE, "other", BenchOptions())
    assert setup.host.commands == []
    assert not setup.home.runs_dir.exists()


def test_a_foreign_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    setup.host.servers["10.0.1.1"].tables = {"orders": 5}
    with pytest.raises(RefusedError):
        setup.run(BenchOptions(fresh_data=True))
    assert setup.host.servers["10.0.1.1"].tables == {"orders": 5}
    assert not setup.home.runs_dir.exists()
    assert setup.progress.notes == []
    setup.assert_nothing_left()


def test_two_runs_do_not_measure_each_other(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    with (
        hold_lock(setup.home, "bench", setup.clock),
        pytest.raises(RefusedError, match="Another grampus command"),
    ):
        setup.run()


def test_show_and_compare_documents(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    first = setup.run()
    setup.host.scripts["oltp_point_select run"] = lambda argv: FakeCommand(
        argv, run_output(12, tps=816.04), clock=setup.clock
    )
    second = setup.run(BenchOptions(threads=2))

    shown = show_document(first, setup.archive)
    assert shown["run_id"] == first.run_id
    assert shown["workloads"][0]["ceph"]["latency_p99_ms"] == pytest.approx(19.66, abs=0.01)
    assert shown["workloads"][0]["ceph_to_local_tps_ratio"] == 1.0
    for file in shown["samples"]["files"]:
        assert (Path(shown["samples"]["dir"]) / file["file"]).is_file()
    assert (Path(shown["samples"]["dir"]) / shown["samples"]["raw"]).is_dir()
    assert shown["warnings"] == list(first.warnings)

    compared = compare_document(first, second)
    by_cell = {(row["workload"], row["arm"]): row for row in compared["results"]}
    assert by_cell["point-select", "ceph"]["tps_ratio"] == pytest.approx(2.0, rel=1e-3)
    assert by_cell["read-write", "local"]["tps_ratio"] == 1.0
    assert "no confidence interval" in compared["statement"]
    assert {"group": "run", "name": "threads", "first": "8", "second": "2"} in compared[
        "differences"
    ]
    fewer = second.model_copy(update={"workloads": second.workloads[1:]})
    assert compare_document(first, fewer)["only_in_first"] == ["point-select"]
