"""Suites that try the benchmark system itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.matrix.expansion import environments, estimate_s, expand_cells
from grampus.bench.matrix.loading import load_matrix_suites

CHECKS = Path(__file__).parents[4] / "suites" / "checks"


def test_every_check_is_a_suite_of_a_short_tiny_form():
    suites = load_matrix_suites(CHECKS)
    assert [suite.name for suite in suites] == [
        "controller-cost",
        "environments-alike",
        "harness-cost",
        "injected-bottlenecks",
    ]
    for suite in suites:
        assert estimate_s(suite, "tiny") < 900


@pytest.mark.parametrize("scale", ["tiny", "small", "full"])
def test_arms_that_are_alike_have_environments_of_their_own_for_each_round(scale):
    suite = next(one for one in load_matrix_suites(CHECKS) if one.name == "environments-alike")
    cells = expand_cells(suite, scale)
    assert len(environments(cells)) == len(cells) == 2
    assert len({cell.point.model_copy(update={"osd_thread_cache_mib": 1}) for cell in cells}) == 1
    assert suite.scales[scale].environments == "each-round"


@pytest.mark.parametrize("scale", ["tiny", "small", "full"])
def test_the_cost_of_a_controller_compares_nothing_else(scale):
    suite = next(one for one in load_matrix_suites(CHECKS) if one.name == "controller-cost")
    cells = expand_cells(suite, scale)
    assert [cell.point.controller for cell in cells] == ["none", "serving"]
    assert len({cell.point.model_copy(update={"controller": "none"}) for cell in cells}) == 1


@pytest.mark.parametrize(
    ("scale", "workloads"),
    [
        ("tiny", ["point-select", "update-index"]),
        ("small", ["point-select"]),
        ("full", ["point-select", "update-index"]),
    ],
)
def test_the_cost_of_the_harness_compares_nothing_but_the_monitors(scale, workloads):
    suite = next(one for one in load_matrix_suites(CHECKS) if one.name == "harness-cost")
    cells = expand_cells(suite, scale)
    assert [(cell.point.workload, cell.point.monitors) for cell in cells] == [
        (workload, monitors) for workload in workloads for monitors in ("none", "all")
    ]
