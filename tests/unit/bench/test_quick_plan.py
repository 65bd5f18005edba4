"""What a run will do is decided before anything is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.quick_plan import BenchOptions, QuickPlan, decide_quick_plan
from grampus.bench.quick_suite import load_suite
from grampus.core.errors import RefusedError, UsageError

SUITE = load_suite(Path(__file__).parents[3] / "suites", "quick")
MIB = 1024 * 1024


def plan(
    *,
    pool_mib: float = 48,
    volume_mib: float = 2048,
    options: BenchOptions | None = None,
) -> QuickPlan:
    return decide_quick_plan(
        SUITE,
        buffer_pool_bytes=int(pool_mib * MIB),
        volume_size_bytes=int(volume_mib * MIB),
        options=options or BenchOptions(),
    )


@pytest.mark.parametrize(
    ("pool_mib", "rows"),
    # 2.5 x 48 MiB / 248 bytes / 4 tables = 126,844 rows, rounded up to a thousand.
    [(48, 127_000), (0.1, 1000), (96, 254_000)],
)
def test_rows_follow_from_the_buffer_pool(pool_mib: float, rows: int) -> None:
    decided = plan(pool_mib=pool_mib)
    assert decided.rows_per_table == rows
    assert decided.dataset_bytes == 4 * rows * 248


def test_arms_alternate_from_workload_to_workload() -> None:
    assert [(cell.workload.name, cell.arm) for cell in plan().cells] == [
        ("point-select", "ceph"),
        ("point-select", "local"),
        ("update-index", "local"),
        ("update-index", "ceph"),
        ("read-write", "ceph"),
        ("read-write", "local"),
    ]


def test_a_warm_run_of_the_quick_suite_fits_in_110_seconds() -> None:
    assert plan().estimated_s <= 110


def test_options_replace_the_suites_values() -> None:
    decided = plan(options=BenchOptions(threads=2, warmup_s=0, measure_s=5, fresh_data=True))
    assert (decided.threads, decided.warmup_s, decided.measure_s) == (2, 0, 5)
    assert decided.fresh_data


@pytest.mark.parametrize(
    "options",
    [BenchOptions(threads=0), BenchOptions(measure_s=2), BenchOptions(warmup_s=-1)],
)
def test_options_out_of_range_are_wrong_use(options: BenchOptions) -> None:
    with pytest.raises(UsageError, match="out of range"):
        plan(options=options)


# 4 x 127,000 rows x 485 bytes = 235 MiB, which is 70 % of 335.6 MiB.
@pytest.mark.parametrize(("volume_mib", "refused"), [(335, True), (337, False)])
def test_a_volume_is_never_filled_beyond_its_limit(volume_mib: int, refused: bool) -> None:
    if not refused:
        assert plan(volume_mib=volume_mib).rows_per_table == 127_000
        return
    with pytest.raises(RefusedError) as caught:
        plan(volume_mib=volume_mib)
    assert caught.value.code == "volume-too-small"
    assert "235" in caught.value.problem
    assert "Resize" in caught.value.remedy
