from __future__ import annotations

import math

import pytest

from grampus.report.comparison import (
    compare_workload,
    decide_ratio,
    describe_errors,
    describe_run,
    describe_trust,
    describe_workload,
)

from .made_runs import made_result, made_run, made_workload


@pytest.mark.parametrize(
    ("ceph", "local", "ratio"),
    [
        (23.0, 100.0, 0.23),
        (0.0, 100.0, 0.0),
        (100.0, 0.0, None),
        (0.0, 0.0, None),
        (-1.0, 100.0, None),
        (1.0, -1.0, None),
        (None, 1.0, None),
        (1.0, math.nan, None),
        (math.inf, 1.0, None),
        (1e308, 1e-308, None),
    ],
)
def test_ratio_only_of_sane_figures(ceph, local, ratio):
    assert decide_ratio(ceph, local) == ratio


def test_a_latency_of_zero_was_not_measured():
    comparison = compare_workload(
        made_workload(made_result(latency_p99_ms=0.0), made_result(latency_avg_ms=0.0))
    )
    assert comparison.latency_p99 is None
    assert comparison.latency_avg is None
    assert comparison.latency_max == 1.0


@pytest.mark.parametrize(
    ("ceph", "local", "sentence"),
    [
        (
            {"tps": 23.0, "latency_p99_ms": 492.0},
            {},
            "Ceph delivers 23% of the local disk's transactions; p99 latency is 4.1 times as long.",
        ),
        (
            {"tps": 130.0, "latency_p99_ms": 60.0},
            {},
            "Ceph delivers 1.30 times the local disk's transactions; p99 latency is 50% as long.",
        ),
        (
            {"tps": 100.4, "latency_p99_ms": 120.2},
            {},
            "Ceph delivers as many transactions as the local disk; p99 latency is as long.",
        ),
        (
            {"tps": 0.0},
            {},
            "Ceph finished no transaction in the measuring time; p99 latency is as long.",
        ),
        (
            {},
            {"tps": 0.0, "latency_p99_ms": 0.0},
            "The local disk finished no transaction in the measuring time; "
            "p99 latency cannot be compared, because a figure is missing.",
        ),
        (
            {"tps": 0.0},
            {"tps": 0.0},
            "Neither Ceph nor the local disk finished a transaction in the measuring time; "
            "p99 latency is as long.",
        ),
        (
            {"tps": math.nan},
            {"latency_p99_ms": math.nan},
            "The throughput of the two cannot be compared, because a figure is missing; "
            "p99 latency cannot be compared, because a figure is missing.",
        ),
    ],
)
def test_what_ceph_costs_in_plain_words(ceph, local, sentence):
    workload = made_workload(made_result(**ceph), made_result(**local))
    assert describe_workload(workload) == sentence


def workload_with(tps: float, p99_ms: float = 240.0):
    return made_workload(made_result(tps=tps, latency_p99_ms=p99_ms), made_result())


@pytest.mark.parametrize(
    ("workloads", "sentence"),
    [
        ([], "This run holds no finished workload."),
        (
            [workload_with(3), workload_with(23, 492)],
            "Ceph delivers between 3.0% and 23% of the local disk's transactions "
            "in the 2 workloads of this run; p99 latency is between 2.0 and 4.1 times as long.",
        ),
        (
            [workload_with(23), workload_with(23)],
            "Ceph delivers 23% of the local disk's transactions "
            "in the 2 workloads of this run; p99 latency is 2.0 times as long.",
        ),
        (
            [workload_with(23), workload_with(math.nan, 0)],
            "Ceph delivers 23% of the local disk's transactions "
            "in the 1 of 2 workloads that can be compared.",
        ),
        (
            [workload_with(math.nan), workload_with(math.nan)],
            "The throughput of Ceph and the local disk cannot be compared in any workload.",
        ),
    ],
)
def test_headline(workloads, sentence):
    assert describe_run(workloads) == sentence


def test_headline_of_one_workload_is_its_own_sentence():
    workload = workload_with(23)
    assert describe_run([workload]) == describe_workload(workload)


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [
        ((15.0, 15.0), "one run with 15 s measured for each workload and disk"),
        ((14.0, 15.0), "one run with 14 s to 15 s measured for each workload and disk"),
        ((0.0, math.nan), "one run without repeats, so they have no interval"),
    ],
)
def test_trust_names_length_and_that_there_is_no_interval(measured, sentence):
    ceph, local = (made_result(measured_s=seconds) for seconds in measured)
    run = made_run().run.model_copy(update={"workloads": (made_workload(ceph, local),)})
    assert sentence in describe_trust(run)
    assert "no interval" in describe_trust(run)


def test_errors_are_named_by_workload_and_disk():
    clean = made_workload(made_result(), made_result(), name="clean")
    failed = made_workload(made_result(errors=1200), made_result(errors=1), name="failed")
    assert describe_errors([clean]) is None
    assert describe_errors([clean, failed]) == (
        "The driver counted and ignored errors: "
        "1,200 on Ceph in failed and 1 on the local disk in failed."
    )
