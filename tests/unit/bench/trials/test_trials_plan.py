"""Which cells are measured, and that the order favours none of those that are compared."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.dimensions import value_of
from grampus.bench.matrix.expansion import compared_cells, environments, expand_cells
from grampus.bench.matrix.loading import load_matrix_suites
from grampus.bench.matrix.suite import MatrixSuite
from grampus.bench.trials.plan import alike_dimensions, cells_of, decide_groups, decide_trials
from grampus.core.errors import GrampusError, RefusedError, UsageError
from tests.unit.bench.matrix.made_suites import made_suite
from tests.unit.bench.trials.made_place import OFFERS, World

SUITES = load_matrix_suites(Path(__file__).parents[4] / "suites" / "sources")
NO_ARMS = {
    "arms": None,
    "baseline": None,
    "conclusions": [
        {
            "name": "grows",
            "says": "It grows.",
            "test": "trend",
            "quantity": "tps",
            "along": "threads",
            "direction": "rises",
            "tolerance": 0.1,
        }
    ],
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _orders(suite: MatrixSuite, *, rounds: int, seed: int = 5) -> list[list[Cell]]:
    cells = expand_cells(suite, "tiny")
    by_id = {cell.cell_id: cell for cell in cells}
    trials = decide_trials(cells, alike=alike_dimensions(suite), rounds=rounds, seed=seed)
    return [
        [by_id[one.cell_id] for one in trials if one.round == number]
        for number in range(1, rounds + 1)
    ]


def test_each_round_measures_each_cell_once_before_the_next_begins(world: World) -> None:
    plan = world.plan(rounds=4)
    assert [one.round for one in plan.visits] == [number for number in (1, 2, 3, 4) for _ in "abcd"]
    cells = {cell.cell_id for cell in plan.cells}
    for number in (1, 2, 3, 4):
        assert {one.cell_id for one in plan.visits if one.round == number} == cells


def test_the_arms_of_a_pair_stand_side_by_side() -> None:
    for order in _orders(made_suite(), rounds=6):
        for first, second in (order[:2], order[2:]):
            assert first.point.threads == second.point.threads
            assert {first.point.media, second.point.media} == {"hdd", "nvme"}


def test_each_arm_is_first_as_often_as_the_other() -> None:
    orders = _orders(made_suite(), rounds=8)
    for place in (0, 2):
        firsts = Counter(order[place].point.media for order in orders)
        assert firsts == {"hdd": 4, "nvme": 4}
        for one, other in zip(orders[::2], orders[1::2], strict=True):
            assert one[place].point.media != other[place].point.media  # ABBA or BAAB


def test_each_group_has_an_order_of_its_own() -> None:
    orders = _orders(made_suite(), rounds=20)
    assert any(order[0].point.media != order[2].point.media for order in orders)


def test_a_seed_decides_the_order_and_more_rounds_begin_as_fewer_do() -> None:
    assert _orders(made_suite(), rounds=3) == _orders(made_suite(), rounds=9)[:3]
    assert _orders(made_suite(), rounds=9) != _orders(made_suite(), rounds=9, seed=6)


def test_without_arms_the_cells_of_a_series_take_turns() -> None:
    suite = made_suite(**NO_ARMS)
    orders = _orders(suite, rounds=2)
    for order in orders:
        for first, second in (order[:2], order[2:]):
            assert first.point.media == second.point.media
            assert {first.point.threads, second.point.threads} == {1, 8}
    assert orders[0][0] != orders[1][0]


def test_groups_of_the_same_environments_follow_each_other() -> None:
    # A series along the threads has one medium; the file varies it within the workloads.
    suite = made_suite(
        **{
            **NO_ARMS,
            "dimensions": {
                "workload": ["point-select", "update-index"],
                "media": ["hdd", "nvme"],
                "threads": [1, 8],
            },
            "fixed": {},
        }
    )
    for order in _orders(suite, rounds=2):
        changes = sum(one.point.media != other.point.media for one, other in pairwise(order))
        assert changes == 1


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_what_a_source_compares_is_in_one_group(suite: MatrixSuite) -> None:
    cells = expand_cells(suite, "full")
    groups = decide_groups(cells, alike_dimensions(suite))
    assert sorted(cell.cell_id for group in groups for cell in group) == sorted(
        cell.cell_id for cell in cells
    )
    group_of = {cell: number for number, group in enumerate(groups) for cell in group}
    for conclusion in suite.conclusions:
        if suite.arms and conclusion.test != "ratio":
            continue  # a series beside arms: its cells are in the same rounds
        for compared in compared_cells(suite, "full", conclusion):
            assert len({group_of[cell] for cell in compared}) == 1


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_no_environment_is_left_more_often_than_comparisons_need(suite: MatrixSuite) -> None:
    for order in _orders(suite, rounds=2):
        groups = decide_groups(order, alike_dimensions(suite))
        needed = [frozenset(environments(group)) for group in groups]
        changes = sum(one != other for one, other in pairwise(needed))
        assert changes == len(set(needed)) - 1


def test_what_cannot_be_run_has_its_reason_and_no_trials(world: World) -> None:
    world.place.offers = {**OFFERS, "threads": OFFERS["threads"].model_copy(update={"at_most": 4})}
    plan = world.plan()
    reasons = {
        value_of(cells_of(plan)[cell.cell_id].point, "threads"): cell.not_runnable
        for cell in plan.cells
    }
    assert len(plan.cells) == 4
    assert reasons == {1: None, 8: "This place cannot do threads 8 (only 1 to 4)."}
    runnable = {cell.cell_id for cell in plan.cells if cell.not_runnable is None}
    assert {one.cell_id for one in plan.visits} == runnable
    assert len(plan.visits) == 2 * plan.rounds


def test_a_plan_says_what_and_where_it_is(world: World) -> None:
    plan = world.plan(budget_s=90)
    assert (plan.suite, plan.scale, plan.place, plan.shape_only) == (
        "made-layers",
        "tiny",
        "lab made",
        True,
    )
    assert (plan.rounds, plan.warmup_s, plan.measure_s, plan.budget_s) == (3, 2, 6, 90)
    # Of those that can run: what the others would stand on is not there.
    (fact,) = plan.environment
    assert fact.value == str(len({one.cell_id for one in plan.visits}))
    assert plan.ended_at_s is None
    labels = {cell.label: cell.arm for cell in plan.cells}
    assert labels["update-index, media hdd"] == "hdd"
    assert labels["update-index, threads 1"] == "nvme"
    assert world.fuse.left is None
    assert not world.place.prepared


def test_a_cell_that_feels_nothing_of_the_arms_has_none(world: World) -> None:
    paths = {path: {"write_path": path} for path in ("direct", "journal")}
    world.content |= {
        "dimensions": {
            "workload": ["update-index", "rados-write"],
            "write_path": ["direct", "journal"],
        },
        "fixed": {},
        "arms": paths,
        "baseline": "direct",
        "conclusions": [
            {
                "name": "slower",
                "says": "It costs.",
                "test": "ratio",
                "quantity": "tps",
                "arm": "journal",
                "at_most": 2,
                "at": {"workload": "update-index"},
            }
        ],
    }
    assert [(cell.label, cell.arm) for cell in world.plan().cells] == [
        ("update-index", "direct"),
        ("update-index, write_path journal", "journal"),
        ("rados-write", None),
    ]


@pytest.mark.parametrize(("rounds", "budget_s"), [(0, None), (-1, None), (None, 0.0), (None, -5.0)])
def test_no_rounds_or_no_time_are_refused(
    world: World, rounds: int | None, budget_s: float | None
) -> None:
    with pytest.raises(UsageError):
        world.plan(rounds=rounds, budget_s=budget_s)


def test_a_recorded_run_has_the_cells_of_the_suite_as_it_was(world: World) -> None:
    plan = world.plan()
    assert tuple(cells_of(plan).values()) == expand_cells(made_suite(), "tiny")


@pytest.mark.parametrize("change", [("measure_s: 6", "measure_s: 7"), ("hdd", "ssd")])
def test_a_run_whose_cells_mean_something_else_now_is_refused(
    world: World, change: tuple[str, str]
) -> None:
    plan = world.plan()
    other = plan.model_copy(update={"suite_text": plan.suite_text.replace(*change)})
    with pytest.raises(RefusedError) as refused:
        cells_of(other)
    assert refused.value.code == "run-outdated"
    with pytest.raises(GrampusError):
        cells_of(plan.model_copy(update={"scale": "huge"}))


@pytest.mark.parametrize(("rounds", "expected"), [(None, (3, 2)), (3, (3, None)), (9, (9, None))])
def test_a_run_of_so_many_rounds_makes_all_of_them(
    world: World, rounds: int | None, expected: tuple[int, int | None]
) -> None:
    world.content["scales"]["tiny"]["first_look"] = 2
    plan = world.plan(rounds=rounds)
    assert (plan.rounds, plan.first_look) == expected
    assert {one.round for one in plan.visits} == set(range(1, plan.rounds + 1))
