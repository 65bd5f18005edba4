"""Runs as JSON documents: one run (`bench show`) and two side by side (`bench compare`)."""

from __future__ import annotations

from typing import Any

from grampus.state.runs import ArmName, OltpResult, Run, RunArchive, WorkloadResult

ARMS: tuple[ArmName, ArmName] = ("ceph", "local")
NO_INTERVAL = (
    "Each run measured each point once, so there is no confidence interval for these ratios: "
    "repeat both runs before taking a difference for real."
)


def show_document(run: Run, archive: RunArchive) -> dict[str, Any]:
    """The document of `bench show`.

    `workloads` is a list of {name, title, ceph: {tps, qps, latency_avg_ms, latency_p99_ms,
    ...}, local: {...}, ceph_to_local_tps_ratio} (null when local TPS is zero); `samples` says
    where the second-by-second data lie, with file names relative to `dir`.
    """
    directory = archive.run_dir(run.run_id)
    return {
        "run_id": run.run_id,
        "suite": run.suite,
        "lab": run.lab,
        "database": run.database,
        "flavour": run.flavour,
        "started_at_s": run.started_at_s,
        "ended_at_s": run.ended_at_s,
        "threads": run.threads,
        "warmup_s": run.warmup_s,
        "measure_s": run.measure_s,
        "dataset_bytes": run.dataset_bytes,
        "buffer_pool_bytes": run.buffer_pool_bytes,
        "workloads": [_workload_document(workload) for workload in run.workloads],
        "samples": {
            "dir": str(directory),
            "files": [
                {
                    "workload": workload.name,
                    "arm": arm,
                    "file": str(
                        archive.samples_file(run.run_id, workload.name, arm).relative_to(directory)
                    ),
                }
                for workload in run.workloads
                for arm in ARMS
            ],
            "resources": archive.resources_file(run.run_id).name,
            "raw": "raw",
        },
        "environment": [setting.model_dump() for setting in run.environment],
        "warnings": list(run.warnings),
    }


def compare_document(first: Run, second: Run) -> dict[str, Any]:
    """The document of `bench compare`: second over first, and what else differs between them.

    `results` is a list of {workload, arm, first, second, tps_ratio, qps_ratio,
    latency_avg_ratio, latency_p99_ratio}: a ratio above 1 is more (for latency: slower), null
    where the first is zero. `only_in_first` and `only_in_second` name workloads that cannot be
    compared; `differences` is a list of {group, name, first, second}.
    """
    theirs = {workload.name: workload for workload in second.workloads}
    ours = {workload.name for workload in first.workloads}
    return {
        "first": first.run_id,
        "second": second.run_id,
        "results": [
            _comparison(workload, theirs[workload.name], arm)
            for workload in first.workloads
            if workload.name in theirs
            for arm in ARMS
        ],
        "only_in_first": sorted(ours - set(theirs)),
        "only_in_second": sorted(set(theirs) - ours),
        "differences": _differences(first, second),
        "statement": NO_INTERVAL,
    }


def _workload_document(workload: WorkloadResult) -> dict[str, Any]:
    return {
        "name": workload.name,
        "title": workload.title,
        "ceph": workload.ceph.model_dump(),
        "local": workload.local.model_dump(),
        "ceph_to_local_tps_ratio": _ratio(workload.ceph.tps, workload.local.tps),
    }


def _comparison(first: WorkloadResult, second: WorkloadResult, arm: ArmName) -> dict[str, Any]:
    before, after = _result(first, arm), _result(second, arm)
    return {
        "workload": first.name,
        "arm": arm,
        "first": before.model_dump(),
        "second": after.model_dump(),
        "tps_ratio": _ratio(after.tps, before.tps),
        "qps_ratio": _ratio(after.qps, before.qps),
        "latency_avg_ratio": _ratio(after.latency_avg_ms, before.latency_avg_ms),
        "latency_p99_ratio": _ratio(after.latency_p99_ms, before.latency_p99_ms),
    }


def _differences(first: Run, second: Run) -> list[dict[str, str | None]]:
    before, after = _conditions(first), _conditions(second)
    return [
        {"group": group, "name": name, "first": before.get(key), "second": after.get(key)}
        for key in {**before, **after}
        if before.get(key) != after.get(key)
        for group, name in [key]
    ]


def _conditions(run: Run) -> dict[tuple[str, str], str]:
    own = {
        "suite": run.suite,
        "lab": run.lab,
        "database": run.database,
        "flavour": run.flavour,
        "threads": str(run.threads),
        "warmup_s": f"{run.warmup_s:g}",
        "measure_s": f"{run.measure_s:g}",
        "dataset_bytes": str(run.dataset_bytes),
        "buffer_pool_bytes": str(run.buffer_pool_bytes),
    }
    return {
        **{("run", name): value for name, value in own.items()},
        **{(setting.group, setting.name): setting.value for setting in run.environment},
    }


def _result(workload: WorkloadResult, arm: ArmName) -> OltpResult:
    return workload.ceph if arm == "ceph" else workload.local


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None
