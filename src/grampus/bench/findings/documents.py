"""The documents of runs of matrix suites, for programs: one run (`bench show`), two (`bench
compare`), and what a suite is (`bench list`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from grampus.bench.catalog import Catalog, Experiment, PublishedFigure, Source
from grampus.bench.findings.cells import CellFinding, CellLatency, Spread, decide_cells
from grampus.bench.findings.comparisons import Comparisons, decide_comparisons
from grampus.bench.findings.conclusions import ConclusionFinding, decide_conclusions
from grampus.bench.findings.reasons import explain
from grampus.bench.matrix.dimensions import DIMENSIONS
from grampus.bench.matrix.expansion import estimate_s, expand_cells
from grampus.bench.matrix.suite import SCALES, MatrixSuite
from grampus.state.matrix_runs import MatrixRun, Trial

SHAPE_ONLY = (
    "This place is shared or emulated: its figures tell shapes and ratios, not what the hardware "
    "can do."
)
OVER_TIME = (
    "The two runs were made one after the other, not interleaved: what else changed in between is "
    "in these ratios, and the spread does not tell it. Compare arms within one run where you can."
)
_LEFT_OUT: Any = {
    "figures": {
        "latency": True,
        "seconds": True,
        "why": {"throughput": True, "layers": {"__all__": {"over_time"}}},
    }
}
NOT_OUR_HARDWARE = (
    "The source's figures are those of its hardware: compare their ratios and shapes with ours, "
    "not the figures."
)


def suite_document(suite: MatrixSuite) -> dict[str, Any]:
    """The entry of `bench list`: {name, title, source, experiment, dimensions, scales}.

    `dimensions` has the values by name, `scales` {cells, rounds, first_look, estimated_s} by
    scale.
    """
    return {
        "name": suite.name,
        "title": suite.title,
        "source": suite.source,
        "experiment": suite.experiment,
        "dimensions": {name: list(values) for name, values in suite.dimensions.items()},
        "scales": {
            scale: {
                "cells": len(expand_cells(suite, scale)),
                "rounds": suite.scales[scale].rounds,
                "first_look": suite.scales[scale].first_look,
                "estimated_s": estimate_s(suite, scale),
            }
            for scale in SCALES
        },
    }


def matrix_document(
    run: MatrixRun, suite: MatrixSuite, trials: Sequence[Trial], catalog: Catalog, directory: str
) -> dict[str, Any]:
    """The document of `bench show`: the run, and all that follows from its trials.

    `cells`, `comparisons` and `conclusions` are lists of the findings' fields; `source` is null
    for a suite without one. `overhead` ({median_s, longest_s, visits, change_s, calm_s}: what a
    trial took besides its load) is null before any. Of the trials the latencies and what is second
    by second stay in the archive (`directory`).

    Raises GrampusError with code `latency-document` for a latency that cannot be read.
    """
    points = {cell.cell_id: dict(cell.point) for cell in run.cells}
    cells = decide_cells(run, trials)
    comparisons = decide_comparisons(suite, run, trials)
    planned = {(one.cell_id, one.round) for one in run.visits}
    overhead = decide_overhead(run, trials)
    done = planned & {(one.cell_id, one.round) for one in trials}
    return {
        **run.model_dump(mode="json", exclude={"cells", "visits"}),
        "title": suite.title,
        "question": suite.question,
        "remarks": list(suite.remarks),
        "statement": SHAPE_ONLY if run.shape_only else None,
        "environments_said": describe_environments(run),
        "visits_planned": len(planned),
        "visits_done": len(done),
        "overhead": None if overhead is None else asdict(overhead),
        "cells": [{**cell_document(one), "point": points[one.cell_id]} for one in cells],
        "comparisons": _comparison_documents(comparisons),
        "comparisons_line": comparisons.line,
        "conclusions": [
            conclusion_document(replace(one, why=explain(one, cells)))
            for one in decide_conclusions(suite, run, trials)
        ],
        "source": source_document(suite, catalog),
        "visits": [one.model_dump(mode="json", exclude=_LEFT_OUT) for one in trials],
        "dir": directory,
    }


def describe_environments(run: MatrixRun) -> str | None:
    """Whether intervals count by how much the environments of cells differ, as a sentence; None
    where all cells share one.
    """
    if run.environments == "each-round":
        return (
            "Databases, pools, and OSDs that the place does not have itself were created again for "
            "each round: the intervals include the difference between environments that are alike."
        )
    measured = [one for one in run.cells if one.not_runnable is None]
    # A profile of settings is changed under cells that share all else.
    names = [
        name
        for name, dimension in DIMENSIONS.items()
        if dimension.scope == "cluster" and name != "profile"
    ]
    if len({tuple(one.point.get(name) for name in names) for one in measured}) < 2:
        return None
    return (
        "Cells with different OSDs, copies or layouts use different environments, the same ones in "
        "all rounds. Two environments that are alike can differ by some percent, and the intervals "
        "do not include that."
    )


def cell_document(cell: CellFinding) -> dict[str, Any]:
    """A cell's finding as plain values."""
    return {**asdict(cell), "latency": _latency_document(cell.latency)}


