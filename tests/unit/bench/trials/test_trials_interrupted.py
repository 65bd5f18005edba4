"""A run that is stopped at every call of the place and every write of the archive (INV-22).

It is killed there, as by kill -9 (in the archive also in the middle of a line), or interrupted by
Ctrl-C; then another process goes on with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from grampus.state.matrix_runs import MatrixRun
from tests.fakes.interruption import Killed, stopped_runs
from tests.unit.bench.matrix.made_suites import made_content
from tests.unit.bench.trials.made_place import PREPARE_S, World

# One pair of arms, twice: in an order and, once more, the other way round.
CHANGED = {
    "dimensions": {"media": ["hdd", "nvme"]},
    "conclusions": made_content()["conclusions"][:1],
}
TRIALS = 4
UNMADE = "There is no room for it."


def _start(directory: Path) -> Callable[[int], World]:
    return lambda point: World(directory / str(point), **CHANGED)


@pytest.fixture
def plan(tmp_path: Path) -> MatrixRun:
    plan = World(tmp_path / "planned", **CHANGED).plan(rounds=2)
    assert len(plan.visits) == TRIALS
    return plan


def _check_whole(world: World, run: MatrixRun) -> None:
    """All trials are there, once, in order, each with its figures; nothing else is."""
    trials = world.trials(run)
    assert [(one.cell_id, one.round) for one in trials] == [
        (one.cell_id, one.round) for one in run.visits
    ]
    assert all(one.figures is not None for one in trials)
    file = world.archive.run_dir(run.run_id) / "visits.jsonl"
    assert file.read_bytes().count(b"\n") == TRIALS
    assert all(world.archive.series(run.run_id, one.cell_id, one.round) for one in trials)
    assert run.ended_at_s is not None
    assert world.archive.load(run.run_id) == run
    assert not world.place.is_quiet


def test_a_killed_run_loses_at_most_the_trial_under_way(tmp_path: Path, plan: MatrixRun) -> None:
    for point, world in stopped_runs(_start(tmp_path), lambda world: world.run(plan), more_than=40):
        kept = world.trials(plan)
        world.revive()
        run = world.run(plan)
        _check_whole(world, run)
        assert world.trials(run)[: len(kept)] == kept, f"stopped at {point}"
        assert len(world.place.measured) <= TRIALS + 1, f"stopped at {point}"
        assert not world.place.made


def test_a_run_that_is_killed_again_and_again_comes_to_its_end(
    tmp_path: Path, plan: MatrixRun
) -> None:
    world = World(tmp_path, **CHANGED)
    # Each process lives for one call more than the one before.
    for lifetime in itertools.count():
        world.fuse.left = lifetime
        try:
            run = world.run(plan)
        except Killed:
            world.revive()
        else:
            break
    world.fuse.left = None
    assert lifetime > 15
    _check_whole(world, run)
    assert not world.place.made


@pytest.mark.parametrize("keep", [False, True])
def test_ctrl_c_leaves_a_run_that_can_be_gone_on_with(
    tmp_path: Path, plan: MatrixRun, keep: bool
) -> None:
    for point, world in stopped_runs(
        _start(tmp_path),
        lambda world: world.run(plan, keep=keep),
        KeyboardInterrupt(),
        more_than=40,
    ):
        assert not world.place.is_quiet, f"interrupted at {point}"
        if keep:
            assert world.place.dismantled == 0
            assert len(world.place.made) == (2 if world.place.prepared else 0)
        else:
            assert not world.place.made, f"interrupted at {point}"
        run = world.run(plan)
        _check_whole(world, run)
        assert len(world.place.measured) <= TRIALS + 1, f"interrupted at {point}"


def test_a_cell_that_cannot_be_made_is_told_once_however_often_it_is_killed(
    tmp_path: Path, plan: MatrixRun
) -> None:
    def start(point: int) -> World:
        world = World(tmp_path / str(point), **CHANGED)
        world.place.unmade[plan.visits[1].cell_id] = UNMADE
        return world

    for _, world in stopped_runs(start, lambda world: world.run(plan), more_than=25):
        world.revive()
        run = world.run(plan)
        marked = [one for one in world.trials(run) if one.marked is not None]
        assert [one.marked for one in marked] == [UNMADE]
        assert len(world.trials(run)) == 2 + 1


def test_a_run_with_a_budget_ends_whole_however_often_it_is_killed(
    tmp_path: Path, plan: MatrixRun
) -> None:
    # Room for preparing, for the first round, and for a part of what it takes to go on.
    budget_s = PREPARE_S + 2 * 8 + 12
    bounded = plan.model_copy(update={"budget_s": budget_s})
    for _, world in stopped_runs(_start(tmp_path), lambda world: world.run(bounded), more_than=20):
        world.revive()
        run = world.run(bounded)
        assert run.ended_at_s is not None
        assert run.cut_short is not None
        measured = [(one.cell_id, one.round) for one in world.trials(run)]
        planned = [(one.cell_id, one.round) for one in run.visits]
        assert measured == planned[: len(measured)]
        assert len(measured) <= 2
        assert not world.place.made
