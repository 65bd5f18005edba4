"""What a run of a matrix suite measures, and in which order.

Cells that are compared stand side by side in each round, in an order that favours none of them
(`statistics/arm_order.py`). All of them are measured once before any is measured again, so a run
that ends early has as many rounds of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from grampus.bench.matrix.capabilities import why_not_runnable
from grampus.bench.matrix.cells import Cell, describe_point
from grampus.bench.matrix.dimensions import Point, Value, concerns, value_of
from grampus.bench.matrix.expansion import environments, expand_cells
from grampus.bench.matrix.loading import parse_matrix_suite
from grampus.bench.matrix.suite import SCALES, MatrixSuite, ScaleName
from grampus.bench.statistics.arm_order import decide_arm_orders
from grampus.bench.trials.place import CellPlace
from grampus.core.errors import RefusedError, UsageError
from grampus.state.matrix_runs import MatrixRun, PlannedCell, PlannedTrial, Trial


def plan_run(
    suite: MatrixSuite,
    suite_text: str,
    scale: ScaleName,
    place: CellPlace,
    *,
    run_id: str,
    seed: int,
    rounds: int | None,
    budget_s: float | None,
    started_at_s: float,
) -> MatrixRun:
    """The run of `suite` (read from `suite_text`) at `place`, of as many rounds as its scale says;
    with `rounds`, of so many, which are all made.

    Asks the place for what it can do and what it is; changes nothing. Cells that it cannot run have
    their reason and no trials. Raises UsageError for less than one round or no time at all.
    """
    if rounds is not None and rounds < 1:
        raise UsageError(f"{rounds} rounds are none.", "Ask for 1 or more.")
    if budget_s is not None and budget_s <= 0:
        raise UsageError("There is no time in this budget.", "Give it minutes, such as 10m.")
    declared = suite.scales[scale]
    cells = expand_cells(suite, scale)
    capabilities = place.capabilities()
    reasons = {cell.cell_id: why_not_runnable(cell, capabilities) for cell in cells}
    runnable = [cell for cell in cells if reasons[cell.cell_id] is None]
    first_look = declared.first_look if rounds is None else None
    rounds = declared.rounds if rounds is None else rounds
    return MatrixRun(
        run_id=run_id,
        suite=suite.name,
        suite_text=suite_text,
        scale=scale,
        place=place.name,
        shape_only=place.shape_only,
        seed=seed,
        rounds=rounds,
        first_look=first_look,
        environments=declared.environments,
        budget_s=budget_s,
        started_at_s=started_at_s,
        warmup_s=declared.warmup_s,
        measure_s=declared.measure_s,
        cells=tuple(_plan_cell(suite, cell, reasons[cell.cell_id]) for cell in cells),
        visits=decide_trials(runnable, alike=alike_dimensions(suite), rounds=rounds, seed=seed),
        environment=tuple(place.facts(runnable)),
    )


def decide_trials(
    cells: Sequence[Cell], *, alike: Collection[str], rounds: int, seed: int
) -> tuple[PlannedTrial, ...]:
    """Round after round over all groups of cells that agree in the dimensions `alike`.

    Groups that need the same environments of the cluster follow each other, so that a place which
    can hold only one at a time changes as seldom as the comparisons allow.
    """
    groups = _by_environment(decide_groups(cells, alike))
    orders = [_order_group(group, rounds=rounds, seed=seed) for group in groups]
    return tuple(
        PlannedTrial(cell_id=cell_id, round=number)
        for number in range(1, rounds + 1)
        for order in orders
        for cell_id in order[number - 1]
    )


def alike_dimensions(suite: MatrixSuite) -> frozenset[str]:
    """The dimensions in which cells that are compared agree: all that the suite varies but those of
    its arms, or, without arms, those along which its conclusions go."""
    apart = {name for setting in suite.arms.values() for name in setting}
    if not apart:
        apart = {one.along for one in suite.conclusions if one.test != "ratio"}
    return frozenset(suite.dimensions) - apart


def decide_groups(cells: Sequence[Cell], alike: Collection[str]) -> list[list[Cell]]:
    """Cells that agree in the dimensions `alike`, together, in the order of their first."""
    names = sorted(alike)
    groups: dict[tuple[Value, ...], list[Cell]] = {}
    for cell in cells:
        key = tuple(value_of(cell.point, name) for name in names)
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def cells_of(run: MatrixRun) -> dict[str, Cell]:
    """The cells of a recorded run by id, made anew from the suite as it was.

    Raises RefusedError (`run-outdated`) when this version of Grampus makes other cells of it.
    """
    suite = parse_matrix_suite(run.suite_text, source=f"the suite of the run {run.run_id}")
    scale = next((name for name in SCALES if name == run.scale), None)
    cells = {} if scale is None else {cell.cell_id: cell for cell in expand_cells(suite, scale)}
    if {planned.cell_id for planned in run.cells} - set(cells):
        raise RefusedError(
            f"The run {run.run_id} was begun by a version of Grampus whose cells meant something "
            "else.",
            "Begin a new run, or resume this one with that version.",
            code="run-outdated",
        )
    return cells


def missing_trials(run: MatrixRun, trials: Sequence[Trial]) -> list[PlannedTrial]:
    """What is still to be measured, in the order of the run."""
    made = {(trial.cell_id, trial.round) for trial in trials}
    return [one for one in run.visits if (one.cell_id, one.round) not in made]


def _plan_cell(suite: MatrixSuite, cell: Cell, reason: str | None) -> PlannedCell:
    return PlannedCell(
        cell_id=cell.cell_id,
        label=describe_point(cell.point),
        point=cell.point.model_dump(),
        arm=_decide_arm(suite.arms, cell.point),
        not_runnable=reason,
    )


def _decide_arm(arms: Mapping[str, Mapping[str, Value]], point: Point) -> str | None:
    """The arm that `point` belongs to; none where its workload feels nothing of what arms set."""
    for name, setting in arms.items():
        agrees = all(value_of(point, key) == value for key, value in setting.items())
        if agrees and any(concerns(point.workload, key) for key in setting):
            return name
    return None


def _by_environment(groups: Sequence[list[Cell]]) -> list[list[Cell]]:
    """`groups` with those that need the same environments behind the first of them."""
    needed = [frozenset(environments(group)) for group in groups]
    places = {which: place for place, which in reversed(list(enumerate(needed)))}
    ordered = sorted(zip(needed, groups, strict=True), key=lambda one: places[one[0]])
    return [group for _, group in ordered]


def _order_group(group: Sequence[Cell], *, rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """A seed for each group: with one for all, groups of a size would go in the same orders, and
    whatever else happens in that rhythm would side with the same arms everywhere."""
    ids = [cell.cell_id for cell in group]
    digest = hashlib.sha256(f"{seed}:{ids[0]}".encode()).digest()
    return decide_arm_orders(ids, rounds=rounds, seed=int.from_bytes(digest[:8], "big"))
