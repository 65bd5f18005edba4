"""Made runs of matrix suites with their findings, as a page gets both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from grampus.bench.catalog import load_catalog
from grampus.bench.findings.documents import matrix_document
from grampus.bench.matrix.cells import Cell as SuiteCell
from grampus.report.matrix.findings import (
    Findings,
    FoundCell,
    FoundPercentile,
    FoundSpread,
    Latency,
    Value,
)
from grampus.state.matrix_runs import Figures, MatrixRun, Trial, TrialSecond
from tests.unit.bench.findings.made_matrix import (
    Seen,
    made_figures,
    made_latency,
    made_matrix_run,
)
from tests.unit.bench.layers.made_why import made_why

CATALOG = Path(__file__).parents[3] / "catalog"
Made = tuple[MatrixRun, list[Trial], dict[str, Any]]


def made_seconds(operations_per_s: float, seconds: int = 6) -> tuple[TrialSecond, ...]:
    """Each second a little more or less than the one before."""
    return tuple(
        TrialSecond(at_s=1_772_373_909 + at, operations=operations_per_s + at % 3, errors=0)
        for at in range(seconds)
    )


def seen_by_default(cell: SuiteCell, number: int) -> Seen:
    """Flash twice as fast as disks; a marked round, a marked cell, and one that is client-bound."""
    point = cell.point
    if point.media == "nvme" and point.threads == 1 and number == 2:
        return "An OSD was down."
    if point.media == "nvme" and point.threads == 64:
        return "The client died (signal 9)."
    rate = (100.0 if point.media == "hdd" else 200.0) * point.threads
    bound = point.media == "nvme" and point.threads == 8
    return figures_of(
        rate * (1 + 0.01 * number),
        client_bound="yes" if bound else "no",
        evidence=("It used all of its cores.",) if bound else (),
        loop="closed" if point.rate == "none" else "open",
    )


def figures_of(operations_per_s: float, **changed: Any) -> Figures:
    """Figures with seconds and latencies: 98 of 1 ms, one of 5 and one of 9."""
    content = {
        "latency": made_latency(*[1000.0] * 980, *[5000.0] * 10, *[9000.0] * 10),
        "seconds": made_seconds(operations_per_s),
        "why": made_why("client" if changed.get("client_bound") == "yes" else "osd-device"),
        **changed,
    }
    return made_figures(operations_per_s, **content)


def made_findings(seen: Callable[[SuiteCell, int], Seen] = seen_by_default, **changed: Any) -> Made:
    """A run of the made suite, its trials, and the document of its findings."""
    suite, run, trials = made_matrix_run(seen, **changed)
    return run, trials, matrix_document(run, suite, trials, load_catalog(CATALOG), "/runs/made")


def made_spread(mean: float) -> FoundSpread:
    return FoundSpread(mean=mean, low=mean * 0.9, high=mean * 1.1, rounds=3)


def made_cell(point: dict[str, Value], rate: float | None = 100.0, **changed: Any) -> FoundCell:
    """A cell at `point` with `rate` operations a second; None: without a figure."""
    name = ", ".join(f"{key} {value}" for key, value in point.items())
    content: dict[str, Any] = {
        "cell_id": name,
        "name": name,
        "label": name,
        "arm": None,
        "loop": None if rate is None else "closed",
        "point": {"workload": "update-index", "rate": "none", **point},
        "planned": 3,
        "measured": 0 if rate is None else 3,
        "marked": 3 if rate is None else 0,
        "missing": 0,
        "reasons": (),
        "no_figure": "An OSD was down." if rate is None else None,
        "operations_per_s": None if rate is None else made_spread(rate),
        "queries_per_s": None if rate is None else made_spread(rate),
        "mb_per_s": None,
        "iops": None,
        "latency": None if rate is None else made_cell_latency(),
        "errors": 0,
        "reconnects": 0,
        "steady": None,
        "unsteady_reasons": (),
        "client_bound": "no",
        "evidence": (),
        "notes": (),
        **changed,
    }
    return FoundCell(**content)


def made_cell_latency(operations: int = 100_000, **changed: float | None) -> Latency:
    """Percentiles from 1 ms (p50) up; `p99=None` has only bounds."""
    known = {"p50": 1000.0, "p90": 2000.0, "p99": 5000.0, "p99.99": 20_000.0, **changed}
    return Latency(
        rounds=3,
        operations=operations,
        average_us=1200.0,
        percentiles=tuple(
            FoundPercentile(
                percent=float(name[1:]),
                latency_us=at_us,
                low_us=600.0 if at_us is None else at_us * 0.99,
                high_us=56_000.0 if at_us is None else at_us * 1.01,
            )
            for name, at_us in known.items()
        ),
        note="Latencies are exact to 1.3 %.",
    )


def found_in(made: Made) -> Findings:
    return Findings.model_validate(made[2])