def conclusion_document(conclusion: ConclusionFinding) -> dict[str, Any]:
    """A conclusion's finding as plain values."""
    return asdict(conclusion)


def find_experiment(suite: MatrixSuite, catalog: Catalog) -> tuple[Source, Experiment] | None:
    """What the suite repeats; None for one of a user's own, or that the catalog does not have."""
    for source in catalog.sources:
        for experiment in source.experiments:
            if (source.name, experiment.name) == (suite.source, suite.experiment):
                return source, experiment
    return None


def source_document(suite: MatrixSuite, catalog: Catalog) -> dict[str, Any] | None:
    """What the source says of the experiment, with its conditions and figures.

    `of_first` of a figure is its ratio to the first of its quantity; null for the first itself,
    and for what is a ratio already.
    """
    found = find_experiment(suite, catalog)
    if found is None:
        return None
    source, experiment = found
    return {
        "name": source.name,
        "title": source.title,
        "publisher": source.publisher,
        "date": source.date,
        "experiment": experiment.name,
        "question": experiment.question,
        "conclusion": experiment.conclusion,
        "shown_in": list(experiment.shown_in),
        "conditions": {**source.conditions, **experiment.conditions},
        "figures": _figure_documents(experiment.figures),
        "statement": NOT_OUR_HARDWARE,
    }


def compare_matrix_document(
    first: MatrixRun,
    first_trials: Sequence[Trial],
    second: MatrixRun,
    second_trials: Sequence[Trial],
) -> dict[str, Any]:
    """The document of `bench compare`: cell by cell, the second over the first.

    `results` is a list of {cell_id, name, first, second, ratio, ratio_low, ratio_high, reason}:
    the ratio is that of the geometric means of operations a second, its low and high those that
    single rounds could have. With a `reason` the ratios are null. `only_in_first` and
    `only_in_second` name cells.
    """
    ours = {one.cell_id: one for one in decide_cells(first, first_trials)}
    theirs = {one.cell_id: one for one in decide_cells(second, second_trials)}
    return {
        "first": first.run_id,
        "second": second.run_id,
        "results": [_comparison(one, theirs[key]) for key, one in ours.items() if key in theirs],
        "only_in_first": [one.name for key, one in ours.items() if key not in theirs],
        "only_in_second": [one.name for key, one in theirs.items() if key not in ours],
        "differences": _differences(first, second),
        "statement": OVER_TIME,
    }


def _comparison(first: CellFinding, second: CellFinding) -> dict[str, Any]:
    reason = _why_no_ratio(first, second)
    before, after = first.operations_per_s, second.operations_per_s
    ratio, low, high = None, None, None
    if reason is None and before is not None and after is not None:
        ratio, low, high = _ratios(before, after)
    return {
        "cell_id": first.cell_id,
        "name": first.name,
        "first": cell_document(first),
        "second": cell_document(second),
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "reason": reason,
    }


