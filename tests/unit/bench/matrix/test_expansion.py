"""A suite expands to the same cells in the same order, and says what it compares and takes."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.matrix.cells import describe_point
from grampus.bench.matrix.expansion import (
    CELL_OVERHEAD_S,
    compared_cells,
    environments,
    estimate_s,
    expand_cells,
)
from tests.unit.bench.matrix.made_suites import made_suite

SCALE = {
    "warmup_s": 2,
    "measure_s": 6,
    "rounds": 3,
    "dataset_bytes": "64M",
    "environment_s": 30,
}
SCALES = {"tiny": SCALE, "small": SCALE, "full": SCALE}
MBPS = {
    "name": "x",
    "says": "x",
    "test": "ratio",
    "quantity": "mb-per-s",
    "arm": "nvme",
    "at_least": 1,
}


def _points(**changed: Any) -> list[str]:
    cells = expand_cells(made_suite(**changed), "tiny")
    return [describe_point(cell.point).removeprefix("update-index") for cell in cells]


@pytest.mark.parametrize(
    ("changed", "points"),
    [
        ({}, [", threads 1, media hdd", ", media hdd", ", threads 1", ""]),
        # The order is that of the file, not of the dimensions' names.
        (
            {"dimensions": {"threads": [8, 1], "media": ["nvme", "hdd"]}},
            ["", ", media hdd", ", threads 1", ", threads 1, media hdd"],
        ),
        (
            {
                "exclusions": [{"when": {"media": ["hdd"], "threads": [1]}, "because": "x"}],
                "conclusions": [{**MBPS, "at": {"threads": 8}}],
            },
            [", media hdd", ", threads 1", ""],
        ),
        # One that names a dimension alone leaves out all that agree with it.
        (
            {"exclusions": [{"when": {"threads": [1]}, "because": "x"}], "conclusions": [MBPS]},
            [", media hdd", ""],
        ),
        # One of another scale leaves out nothing here.
        (
            {
                "exclusions": [
                    {"when": {"threads": [1]}, "because": "x", "scales": ["tiny"]},
                    {"when": {"threads": [8]}, "because": "x", "scales": ["small", "full"]},
                ],
                "conclusions": [MBPS],
            },
            [", media hdd", ""],
        ),
        # Several leave out what any of them does.
        (
            {
                "dimensions": {"media": ["hdd", "ssd", "nvme"], "threads": [1, 8]},
                "exclusions": [
                    {"when": {"media": ["ssd"]}, "because": "x"},
                    {"when": {"media": ["hdd", "nvme"], "threads": [1]}, "because": "x"},
                ],
                "conclusions": [MBPS],
            },
            [", media hdd", ""],
        ),
        # A scale chooses among the values, and keeps their order.
        (
            {
                "scales": {
                    **SCALES,
                    "tiny": {**SCALE, "only": {"media": ["nvme", "hdd"], "threads": [8]}},
                },
                "conclusions": [MBPS],
            },
            [", media hdd", ""],
        ),
        (
            {"scales": {**SCALES, "tiny": {**SCALE, "fixed": {"copies": 2}}}},
            [
                ", threads 1, copies 2, media hdd",
                ", copies 2, media hdd",
                ", threads 1, copies 2",
                ", copies 2",
            ],
        ),
    ],
)
def test_expansion_follows_the_file(changed: dict[str, Any], points: list[str]) -> None:
    assert _points(**changed) == points


def test_a_scale_s_fixed_value_goes_before_the_suite_s() -> None:
    fixed = {"workload": "update-index", "copies": 1}
    suite = made_suite(fixed=fixed, scales={**SCALES, "tiny": {**SCALE, "fixed": {"copies": 2}}})
    assert {cell.point.copies for cell in expand_cells(suite, "tiny")} == {2}
    assert {cell.point.copies for cell in expand_cells(suite, "small")} == {1}


def test_what_a_workload_does_not_feel_makes_no_second_cell() -> None:
    suite = made_suite(
        dimensions={
            "workload": ["rados-write", "update-index"],
            "trx_commit": [1, 0],
            "media": ["hdd", "nvme"],
        },
        fixed=None,
        conclusions=[MBPS],
    )
    points = [describe_point(cell.point) for cell in expand_cells(suite, "tiny")]
    assert points == [
        "rados-write, media hdd",
        "rados-write",
        "update-index, media hdd",
        "update-index",
        "update-index, media hdd, trx_commit 0",
        "update-index, trx_commit 0",
    ]


def test_a_cell_holds_only_what_its_load_needs() -> None:
    (database, *_) = expand_cells(made_suite(), "tiny")
    assert (database.tables, database.distribution, database.block_bytes) == (4, "uniform", None)
    suite = made_suite(
        fixed={"workload": "rados-write"}, conclusions=[MBPS], dataset={"block_bytes": "4M"}
    )
    (pool, *_) = expand_cells(suite, "tiny")
    assert (pool.tables, pool.distribution, pool.block_bytes) == (None, None, 4 * 1024**2)


def test_versions_are_sorted_whatever_their_order_in_the_file() -> None:
    one = made_suite(versions={"mysql": "9.7", "ceph": "20.2"})
    other = made_suite(versions={"ceph": "20.2", "mysql": "9.7"})
    assert expand_cells(one, "tiny") == expand_cells(other, "tiny")
    assert expand_cells(one, "tiny")[0].versions == (("ceph", "20.2"), ("mysql", "9.7"))


def test_names_and_rounds_are_no_part_of_a_cell() -> None:
    other = made_suite(
        name="another", title="Another", scales={**SCALES, "tiny": {**SCALE, "rounds": 9}}
    )
    assert expand_cells(other, "tiny") == expand_cells(made_suite(), "tiny")


@pytest.mark.parametrize(
    ("conclusion", "compared"),
    [
        (0, [["threads 1", "threads 1, media hdd"], ["", "media hdd"]]),
        (1, [["threads 1, media hdd", "media hdd"], ["threads 1", ""]]),
    ],
)
def test_conclusions_compare_cells_that_differ_in_nothing_else(
    conclusion: int, compared: list[list[str]]
) -> None:
    suite = made_suite()
    found = compared_cells(suite, "tiny", suite.conclusions[conclusion])
    assert [
        [describe_point(cell.point).removeprefix("update-index").removeprefix(", ") for cell in one]
        for one in found
    ] == compared


def test_a_conclusion_looks_only_at_what_it_names() -> None:
    suite = made_suite(conclusions=[{**MBPS, "at": {"threads": 8}}])
    ((nvme, hdd),) = compared_cells(suite, "tiny", suite.conclusions[0])
    assert (nvme.point.media, hdd.point.media) == ("nvme", "hdd")
    assert nvme.point.threads == hdd.point.threads == 8


def test_another_baseline_can_be_named() -> None:
    arms = {name: {"media": name} for name in ("hdd", "ssd", "nvme")}
    suite = made_suite(
        dimensions={"media": list(arms), "threads": [8]},
        arms=arms,
        conclusions=[{**MBPS, "against": "ssd"}],
    )
    ((arm, against),) = compared_cells(suite, "tiny", suite.conclusions[0])
    assert (arm.point.media, against.point.media) == ("nvme", "ssd")


def test_environments_are_what_the_cluster_must_be_made_anew_for() -> None:
    suite = made_suite(
        dimensions={"media": ["hdd", "nvme"], "threads": [1, 8], "trx_commit": [0, 1]}
    )
    assert len(expand_cells(suite, "tiny")) == 8
    assert len(environments(expand_cells(suite, "tiny"))) == 2


@pytest.mark.parametrize(
    ("scale", "expected_s"),
    [
        ("tiny", 3 * 4 * (2 + 6 + 10) + 2 * 30),
        ("full", 5 * 4 * (300 + 300 + 10) + 2 * 600),
    ],
)
def test_the_estimate_counts_rounds_cells_and_environments(scale: Any, expected_s: int) -> None:
    assert CELL_OVERHEAD_S == 10
    assert estimate_s(made_suite(), scale) == expected_s
