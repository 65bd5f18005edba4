"""From a suite to its cells, the pairs and series that it compares, and the time that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.conclusions import Conclusion
from grampus.bench.matrix.dimensions import (
    DIMENSIONS,
    Point,
    Value,
    canonical_point,
    value_of,
)
from grampus.bench.matrix.suite import Exclusion, MatrixSuite, ScaleName
from grampus.bench.matrix.workloads import WORKLOADS

# What a cell may take beside its load and its measuring: drop caches, wait for calm, collect.
CELL_OVERHEAD_S = 10

Combination = Mapping[str, Value]


def expand_cells(suite: MatrixSuite, scale: ScaleName) -> tuple[Cell, ...]:
    """The cells of `suite` at `scale`, each once.

    In the order of the file: the first dimension varies slowest, values in their order. What is
    the same cell twice, since its workload does not feel what differs, stands where it came first.
    """
    cells = [_make_cell(suite, scale, one) for one in combinations(suite, scale)]
    return tuple(dict.fromkeys(cells))


def combinations(suite: MatrixSuite, scale: ScaleName) -> list[Combination]:
    """Values for the suite's dimensions, without those excluded, in the order of the file."""
    only = suite.scales[scale].only
    # A scale chooses among the values; their order is that of the dimension.
    lists = [
        [value for value in values if name not in only or value in only[name]]
        for name, values in suite.dimensions.items()
    ]
    made = (dict(zip(suite.dimensions, values, strict=True)) for values in product(*lists))
    exclusions = [one for one in suite.exclusions if one.scales is None or scale in one.scales]
    return [one for one in made if not any(_matches(out, one) for out in exclusions)]


def compared_cells(
    suite: MatrixSuite, scale: ScaleName, conclusion: Conclusion
) -> tuple[tuple[Cell, ...], ...]:
    """What `conclusion` compares: for a ratio pairs of (arm, against), else series along a
    dimension, each in the order of its values and with two cells at least."""
    chosen = [one for one in combinations(suite, scale) if _agrees(one, conclusion.at)]
    if conclusion.test == "ratio":
        against = conclusion.against or suite.baseline or ""
        return _comparable(suite, scale, _pairs(suite, chosen, conclusion.arm, against))
    return _comparable(suite, scale, _grouped(chosen, {conclusion.along}))


def paired_cells(
    suite: MatrixSuite, scale: ScaleName, arm: str, against: str
) -> tuple[tuple[Cell, ...], ...]:
    """All pairs of cells (of `arm`, of `against`) that differ in nothing but these two arms."""
    pairs = _pairs(suite, combinations(suite, scale), arm, against)
    return _comparable(suite, scale, pairs)


def environments(cells: Sequence[Cell]) -> tuple[tuple[Value, ...], ...]:
    """What the cells need of the cluster: the different sets of values that cannot be changed
    under a running one, in the order of their first cell."""
    names = [name for name, dimension in DIMENSIONS.items() if dimension.scope == "cluster"]
    found = (tuple(value_of(cell.point, name) for name in names) for cell in cells)
    return tuple(dict.fromkeys(found))


def estimate_s(suite: MatrixSuite, scale: ScaleName) -> int:
    """Seconds that a run takes, from what the suite declares: each cell in each round, with 10 s
    beside its warm-up and measuring, and each environment as often as it is made."""
    cells = expand_cells(suite, scale)
    declared = suite.scales[scale]
    each_s = declared.warmup_s + declared.measure_s + CELL_OVERHEAD_S
    made = declared.rounds if declared.environments == "each-round" else 1
    making_s = made * len(environments(cells)) * declared.environment_s
    return declared.rounds * len(cells) * each_s + making_s


def _pairs(
    suite: MatrixSuite, chosen: Sequence[Combination], arm: str, against: str
) -> list[list[Combination]]:
    settings = (suite.arms[arm], suite.arms[against])
    return [
        [one for setting in settings for one in group if _agrees(one, setting)]
        for group in _grouped(chosen, set(suite.arms[arm]))
    ]


def _comparable(
    suite: MatrixSuite, scale: ScaleName, groups: Sequence[Sequence[Combination]]
) -> tuple[tuple[Cell, ...], ...]:
    found = [tuple(_make_cell(suite, scale, one) for one in group) for group in groups]
    # The same cell twice is nothing to compare.
    return tuple(
        dict.fromkeys(cells for cells in found if len(cells) > 1 and len(set(cells)) == len(cells))
    )


def _make_cell(suite: MatrixSuite, scale: ScaleName, combination: Combination) -> Cell:
    declared = suite.scales[scale]
    point = canonical_point(Point.model_validate({**suite.fixed, **declared.fixed, **combination}))
    of_database = WORKLOADS[point.workload].target == "database"
    return Cell(
        point=point,
        warmup_s=declared.warmup_s,
        measure_s=declared.measure_s,
        dataset_bytes=declared.dataset_bytes,
        tables=suite.dataset.tables if of_database else None,
        distribution=suite.dataset.distribution if of_database else None,
        block_bytes=None if of_database else suite.dataset.block_bytes,
        versions=tuple(sorted(suite.versions.items())),
    )


def _matches(exclusion: Exclusion, combination: Combination) -> bool:
    return all(combination[name] in values for name, values in exclusion.when.items())


def _agrees(combination: Combination, setting: Mapping[str, Value]) -> bool:
    return all(combination[name] == value for name, value in setting.items())


def _grouped(chosen: Sequence[Combination], apart: set[str]) -> list[list[Combination]]:
    """Combinations that differ in nothing but the dimensions `apart`, together."""
    groups: dict[tuple[Value, ...], list[Combination]] = {}
    for one in chosen:
        key = tuple(value for name, value in one.items() if name not in apart)
        groups.setdefault(key, []).append(one)
    return list(groups.values())
