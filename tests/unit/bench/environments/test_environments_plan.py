"""Names and sizes of environments, and when one that is there is enough."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.bench.environments.environment_plan import (
    EnvironmentPlan,
    decide_chunk_bytes,
    decide_environment,
    decide_grown,
    decide_memory_bytes,
    decide_pool_bytes,
    environment_name,
    member_names,
    merge_environments,
)
from grampus.bench.environments.settings import base_parameters
from grampus.bench.matrix.workloads import WorkloadName
from grampus.core.errors import RefusedError
from grampus.core.names import require_name
from grampus.core.units import GIB, MIB
from grampus.databases.settings import decide_server_settings
from tests.unit.bench.environments.world import make_cell


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({"threads": 64}, True),
        ({"workload": "point-select"}, True),
        ({"trx_commit": 0}, True),
        ({"doublewrite": "disabled"}, True),
        ({"databases": 3}, True),
        ({"buffer_ratio": 5.0}, True),
        ({"rate": 100.0}, True),
        ({"copies": 2}, False),
        ({"write_path": "journal"}, False),
        ({"write_path": "journal", "journal_pool": "own"}, False),
        ({"dataset_bytes": 128 * MIB}, False),
        ({"tables": 3}, False),
        ({"workload": "rados-write"}, False),
        ({"runtime": "vm"}, False),
    ],
)
def test_cells_share_what_a_trial_cannot_change(other: dict[str, Any], same: bool) -> None:
    base = {"workload": "update-index"}
    name = environment_name(make_cell(**base))
    assert (environment_name(make_cell(**{**base, **other})) == name) is same


def test_names_can_be_those_of_databases() -> None:
    name = environment_name(make_cell())
    members = member_names(name, 2)
    assert members == (f"{name}-1", f"{name}-2")
    for member in members:
        assert require_name("database", member) == member
    assert name.startswith("bench-")
    assert len(name) == len("bench-") + 8


def test_a_database_has_room_for_its_data_and_memory_for_its_pool() -> None:
    plan = decide_environment(
        make_cell(dataset_bytes=512 * MIB, tables=4, threads=128, databases=3)
    )
    assert plan.count == 3
    assert plan.rows_per_table == pytest.approx(512 * MIB / 248 / 4, rel=0.001)
    assert plan.size_bytes > 2 * GIB
    settings = decide_server_settings("mysql", plan.size_bytes, plan.memory_bytes, 1.0)
    assert settings.buffer_pool_bytes >= 512 * MIB / 2.5
    assert settings.max_connections >= plan.max_connections > 128


def test_memory_is_the_least_that_is_enough() -> None:
    memory_bytes = decide_memory_bytes(300 * MIB, 50, size_bytes=GIB)
    less = decide_server_settings("mysql", GIB, memory_bytes - 64 * MIB, 1.0)
    assert less.buffer_pool_bytes < 300 * MIB
    assert decide_memory_bytes(5 * MIB, 10, size_bytes=GIB) == 256 * MIB


@pytest.mark.parametrize(
    ("workload", "statements", "more_mib"),
    [("mix-75-25", 30 * 9 * 32, 320), ("update-index", 30 * 32, 64), ("point-select", 30 * 32, 64)],
)
def test_prepared_statements_have_memory_beside(
    workload: WorkloadName, statements: int, more_mib: int
) -> None:
    """448 MiB were not enough for 32 clients of the mix with 30 tables."""
    plan = decide_environment(make_cell(workload=workload, threads=32, tables=30))
    assert plan.statements == statements
    few = decide_environment(make_cell(workload="update-index", threads=32, tables=1))
    assert plan.memory_bytes - few.memory_bytes == (more_mib - 64) * MIB
    assert int(base_parameters(plan)["max_prepared_stmt_count"]) == 16_382
    many = plan.model_copy(update={"statements": 34_560})
    assert int(base_parameters(many)["max_prepared_stmt_count"]) == 34_560


@pytest.mark.parametrize(
    ("pool_bytes", "chunk_bytes"),
    [(5 * MIB, MIB), (512 * MIB, MIB), (513 * MIB, 2 * MIB), (20 * GIB, 64 * MIB)],
)
def test_a_pool_is_changed_in_steps_that_it_has_few_of(pool_bytes: int, chunk_bytes: int) -> None:
    assert decide_chunk_bytes(pool_bytes) == chunk_bytes


def test_the_buffer_pool_is_the_data_over_the_ratio() -> None:
    assert decide_pool_bytes(make_cell(dataset_bytes=64 * MIB, buffer_ratio=4.0)) == 16 * MIB
    with pytest.raises(RefusedError, match="InnoDB has no buffer pool as small"):
        decide_pool_bytes(make_cell(dataset_bytes=64 * MIB, buffer_ratio=20.0))


def test_an_image_has_whole_objects_and_each_client_one_of_its_own() -> None:
    cell = make_cell(workload="rbd-write", volumes=2, clients=3, dataset_bytes=65 * MIB)
    plan = decide_environment(cell)
    assert (plan.count, plan.size_bytes, plan.write_path) == (6, 68 * MIB, "direct")


def test_an_environment_is_made_for_the_most_that_a_cell_needs() -> None:
    few = decide_environment(make_cell(databases=3, threads=1))
    many = decide_environment(make_cell(databases=1, threads=200))
    (merged,) = merge_environments([few, many]).values()
    assert merged.count == 3
    assert merged.memory_bytes == many.memory_bytes > few.memory_bytes
    assert merged.max_connections == many.max_connections


def test_an_environment_that_is_there_grows_in_number_alone() -> None:
    found = decide_environment(make_cell(databases=2, threads=200))
    less = decide_environment(make_cell(databases=1, threads=1))
    more = decide_environment(make_cell(databases=5, threads=1))
    assert decide_grown(found, less) == found
    grown = decide_grown(found, more)
    assert grown is not None
    assert (grown.count, grown.memory_bytes) == (5, found.memory_bytes)
    assert decide_grown(less, found) is None, "its databases are too small"


def test_objects_of_a_pool_have_the_size_of_an_operation() -> None:
    plan = decide_environment(make_cell(workload="rados-read", clients=4, copies=2))
    assert (plan.count, plan.block_bytes, plan.copies) == (4, 4 * MIB, 2)


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ({}, None),
        ({"runtime": "vm", "driver": "librbd"}, None),
        ({"runtime": "vm"}, "its driver is librbd"),
        ({"runtime": "vm", "driver": "librbd", "write_path": "journal"}, "write path direct"),
        ({"driver": "librbd"}, "attaches no volume"),
        ({"workload": "fio-read", "runtime": "vm", "driver": "librbd"}, "fio runs on the hosts"),
    ],
)
def test_a_virtual_machine_has_its_image_by_librbd_and_nothing_else_has(
    point: dict[str, Any], said: str | None
) -> None:
    cell = make_cell(**point)
    if said is None:
        assert decide_environment(cell).runtime == cell.point.runtime
        return
    with pytest.raises(RefusedError, match=said):
        decide_environment(cell)


def test_an_environment_recorded_before_there_were_runtimes_is_in_containers() -> None:
    document = decide_environment(make_cell()).model_dump(exclude={"runtime"})
    assert EnvironmentPlan.model_validate(document).runtime == "container"