def _ratios(before: Spread, after: Spread) -> tuple[float | None, float | None, float | None]:
    return (
        after.mean / before.mean if before.mean else None,
        after.low / before.high if before.high else None,
        after.high / before.low if before.low else None,
    )


def _why_no_ratio(first: CellFinding, second: CellFinding) -> str | None:
    for which, one in (("first", first), ("second", second)):
        if one.no_figure is not None:
            return f"The {which} run has no figure: {one.no_figure}"
        if one.client_bound == "yes":
            return f"In the {which} run the load generator was the limit."
    return None


def _differences(first: MatrixRun, second: MatrixRun) -> list[dict[str, str | None]]:
    before, after = _conditions(first), _conditions(second)
    return [
        {"group": key[0], "name": key[1], "first": before.get(key), "second": after.get(key)}
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]


def _conditions(run: MatrixRun) -> dict[tuple[str, str], str]:
    own: Mapping[str, object] = {
        "place": run.place,
        "scale": run.scale,
        "rounds": run.rounds,
        # The whole text would say no more to a reader than that it is another one.
        "suite file (SHA-256)": hashlib.sha256(run.suite_text.encode()).hexdigest()[:12],
    }
    return {
        **{("run", name): str(value) for name, value in own.items()},
        **{(setting.group, setting.name): setting.value for setting in run.environment},
    }


def _latency_document(latency: CellLatency | None) -> dict[str, Any] | None:
    if latency is None:
        return None
    return {
        "rounds": latency.rounds,
        "operations": latency.operations,
        "average_us": latency.average_us,
        "percentiles": [
            {
                **one.to_document(),
                "interval_low_us": by_count.to_document()["low_us"],
                "interval_high_us": by_count.to_document()["high_us"],
            }
            for one, by_count in zip(latency.percentiles, latency.sampled, strict=True)
        ],
        "note": latency.note,
    }


def _comparison_documents(comparisons: Comparisons) -> list[dict[str, Any]]:
    return [asdict(one) for one in comparisons.found]


def _figure_documents(figures: Sequence[PublishedFigure]) -> list[dict[str, Any]]:
    firsts: dict[tuple[str, str], float] = {}
    documents = []
    for figure in figures:
        key = (figure.quantity, figure.unit)
        of_first = None
        if figure.value and figure.unit not in ("times", "fraction", "count"):
            of_first = figure.value / firsts[key] if key in firsts else None
            firsts.setdefault(key, figure.value)
        documents.append({**figure.model_dump(mode="json"), "of_first": of_first})
    return documents


@dataclass(frozen=True)
class Overhead:
    """Seconds of a trial beside its load: what is prepared, started, gathered.

    Of them, in medians: `change_s` until all was as the cell asks, `calm_s` until nothing was
    written any more of what came before. None: a run that did not record it.
    """

    median_s: float
    longest_s: float
    visits: int  # so named in documents
    change_s: float | None = None
    calm_s: float | None = None


def decide_overhead(run: MatrixRun, trials: Sequence[Trial]) -> Overhead | None:
    """Of the trials with figures, None without one.

    Of older trials, which did not record their load, all counts that is not of the planned
    warm-up and measuring; those that measured longer, to become steady, are left out.
    """
    planned_s = run.warmup_s + run.measure_s
    found: list[float] = []
    spent = []
    for one in trials:
        if one.figures is None:
            continue
        took_s = one.ended_at_s - one.started_at_s
        if one.figures.spent is not None:
            spent.append(one.figures.spent)
            found.append(took_s - one.figures.spent.load_s)
        elif one.figures.measured_s <= planned_s:
            found.append(took_s - planned_s)
    if not found:
        return None
    return Overhead(
        median(found),
        max(found),
        len(found),
        change_s=median(one.change_s for one in spent) if spent else None,
        calm_s=median(one.calm_s for one in spent) if spent else None,
    )
