"""Runs of `paths` as JSON documents: one run (`bench show`), and two (`bench compare`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grampus.state.runs import PathsResult, PathsRun, RunArchive

NO_PAIRS = (
    "The rounds of two runs are not paired, so there is no confidence interval for these ratios: "
    "compare ways within one run where you can."
)

Results = Mapping[tuple[str, str], PathsResult]  # by measure and arm


def paths_document(run: PathsRun, archive: RunArchive) -> dict[str, Any]:
    """The document of `bench show`: the archived run, and where its raw data lie.

    `comparisons` is a list of {measure, arm, against, quantity, ratio, ratio_low, ratio_high,
    rounds, confidence}, `differences` one of {measure, arm, against, difference_us,
    difference_low_us, difference_high_us, rounds, confidence}, `targets` one of {name, title,
    measure, arm, against, quantity, at_least, at_most, value, value_low, value_high, rounds,
    reached, note}.
    """
    return {
        **run.model_dump(mode="json"),
        "dir": str(archive.run_dir(run.run_id)),
        "raw": "raw",
    }


def sample_rows(run: PathsRun) -> list[dict[str, str | int | float | None]]:
    """One row for each measure on each way in each round, all with the same keys."""
    of_run = {"run_id": run.run_id, "suite": run.suite, "scale": run.scale, "lab": run.lab}
    units = {one.name: one.unit for one in run.measures}
    return [
        {**of_run, **one.model_dump(mode="json"), "unit": units[one.measure]} for one in run.samples
    ]


def compare_paths_document(first: PathsRun, second: PathsRun) -> dict[str, Any]:
    """The document of `bench compare`: second over first, and what else differs between them.

    `results` is a list of {measure, arm, first, second, throughput_ratio, latency_avg_ratio,
    latency_p99_ratio}: null where the first is zero or unknown. `only_in_first` and
    `only_in_second` name points (MEASURE on ARM) that cannot be compared.
    """
    ours = {(one.measure, one.arm): one for one in first.results}
    theirs = {(one.measure, one.arm): one for one in second.results}
    return {
        "first": first.run_id,
        "second": second.run_id,
        "results": [_comparison(ours[key], theirs[key]) for key in ours if key in theirs],
        "only_in_first": _only(ours, theirs),
        "only_in_second": _only(theirs, ours),
        "differences": _differences(first, second),
        "statement": NO_PAIRS,
    }


def _only(these: Results, those: Results) -> list[str]:
    return [f"{measure} on {arm}" for measure, arm in these if (measure, arm) not in those]


def describe_verdict(reached: bool | None) -> str:
    """A target's verdict in one word."""
    return {True: "pass", False: "FAIL", None: "unknown"}[reached]


def _comparison(first: PathsResult, second: PathsResult) -> dict[str, Any]:
    return {
        "measure": first.measure,
        "arm": first.arm,
        "first": first.model_dump(mode="json"),
        "second": second.model_dump(mode="json"),
        "throughput_ratio": _ratio(second.throughput, first.throughput),
        "latency_avg_ratio": _ratio(second.latency_avg_us, first.latency_avg_us),
        "latency_p99_ratio": _ratio(second.latency_p99_us, first.latency_p99_us),
    }


def _differences(first: PathsRun, second: PathsRun) -> list[dict[str, str | None]]:
    before, after = _conditions(first), _conditions(second)
    return [
        {"group": key[0], "name": key[1], "first": before.get(key), "second": after.get(key)}
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _conditions(run: PathsRun) -> dict[tuple[str, str], str]:
    own = {
        "lab": run.lab,
        "host": run.host,
        "scale": run.scale,
        "rounds": str(run.rounds),
    }
    return {
        **{("run", name): value for name, value in own.items()},
        **{(setting.group, setting.name): setting.value for setting in run.environment},
    }


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
