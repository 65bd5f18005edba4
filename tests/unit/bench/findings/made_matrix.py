"""Runs of a made suite, trial by trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from grampus.bench.latency.histogram import histogram_of_latencies
from grampus.bench.latency.histogram_documents import render_histogram
from grampus.bench.matrix.cells import Cell, describe_point
from grampus.bench.matrix.expansion import expand_cells
from grampus.bench.matrix.loading import parse_matrix_suite
from grampus.bench.matrix.suite import MatrixSuite
from grampus.state.matrix_runs import Figures, MatrixRun, PlannedCell, PlannedTrial, Trial
from grampus.state.runs import Setting
from tests.unit.bench.matrix.made_suites import made_content

RUN_ID = "20260301-140509-made-layers-tiny"
# What a cell had in a round: figures, the reason why there are none, or None: not measured (yet).
Seen = Figures | str | None


def made_text(**changed: Any) -> str:
    """The text of the made suite (media hdd and nvme, threads 1 and 8; `hdd` is the baseline)."""
    return yaml.safe_dump(made_content(**changed), sort_keys=False)


def made_figures(operations_per_s: float, **changed: Any) -> Figures:
    """Of a closed loop on a database, whose queries are as many as its transactions."""
    figures: dict[str, Any] = {
        "loop": "closed",
        "measured_s": 6.0,
        "operations": round(6 * operations_per_s),
        "operations_per_s": operations_per_s,
        "queries_per_s": operations_per_s,
        "client_bound": "no",
        "steady": True,
        **changed,
    }
    return Figures(**figures)


def made_latency(*latencies_us: float) -> dict[str, Any]:
    """The document of a histogram of these latencies."""
    return render_histogram(
        histogram_of_latencies([round(one * 1000) for one in latencies_us], source="made")
    )


def made_matrix_run(
    seen: Callable[[Cell, int], Seen], *, text: str | None = None, **changed: Any
) -> tuple[MatrixSuite, MatrixRun, list[Trial]]:
    """The suite in `text`, a run of it at `tiny`, and what `seen` says of each cell and round.

    A cell with `not_runnable` (by its label) has no trials.
    """
    text = made_text() if text is None else text
    not_runnable: dict[str, str] = changed.pop("not_runnable", {})
    suite = parse_matrix_suite(text, source="made.yaml")
    cells = expand_cells(suite, "tiny")
    rounds = changed.pop("rounds", suite.scales["tiny"].rounds)
    runnable = [cell for cell in cells if describe_point(cell.point) not in not_runnable]
    content: dict[str, Any] = {
        "run_id": RUN_ID,
        "suite": suite.name,
        "suite_text": text,
        "scale": "tiny",
        "place": "lab default",
        "shape_only": True,
        "seed": 1,
        "rounds": rounds,
        "budget_s": None,
        "started_at_s": 1_772_373_909.0,
        "ended_at_s": 1_772_374_000.0,
        "warmup_s": 2,
        "measure_s": 6,
        "cells": tuple(
            PlannedCell(
                cell_id=cell.cell_id,
                label=describe_point(cell.point),
                point=cell.point.model_dump(),
                arm=_arm(suite, cell),
                not_runnable=not_runnable.get(describe_point(cell.point)),
            )
            for cell in cells
        ),
        "visits": tuple(
            PlannedTrial(cell_id=cell.cell_id, round=number)
            for number in range(1, rounds + 1)
            for cell in runnable
        ),
        "environment": (Setting(group="Ceph", name="version", value="20.1"),),
        **changed,
    }
    run = MatrixRun(**content)
    by_id = {cell.cell_id: cell for cell in cells}
    trials = []
    for at, planned in enumerate(run.visits):
        what = seen(by_id[planned.cell_id], planned.round)
        if what is None:
            continue
        trials.append(
            Trial(
                cell_id=planned.cell_id,
                round=planned.round,
                started_at_s=run.started_at_s + 10 * at,
                ended_at_s=run.started_at_s + 10 * at + 9.5,  # of which 8 warm up and measure
                figures=what if isinstance(what, Figures) else None,
                marked=what if isinstance(what, str) else None,
            )
        )
    return suite, run, trials


def _arm(suite: MatrixSuite, cell: Cell) -> str | None:
    point = cell.point.model_dump()
    for name, setting in suite.arms.items():
        if all(point[key] == value for key, value in setting.items()):
            return name
    return None
