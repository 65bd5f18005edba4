"""Dimensions are typed; what is wrong is answered with what there is."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from grampus.bench.matrix.cells import SCHEMA
from grampus.bench.matrix.dimensions import (
    DIMENSIONS,
    Point,
    canonical_point,
    concerns,
    default_of,
    parse_dimension,
    parse_value,
)
from grampus.bench.matrix.workloads import WORKLOADS, WorkloadName


def test_defaults_belong_to_the_schema_of_ids() -> None:
    # A cell's id leaves defaults out: whoever changes one of these raises SCHEMA as well, or old
    # results are taken for those of other cells.
    assert SCHEMA == 1
    assert {name: default_of(name) for name in DIMENSIONS} == {
        "workload": "point-select",
        "threads": 8,
        "rate": "none",
        "databases": 1,
        "volumes": 1,
        "clients": 1,
        "buffer_ratio": 2.5,
        "copies": 3,
        "erasure_code": "none",
        "objectstore": "bluestore",
        "media": "nvme",
        "wal_db_device": "none",
        "osds_per_device": 1,
        "osd_devices_per_host": 1,
        "osd_cores_per_host": "all",
        "osd_thread_cache_mib": 128,
        "osd_memory_target_mib": 1024,
        "osd_hosts": "all",
        "fill_percent": 0,
        "layout": "decoupled",
        "runtime": "container",
        "driver": "auto",
        "write_path": "direct",
        "journal_pool": "with-data",
        "profile": "grampus",
        "trx_commit": 1,
        "doublewrite": "default",
        "caches": "keep",
        "monitors": "all",
        "controller": "none",
    }


@pytest.mark.parametrize("name", DIMENSIONS)
def test_each_default_is_a_value_of_its_dimension(name: str) -> None:
    assert parse_value(name, default_of(name)) == default_of(name)
    assert DIMENSIONS[name].meaning


@pytest.mark.parametrize(
    ("dimension", "value", "parsed"),
    [
        ("workload", "tpcc-like", "tpcc-like"),
        ("threads", 1024, 1024),
        ("rate", 50, 50.0),
        ("rate", "none", "none"),
        ("buffer_ratio", 15, 15.0),
        ("erasure_code", "k4m2", "k4m2"),
        ("osd_cores_per_host", 10, 10),
        ("osd_cores_per_host", "all", "all"),
        ("trx_commit", 0, 0),
        ("fill_percent", 87, 87),
    ],
)
def test_values_are_read(dimension: str, value: object, parsed: object) -> None:
    found = parse_value(dimension, value)
    assert found == parsed
    assert type(found) is type(parsed)


@pytest.mark.parametrize(
    ("dimension", "value", "remedy"),
    [
        ("media", "nvm", "Did you mean 'nvme'? It takes nvme, ssd, hdd or own."),
        ("media", "tape", "It takes nvme, ssd, hdd or own."),
        ("media", ["hdd"], "It takes nvme, ssd, hdd or own."),
        ("threads", 0, "It takes a whole number from 1 to 1024."),
        ("threads", 8.0, "It takes a whole number from 1 to 1024."),
        ("threads", "8", "It takes a whole number from 1 to 1024."),
        ("threads", True, "It takes a whole number from 1 to 1024."),
        ("rate", 0, "It takes none or a number of transactions a second."),
        ("rate", None, "It takes none or a number of transactions a second."),
        ("rate", float("inf"), "It takes none or a number of transactions a second."),
        # YAML reads 15:1 as a number to the base 60.
        ("buffer_ratio", 901, "It takes a number from 0.1 to 100"),
        ("buffer_ratio", float("nan"), "It takes a number from 0.1 to 100"),
        ("erasure_code", "2+1", "It takes none, or data and coding chunks such as k2m1"),
        ("erasure_code", "k1m1", "such as k2m1 or k4m2"),
        ("trx_commit", 3, "It takes 0, 1 or 2."),
        ("trx_commit", True, "It takes 0, 1 or 2."),
        ("doublewrite", True, "It takes default, disabled, detect-only, single or parallel."),
        ("fill_percent", 100, "It takes a whole number from 0 to 95."),
    ],
)
def test_wrong_values_are_explained(dimension: str, value: object, remedy: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_value(dimension, value)
    context: dict[str, Any] = caught.value.context or {}
    assert context["problem"] == f"{value!r} is not a value of the dimension {dimension}."
    assert remedy in context["remedy"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("thread", "Did you mean 'threads'?"), ("zzz", "The dimensions are workload, "), (5, "The ")],
)
def test_unknown_dimensions_are_explained(name: object, remedy: str) -> None:
    with pytest.raises(PydanticCustomError) as caught:
        parse_dimension(name)
    assert remedy in (caught.value.context or {})["remedy"]


def test_a_point_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValidationError):
        Point.model_validate({"medium": "hdd"})


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_load_feels_the_cluster_and_itself(workload: WorkloadName) -> None:
    assert all(
        concerns(workload, name)
        for name, dimension in DIMENSIONS.items()
        if dimension.scope in ("cluster", "load")
    )


@pytest.mark.parametrize(
    ("workload", "dimension", "felt"),
    [
        ("update-index", "buffer_ratio", True),
        ("update-index", "databases", True),
        ("update-index", "volumes", False),
        ("update-index", "write_path", True),
        ("rados-write", "buffer_ratio", False),
        ("rados-write", "write_path", False),
        ("rados-write", "volumes", False),
        ("rbd-randwrite", "volumes", True),
        ("rbd-randwrite", "write_path", False),
        ("fio-randwrite", "write_path", True),
        ("fio-randwrite", "volumes", True),
        ("fio-randwrite", "trx_commit", False),
    ],
)
def test_a_load_feels_what_it_goes_through(
    workload: WorkloadName, dimension: str, felt: bool
) -> None:
    assert concerns(workload, dimension) is felt


def test_what_a_load_does_not_feel_goes_back_to_its_default() -> None:
    point = Point(workload="rados-write", buffer_ratio=15, databases=10, media="hdd")
    assert canonical_point(point) == Point(workload="rados-write", media="hdd")
    database = Point(workload="update-index", buffer_ratio=15, databases=10)
    assert canonical_point(database) == database
