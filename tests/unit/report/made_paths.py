"""A made-up run of `paths`, small and the same every time."""

from __future__ import annotations

from grampus.state.runs import (
    PathsArm,
    PathsComparison,
    PathsDifference,
    PathsMeasure,
    PathsResult,
    PathsRun,
    PathsSample,
    PathsTarget,
    Setting,
)

READ, WRITE, FSYNC = "16k-randread-qd1", "1m-write-qd16", "4k-write-fsync"


def made_result(arm: str, measure: str, throughput: float, **changed: object) -> PathsResult:
    values: dict[str, object] = {
        "arm": arm,
        "measure": measure,
        "rounds": 5,
        "operations": 5000,
        "throughput": throughput,
        "latency_avg_us": 312.5,
        "latency_p50_us": 300.0,
        "latency_p99_us": 900.0,
        "latency_p999_us": 4100.0,
        "cpu_us_per_operation": 86.25,
    }
    return PathsResult.model_validate(values | changed)


def made_comparison(measure: str, arm: str, against: str, *ratios: float) -> PathsComparison:
    """`ratios` are the median, the lowest and the highest."""
    ratio, low, high = ratios
    return PathsComparison(
        measure=measure,
        arm=arm,
        against=against,
        quantity="latency-avg" if measure.endswith("-latency-avg") else "throughput",
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        rounds=5,
        confidence=0.9375,
    )


def made_target(**changed: object) -> PathsTarget:
    values: dict[str, object] = {
        "name": "librbd-throughput",
        "title": "throughput against fio's rbd engine",
        "measure": READ,
        "arm": "volumed-uring-raw",
        "against": "rbd",
        "quantity": "ratio",
        "at_least": 0.9,
        "at_most": None,
        "value": 0.97,
        "value_low": 0.91,
        "value_high": 1.02,
        "rounds": 5,
        "reached": True,
    }
    return PathsTarget.model_validate(values | changed)


def made_write_paths_run(run_id: str = "20260301-140509-paths-small") -> PathsRun:
    """A run of two write paths: one load, and what it costs."""
    writes, cost = "16k-randwrite-uniform", "osd-cpu-us-per-write"
    no_latency: dict[str, object] = dict.fromkeys(
        ("latency_avg_us", "latency_p50_us", "latency_p99_us", "latency_p999_us")
    )
    cheaper = made_comparison(cost, "journal", "direct", 0.25, 0.2, 0.3)
    return made_paths_run(
        run_id,
        order=(("direct", "journal"),) * 5,
        measures=(
            PathsMeasure(name=writes, title="16K random writes, sustained", unit="iops"),
            PathsMeasure(name=cost, title="CPU of OSDs", unit="us-per-operation", better="less"),
        ),
        arms=(
            PathsArm(name="direct", title="volumed, write path direct", detail=""),
            PathsArm(name="journal", title="volumed, write path journal", detail=""),
        ),
        samples=(),
        results=(
            made_result("direct", writes, 1800.0),
            made_result("journal", writes, 1900.0),
            made_result("direct", cost, 800.0, cpu_us_per_operation=None, **no_latency),
            made_result("journal", cost, 200.0, cpu_us_per_operation=None, **no_latency),
        ),
        comparisons=(
            made_comparison(writes, "journal", "direct", 1.06, 1.01, 1.1),
            cheaper.model_copy(update={"quantity": "cost"}),
        ),
        differences=(),
        targets=(
            made_target(
                name="journal-cost",
                title="journal, CPU against direct",
                measure=cost,
                arm="journal",
                against="direct",
                at_least=None,
                at_most=0.3,
                value=0.25,
                value_low=0.2,
                value_high=0.3,
            ),
        ),
    )


def made_paths_run(run_id: str = "20260301-140509-paths-tiny", **changed: object) -> PathsRun:
    arms = {
        "rbd": "fio's rbd engine",
        "volumed-uring-raw": "volumed, io_uring",
        "qsd-raw": "qemu-storage-daemon",
    }
    values: dict[str, object] = {
        "run_id": run_id,
        "suite": "paths",
        "lab": "default",
        "host": "h1",
        "scale": "tiny",
        "seed": 7,
        "rounds": 5,
        "started_at_s": 1_772_373_909.25,
        "ended_at_s": 1_772_374_429.25,
        "order": (("rbd", "volumed-uring", "qsd"), ("qsd", "rbd", "volumed-uring")),
        "measures": (
            PathsMeasure(name=READ, title="16K random reads at queue depth 1", unit="iops"),
            PathsMeasure(name=WRITE, title="1M sequential writes", unit="bytes-per-s"),
            PathsMeasure(name=FSYNC, title="4K random writes, an fsync after each", unit="iops"),
        ),
        "arms": tuple(
            PathsArm(name=name, title=title, detail=f"{name} was asked for")
            for name, title in arms.items()
        ),
        "samples": (
            PathsSample(
                round=1,
                arm="rbd",
                measure=READ,
                started_at_s=1_772_373_950.0,
                measured_s=0.5,
                operations=1600,
                throughput=3200.0,
                latency_avg_us=312.5,
                cpu_us_per_operation=86.25,
            ),
        ),
        "results": (
            made_result("qsd-raw", READ, 1733.0, cpu_us_per_operation=None),
            made_result("rbd", READ, 3186.0),
            made_result("volumed-uring-raw", READ, 3086.0),
            made_result("volumed-uring-raw", WRITE, 415 * 1024**2),
            made_result("rbd", FSYNC, 580.0, flush_p50_us=2.5, flush_p99_us=4.0, flush_p999_us=9.0),
        ),
        "comparisons": (
            made_comparison(READ, "volumed-uring-raw", "rbd", 0.97, 0.91, 1.02),
            made_comparison(READ, "volumed-uring-raw", "qsd-raw", 1.78, 1.6, 2.2),
            made_comparison(READ, "qsd-raw", "rbd", 0.54, 0.5, 0.61),
            made_comparison(f"{READ}-latency-avg", "volumed-uring-raw", "rbd", 1.03, 1.01, 1.09),
        ),
        "differences": (
            PathsDifference(
                measure=READ,
                arm="volumed-uring-raw",
                against="rbd",
                difference_us=12.0,
                difference_low_us=3.0,
                difference_high_us=28.0,
                rounds=5,
                confidence=0.9375,
            ),
        ),
        "targets": (
            made_target(),
            made_target(
                name="added-latency",
                title="latency added",
                quantity="added-latency-us",
                at_least=None,
                at_most=40.0,
                value=51.2,
                value_low=20.0,
                value_high=88.0,
                reached=False,
            ),
            made_target(
                name="mysql-update-index",
                title="sysbench update-index",
                measure="update-index",
                value=None,
                value_low=None,
                value_high=None,
                rounds=0,
                reached=None,
                note="not measured",
            ),
        ),
        "environment": (Setting(group="versions", name="fio", value="fio-3.41"),),
        "warnings": ("The intervals hold the true median with 93.8%, not 95%.",),
    }
    return PathsRun.model_validate(values | changed)
