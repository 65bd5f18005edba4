"""A cell's id is the same everywhere for the same cell, and another one for any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grampus.bench.matrix.cells import Cell, describe_point, render_canonical
from grampus.bench.matrix.dimensions import DIMENSIONS, Point, default_of

SOURCE = Path(__file__).parents[4] / "src"
FIELDS: dict[str, Any] = {
    "point": {"workload": "update-index", "media": "hdd", "buffer_ratio": 15},
    "warmup_s": 2,
    "measure_s": 6,
    "dataset_bytes": 1024,
    "tables": 4,
    "distribution": "uniform",
    "block_bytes": None,
    "versions": (("ceph", "16.2"),),
}
CELL = Cell.model_validate(FIELDS)
# Another value than CELL's for each dimension.
OTHER: dict[str, Any] = {
    "workload": "point-select",
    "threads": 9,
    "rate": 50,
    "databases": 2,
    "volumes": 2,
    "clients": 2,
    "buffer_ratio": 4,
    "copies": 2,
    "erasure_code": "k2m1",
    "objectstore": "filestore",
    "media": "ssd",
    "wal_db_device": "optane",
    "osds_per_device": 4,
    "osd_devices_per_host": 2,
    "osd_cores_per_host": 10,
    "osd_thread_cache_mib": 32,
    "osd_memory_target_mib": 2048,
    "osd_hosts": 2,
    "fill_percent": 14,
    "layout": "hyperconverged",
    "runtime": "vm",
    "driver": "volumed",
    "write_path": "cache",
    "journal_pool": "own",
    "profile": "defaults",
    "trx_commit": 0,
    "doublewrite": "parallel",
    "caches": "osd",
    "monitors": "none",
    "controller": "serving",
}


def test_the_id_is_what_it_was_when_results_were_kept_under_it() -> None:
    assert render_canonical(CELL) == (
        '{"dataset_bytes":1024,"distribution":"uniform","measure_s":6,"point":{"buffer_ratio":15.0,'
        '"media":"hdd","workload":"update-index"},"schema":1,"tables":4,'
        '"versions":[["ceph","16.2"]],"warmup_s":2}'
    )
    assert CELL.cell_id == "dc7f96086c69bdc8"


def test_the_id_is_the_same_in_another_process() -> None:
    program = (
        "import json, sys\n"
        "from grampus.bench.matrix.cells import Cell\n"
        "print(Cell.model_validate_json(sys.stdin.read()).cell_id)\n"
    )
    for seed in ("1", "2"):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            input=CELL.model_dump_json(),
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout.strip() == CELL.cell_id


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_each_dimension_changes_the_id(dimension: str) -> None:
    point = {**FIELDS["point"], dimension: OTHER[dimension]}
    assert Cell.model_validate({**FIELDS, "point": point}).cell_id != CELL.cell_id


@pytest.mark.parametrize(
    "changed",
    [
        {"warmup_s": 3},
        {"measure_s": 7},
        {"dataset_bytes": 2048},
        {"tables": 5},
        {"tables": None},
        {"distribution": "pareto"},
        {"block_bytes": 4096},
        {"versions": ()},
        {"versions": (("ceph", "16.2"), ("mysql", "9.7"))},
        {"versions": (("ceph", "16"),)},
    ],
)
def test_each_other_condition_changes_the_id(changed: dict[str, Any]) -> None:
    assert Cell.model_validate({**FIELDS, **changed}).cell_id != CELL.cell_id


def test_all_the_changed_ids_differ_from_one_another() -> None:
    ids = {
        Cell.model_validate({**FIELDS, "point": {**FIELDS["point"], name: OTHER[name]}}).cell_id
        for name in DIMENSIONS
    }
    assert len(ids) == len(DIMENSIONS)


def test_a_default_that_is_written_out_changes_nothing() -> None:
    point = {**FIELDS["point"], "threads": default_of("threads"), "buffer_ratio": 15.0}
    again = Cell.model_validate({**FIELDS, "point": point})
    assert again == CELL
    assert {again: 1}[CELL] == 1
    assert again.cell_id == CELL.cell_id


def test_ids_can_name_files() -> None:
    assert len(CELL.cell_id) == 16
    assert set(CELL.cell_id) <= set("0123456789abcdef")


def test_a_point_is_described_by_what_is_unusual() -> None:
    assert describe_point(Point()) == "point-select"
    assert describe_point(CELL.point) == "update-index, buffer_ratio 15.0, media hdd"
