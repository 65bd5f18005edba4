"""Suites are read strictly, and wrong ones are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.paths.suite import PathsSuite
from grampus.bench.quick_suite import Suite, list_suites, load_suite, parse_suite
from grampus.core.errors import NotFoundError, UsageError

SUITES = Path(__file__).parents[3] / "suites"
QUICK = (SUITES / "quick.yaml").read_text(encoding="utf-8")
PATHS = (SUITES / "paths.yaml").read_text(encoding="utf-8")


def test_quick_suite_is_valid_and_complete() -> None:
    suite = load_suite(SUITES, "quick")
    assert isinstance(suite, Suite)
    assert [(workload.name, workload.script) for workload in suite.workloads] == [
        ("point-select", "oltp_point_select"),
        ("update-index", "oltp_update_index"),
        ("read-write", "oltp_read_write"),
    ]
    assert (suite.threads, suite.tables, suite.warmup_s, suite.measure_s) == (8, 4, 4, 12)
    assert suite.dataset_to_buffer_pool == 2.5
    assert [found.name for found in list_suites(SUITES)] == ["paths", "quick"]


def test_wrong_name_is_answered_with_a_suggestion() -> None:
    with pytest.raises(NotFoundError) as caught:
        load_suite(SUITES, "quik")
    assert "quick" in caught.value.remedy


def test_file_and_suite_must_agree_on_the_name(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(QUICK, encoding="utf-8")
    with pytest.raises(UsageError, match="calls itself 'quick'"):
        load_suite(tmp_path, "slow")


@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ("threads: 8", "thread: 8", "unknown key 'thread'", "Did you mean 'threads'?"),
        (
            "script: oltp_update_index",
            "scrip: oltp_update_index",
            "unknown key 'workloads.1.scrip'",
            "Known keys there: name, script, title.",
        ),
        ("tables: 4\n", "", "lacks the key 'tables'", "Add it."),
        ("threads: 8", "threads: 0", "value of 'threads' is not valid (given: 0)", "Correct"),
        ("percentile: 99", "percentile: 95", "value of 'percentile'", "Correct"),
        (
            "script: oltp_read_write",
            "script: /etc/passwd",
            "value of 'workloads.2.script'",
            "Correct",
        ),
        ("name: update-index", "name: point-select", "same name", "Correct"),
        ("threads: 8", "threads: [", "not valid YAML", "Correct"),
    ],
)
def test_invalid_suites_are_explained(old: str, new: str, problem: str, remedy: str) -> None:
    assert old in QUICK
    with pytest.raises(UsageError) as caught:
        parse_suite(QUICK.replace(old, new), source="quick.yaml")
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert "quick.yaml" in caught.value.problem


def test_empty_file_is_explained() -> None:
    with pytest.raises(UsageError, match="holds no keys"):
        parse_suite("", source="x.yaml")


def test_paths_suite_is_valid_and_holds_what_the_ways_are_judged_by() -> None:
    suite = load_suite(SUITES, "paths")
    assert isinstance(suite, PathsSuite)
    assert len(suite.measures) == 24
    drivers = [target for target in suite.targets if target.arms[0] not in ("journal", "cache")]
    assert {
        target.name: target.at_least or target.added_latency_at_most_us for target in drivers
    } == {
        "librbd-throughput": 0.9,
        "added-latency": 40,
        "qsd-random-write": 2.5,
        "qsd-random-read": 3,
        "qsd-sequential-write": 8,
        "transport-qd1": 2,
        "transport-qd32": 1.25,
        "mysql-update-index": 3,
    }
    assert suite.scales["tiny"].region_bytes == 256 * 1024**2


def test_the_write_paths_are_judged_by_what_they_were_made_for() -> None:
    suite = load_suite(SUITES, "paths")
    assert isinstance(suite, PathsSuite)
    found: dict[tuple[str, str, str], float | None] = {}
    for target in suite.targets:
        if target.arms[0] in ("journal", "cache"):
            (arm,), (measure,) = target.arms, target.measures
            limit = target.at_least if target.at_most is None else -target.at_most
            assert found.setdefault((measure, arm, target.against), limit) == limit
    assert found == {
        ("update-index", "journal", "direct"): 4,
        ("update-index", "cache", "direct"): 8,
        ("update-index", "journal", "qsd-xfs"): 3,
        ("update-index", "cache", "qsd-xfs"): 3,
        ("update-index", "journal", "local"): 0.33,
        ("update-index", "cache", "local"): 0.65,
        ("read-write", "journal", "direct"): 3,
        ("read-write", "cache", "direct"): 7,
        ("read-write", "journal", "local"): 0.4,
        ("read-write", "cache", "local"): 0.8,
        ("16k-randwrite-zipf", "journal", "direct"): 2.5,
        ("16k-randwrite-zipf", "cache", "direct"): 2.5,
        ("16k-randwrite-uniform", "journal", "direct"): 0.9,
        ("16k-randwrite-uniform", "cache", "direct"): 0.9,
        ("4k-burst", "journal", "direct"): 5,
        ("4k-burst", "cache", "direct"): 30,
        ("4k-append-fsync", "journal", "direct"): 1.2,
        ("4k-append-fsync", "cache", "direct"): 10,
        ("4k-append-fsync", "cache", "local"): 0.5,
        ("16k-randwrite-qd64-full", "journal", "direct"): 0.9,
        ("16k-randwrite-qd64-full", "cache", "direct"): 0.9,
        ("rados-writes-per-update", "journal", "direct"): -0.25,
        ("commit-latency-p50", "journal", "direct"): -0.45,
        ("rados-writes-per-update", "cache", "direct"): -0.3,
        ("point-select", "cache", "direct"): 3,
    }
    burst = next(measure for measure in suite.measures if measure.name == "4k-burst")
    assert (burst.total_bytes, burst.depth, burst.fsync) == (64 * 1024**2, 32, False)
    assert suite.scales["sustained"].sustained_ms == 300_000


@pytest.mark.parametrize(
    ("old", "new", "problem", "remedy"),
    [
        ("after: 16k-randwrite-uniform", "after: 1m-x", "names the measure 1m-x", "Correct"),
        ("of: update-index", "of: 4k-burst", "rados-writes-per-update names the", "Correct"),
        ("at_most: 0.3", "added_latency: 0.3", "unknown key", "Did you mean"),
        ("kind: paths", "kind: path", "unknown kind 'path'", "oltp, paths"),
        ("kind: paths", "kind: [paths]", "unknown kind ['paths']", "oltp, paths"),
        ("    depth: 1\n", "    dept: 1\n", "unknown key 'measures.0.dept'", "'depth'"),
        ("    ramp_ms: 50\n", "", "lacks the key 'scales.tiny.ramp_ms'", "Add it."),
        (
            "region_bytes: 256M",
            "region_bytes: much",
            "'scales.tiny.region_bytes' is not valid (given: 'much')",
            "Correct",
        ),
        ("    at_least: 8\n", "", "a target has either at_least", "Correct"),
        (
            "measures: [1m-write-qd16]",
            "measures: [2m-write]",
            "names the measure 2m-write",
            "Correct",
        ),
        ("  full:", "  huge:", "scales.huge", "Correct"),
    ],
)
def test_invalid_paths_suites_are_explained(old: str, new: str, problem: str, remedy: str) -> None:
    assert old in PATHS
    with pytest.raises(UsageError) as caught:
        parse_suite(PATHS.replace(old, new, 1), source="paths.yaml")
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
