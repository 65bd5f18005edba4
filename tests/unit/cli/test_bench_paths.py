"""`bench` and `report` with runs of `paths`: what is shown, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grampus.ceph.cluster import CephCluster
from grampus.cli.bench_paths_run import LabPathsCluster
from grampus.cli.bench_paths_tables import format_throughput, target_row
from grampus.cli.main import app
from grampus.core.errors import GrampusError
from grampus.state.runs import RunArchive
from tests.fakes.commands import PlayedCommands, Reply
from tests.unit.report.made_paths import made_paths_run, made_target, made_write_paths_run
from tests.unit.report.made_runs import made_run

RUN_ID = "20260301-140509-paths-tiny"


def invoke(line: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, line.split())
    return result.exit_code, result.stdout, result.stderr


def keep(home: Path, *run_ids: str) -> RunArchive:
    archive = RunArchive(home / "runs")
    for run_id in run_ids:
        archive.save(made_paths_run(run_id))
    return archive


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("bench run paths --db x", "--db has no meaning for the suite paths."),
        ("bench run paths --threads 4", "--threads has no meaning for the suite paths."),
        ("bench run paths --warmup-s 4", "--warmup-s has no meaning"),
        ("bench run paths --measure-s 4", "--measure-s has no meaning"),
        ("bench run paths --fresh-data", "--fresh-data has no meaning"),
        ("bench run paths --budget 10m", "--budget has no meaning for the suite paths."),
        ("bench run paths --resume", "--resume has no meaning"),
        ("bench run quick --db x --scale tiny", "--scale has no meaning for the suite quick."),
        ("bench run quick --db x --host h1", "--host has no meaning"),
        ("bench run quick --db x --rounds 5", "--rounds has no meaning"),
        ("bench run quick --db x --measures *", "--measures has no meaning"),
        ("bench run quick --db x --arms journal", "--arms has no meaning"),
        ("bench run quick --db x --seed 0", "--seed has no meaning"),
        ("bench run quick --db x --keep-data", "--keep-data has no meaning"),
        ("bench run quick --db x --budget 10m", "--budget has no meaning"),
        ("bench run quick --db x --resume", "--resume has no meaning"),
        ("bench run quick", "The suite quick measures a database, and none is named."),
    ],
)
def test_options_of_the_other_suite_are_refused(home: Path, line: str, sentence: str) -> None:
    code, _, errors = invoke(line)
    assert code == 2
    assert sentence in errors
    assert not home.exists()


def test_without_a_lab_there_is_nothing_to_measure(home: Path) -> None:
    code, _, errors = invoke("bench run paths")
    assert code == 3
    assert "There is no lab named 'default'." in errors
    assert not home.exists()


def test_a_run_is_shown_for_people(home: Path) -> None:
    keep(home, RUN_ID)
    code, shown, _ = invoke("bench show latest")
    assert code == 0
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "RAW RBD VOLUMED-URING QSD" in lines
    assert "16k-randread-qd1 3,186/s 3,086/s 1,733/s" in lines
    assert "1m-write-qd16 - 415 MiB/s -" in lines
    assert any(line.startswith("librbd-throughput 16k-randread-qd1") for line in lines)
    assert any(line.endswith("51 us 20 to 88 FAIL") for line in lines)
    assert "Note: The intervals hold the true median with 93.8%, not 95%." in lines
    assert not any(line.startswith("mysql-update-index") for line in lines)
    assert "Note: 1 targets were not measured; --format json names them." in lines


def test_a_target_of_two_measures_that_was_not_measured_counts_once(home: Path) -> None:
    run = made_paths_run()
    again = run.targets[2].model_copy(update={"measure": "read-write"})
    RunArchive(home / "runs").save(run.model_copy(update={"targets": (*run.targets, again)}))
    code, shown, _ = invoke("bench show latest")
    assert code == 0
    assert "Note: 1 targets were not measured; --format json names them." in shown


def test_the_write_paths_have_a_table_of_their_own(home: Path) -> None:
    RunArchive(home / "runs").save(made_write_paths_run())
    code, shown, _ = invoke("bench show latest")
    assert code == 0
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "WRITE PATHS DIRECT JOURNAL" in lines
    assert "16k-randwrite-uniform 1,800/s 1,900/s" in lines
    assert "osd-cpu-us-per-write 800 us 200 us" in lines
    assert any("journal / direct <= 0.3 x 0.25 x" in line for line in lines)
    code, shown, _ = invoke("bench show latest --format json")
    comparison = json.loads(shown)["comparisons"][1]
    assert (comparison["quantity"], comparison["ratio"]) == ("cost", 0.25)


def test_a_run_is_shown_for_programs(home: Path) -> None:
    archive = keep(home, RUN_ID)
    code, shown, _ = invoke("bench show latest --format json")
    assert code == 0
    document = json.loads(shown)
    assert document["kind"] == "paths"
    assert document["dir"] == str(archive.run_dir(RUN_ID))
    assert document["report"] is None
    (first, *_) = document["comparisons"]
    wanted = {"measure", "arm", "against", "ratio", "ratio_low", "ratio_high", "rounds"}
    assert wanted <= set(first)
    assert document["differences"][0]["difference_us"] == 12.0
    assert [one["reached"] for one in document["targets"]] == [True, False, None]


def test_runs_of_both_kinds_are_listed(home: Path) -> None:
    keep(home, RUN_ID)
    made_run(run_id="20260301-150000-quick-demo").archive_in(home / "runs")
    code, shown, _ = invoke("bench list --format json")
    assert code == 0
    document = json.loads(shown)
    assert [suite["name"] for suite in document["suites"]][:2] == ["paths", "quick"]
    assert [run["database"] for run in document["runs"]] == [None, "demo"]
    code, shown, _ = invoke("bench list")
    assert "(scale tiny)" in shown


def test_two_runs_are_compared(home: Path) -> None:
    keep(home, RUN_ID, "20260302-000000-paths-tiny")
    code, shown, _ = invoke(f"bench compare {RUN_ID} latest --format json")
    assert code == 0
    document = json.loads(shown)
    assert [row["throughput_ratio"] for row in document["results"]] == [1.0] * 5
    assert document["differences"] == []
    code, shown, _ = invoke(f"bench compare {RUN_ID} latest")
    assert code == 0
    assert "no confidence interval" in shown


def test_two_runs_of_a_database_are_compared(home: Path) -> None:
    made_run(run_id="a").archive_in(home / "runs")
    made_run(run_id="b").archive_in(home / "runs")
    code, shown, _ = invoke("bench compare a b")
    assert code == 0
    assert "no confidence interval" in shown


def test_runs_of_different_kinds_cannot_be_compared(home: Path) -> None:
    keep(home, RUN_ID)
    made_run(run_id="20260301-150000-quick-demo").archive_in(home / "runs")
    code, _, errors = invoke(f"bench compare {RUN_ID} latest")
    assert code == 2
    assert "they have nothing in common" in errors


def test_a_report_is_built(home: Path) -> None:
    archive = keep(home, RUN_ID)
    code, shown, _ = invoke("report build latest --format json")
    assert code == 0
    report = Path(json.loads(shown)["report"])
    assert report == archive.run_dir(RUN_ID) / "report.html"
    assert invoke("bench show latest")[1].rstrip().endswith("report.html")


def test_a_damaged_run_is_named(home: Path) -> None:
    archive = keep(home, RUN_ID)
    (archive.run_dir(RUN_ID) / "run.json").write_text('{"kind": "paths", "run_id": "x"}')
    code, _, errors = invoke("bench show latest")
    assert code == 1
    assert "cannot be read" in errors


class PlayedOsds(PlayedCommands):
    """Answers `ceph osd ls` and `ceph tell osd.N perf dump osd`; None: that OSD is down."""

    def __init__(self, writes: dict[int, int | None]) -> None:
        self._writes = writes

    def cluster(self) -> CephCluster:
        return CephCluster(self)

    def play(self, argv: list[str], stdin: str | None) -> Reply:
        words = [word for word in argv if word not in ("--format", "json")]
        if words[-2:] == ["osd", "ls"]:
            return list(self._writes)
        assert words[-3:] == ["perf", "dump", "osd"]
        writes = self._writes[int(words[-4].removeprefix("osd."))]
        if writes is None:
            raise GrampusError("Error ENXIO: problem getting command descriptions.")
        return {"osd": {"op_w": writes, "op_rw": 1, "subop_w": 7}}


@pytest.mark.parametrize(
    ("writes", "expected"),
    [({0: 10, 2: 5}, {0: 11, 2: 6}), ({0: 10, 2: None}, {}), ({}, {})],
)
def test_writes_are_read_from_every_osd_or_not_at_all(
    writes: dict[int, int | None], expected: dict[int, int]
) -> None:
    cluster = LabPathsCluster(PlayedOsds(writes))  # type: ignore[arg-type]
    assert cluster.observe_writes() == expected


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "iops", "-"),
        (12345.6, "iops", "12,346/s"),
        (36.46 * 1024**2, "bytes-per-s", "36 MiB/s"),
        (3.64 * 1024**2, "bytes-per-s", "3.6 MiB/s"),
        (194.4, "tps", "194 tps"),
        (2.314, "writes-per-operation", "2.31"),
        (31.4, "us-per-operation", "31 us"),
    ],
)
def test_throughput(value: float | None, unit: str, text: str) -> None:
    assert format_throughput(value, unit) == text


def test_targets_are_lines() -> None:
    assert target_row(made_target())[2:] == [
        "volumed-uring-raw / rbd",
        ">= 0.9 x",
        "0.97 x",
        "0.91 to 1.02",
        "pass",
    ]
    unknown = made_target(value=None, value_low=None, value_high=None, reached=None, note="why")
    assert target_row(unknown)[4:] == ["-", "-", "unknown: why"]
