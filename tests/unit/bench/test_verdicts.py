"""How far figures can be trusted."""

from __future__ import annotations

import pytest

from grampus.bench.verdicts import (
    ONE_REPEAT,
    classify_steadiness,
    coefficient_of_variation,
    decide_result_warnings,
    decide_run_warnings,
    decide_setting_warnings,
)
from grampus.state.runs import OltpResult, WorkloadResult


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([5.0], 0.0),
        ([0.0, 0.0], 0.0),
        ([5.0, 5.0, 5.0], 0.0),
        # Mean 10, sample variance (4 + 4) / 1 = 8.
        ([8.0, 12.0], 8**0.5 / 10),
    ],
)
def test_coefficient_of_variation(values: list[float], expected: float) -> None:
    assert coefficient_of_variation(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([100.0] * 12, None),
        ([100.0] * 6 + [114.0] * 6, None),
        ([100.0] * 6 + [130.0] * 6, "rose by 26%"),
        ([130.0] * 6 + [100.0] * 6, "fell by 26%"),
        # The middle second belongs to neither half.
        ([100.0, 100.0, 0.0, 100.0, 100.0], None),
        ([100.0, 900.0, 5.0], None),
        ([0.0] * 8, None),
    ],
)
def test_classify_steadiness(values: list[float], words: str | None) -> None:
    sentence = classify_steadiness(values, what="read-write on Ceph")
    if words is None:
        assert sentence is None
    else:
        assert sentence is not None
        assert sentence.startswith("read-write on Ceph was not in a steady state")
        assert words in sentence


def conditions(*, measure_s: int = 60, ratio: float = 2.5, busy: float | None = 0.1) -> list[str]:
    return decide_run_warnings(
        warmup_s=4,
        measure_s=measure_s,
        dataset_bytes=int(ratio * 1000),
        buffer_pool_bytes=1000,
        busy_cores_before=busy,
        cores=2,
    )


def test_a_run_always_says_that_it_has_no_interval() -> None:
    assert conditions() == [ONE_REPEAT]
    assert conditions(busy=None) == [ONE_REPEAT]


def test_conditions_that_limit_trust_are_said() -> None:
    assert "for 12 s after 4 s of warm-up" in conditions(measure_s=12)[1]
    assert "1.5 times the buffer pool" in conditions(ratio=1.4)[1]
    assert "busy before the run: 0.6 of 2 cores" in conditions(busy=0.6)[1]


def result(errors: int = 0) -> OltpResult:
    return OltpResult(
        tps=10,
        qps=200,
        latency_avg_ms=1,
        latency_p99_ms=2,
        latency_max_ms=3,
        transactions=120,
        errors=errors,
        measured_s=12,
        started_at_s=0,
        ended_at_s=12,
        tps_cov=0,
    )


def test_errors_and_lost_connections_are_said_by_arm() -> None:
    workload = WorkloadResult(name="read-write", title="mixed", ceph=result(), local=result(7))
    assert decide_result_warnings(workload, reconnects={}) == [
        "read-write on local disk had 7 errors that sysbench ignored (120 transactions): "
        "deadlocks or lock time-outs."
    ]
    (lost,) = decide_result_warnings(
        workload.model_copy(update={"local": result()}), reconnects={"ceph": 2, "local": 0}
    )
    assert lost == "read-write on Ceph lost and remade 2 connections."


def test_instances_that_differ_in_settings_are_not_passed_over() -> None:
    assert decide_setting_warnings({"a": "1"}, {"a": "1"}) == []
    (warning,) = decide_setting_warnings({"a": "1", "b": "2"}, {"a": "0"})
    assert "a is 1 on Ceph and 0 on local disk; b is 2 on Ceph and unset" in warning
