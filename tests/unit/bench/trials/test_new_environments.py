"""A run whose cells stand on something new in each round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grampus.bench.matrix.expansion import estimate_s
from grampus.state.matrix_runs import MatrixRun
from tests.fakes.interruption import stopped_runs
from tests.unit.bench.matrix.made_suites import made_content, made_suite
from tests.unit.bench.trials.made_place import PREPARE_S, World

ROUNDS = 3
TRIALS = 2 * ROUNDS


def _changed(environments: str) -> dict[str, Any]:
    content = made_content()
    tiny = {**content["scales"]["tiny"], "environments": environments}
    return {
        "dimensions": {"media": ["hdd", "nvme"]},
        "conclusions": content["conclusions"][:1],
        "scales": {**content["scales"], "tiny": tiny},
    }


def _by_round(world: World, run: MatrixRun) -> dict[int, set[int]]:
    """The environments on which the trials of each round were measured."""
    found: dict[int, set[int]] = {}
    for trial in world.trials(run):
        stood = [
            number
            for at_s, number in world.place.environments.items()
            if trial.started_at_s <= at_s < trial.ended_at_s
        ]
        assert len(stood) == 1
        found.setdefault(trial.round, set()).update(stood)
    return found


@pytest.mark.parametrize(
    ("environments", "stood", "prepared", "removed"),
    [
        ("kept", {1: {1}, 2: {1}, 3: {1}}, 1, 0),
        ("each-round", {1: {1}, 2: {2}, 3: {3}}, ROUNDS, ROUNDS),
    ],
)
def test_a_round_has_environments_of_its_own_if_the_scale_says_so(
    tmp_path: Path, environments: str, stood: dict[int, set[int]], prepared: int, removed: int
) -> None:
    world = World(tmp_path, **_changed(environments))
    run = world.run(world.plan())
    assert _by_round(world, run) == stood
    assert [len(cells) for cells in world.place.prepared] == [2] * prepared
    assert (world.place.removed, world.place.dismantled) == (removed, 1)
    assert len(world.archive.moments(run.run_id)) == 1 + prepared


def test_stopped_anywhere_no_two_rounds_share_an_environment(tmp_path: Path) -> None:
    changed = _changed("each-round")
    plan = World(tmp_path / "planned", **changed).plan()
    runs = stopped_runs(
        lambda point: World(tmp_path / str(point), **changed),
        lambda world: world.run(plan),
        more_than=60,
    )
    for point, world in runs:
        world.revive()
        run = world.run(plan)
        found = _by_round(world, run)
        assert [len(world.trials(run)), len(found)] == [TRIALS, ROUNDS]
        numbers = [number for stood in found.values() for number in stood]
        assert len(numbers) == len(set(numbers)), f"stopped at {point}"
        assert not world.place.made


def test_making_them_anew_counts_as_time_of_the_run(tmp_path: Path) -> None:
    suite = made_suite(**_changed("each-round"))
    kept = made_suite(**_changed("kept"))
    once_s = suite.scales["tiny"].environment_s * 2
    assert estimate_s(suite, "tiny") - estimate_s(kept, "tiny") == (ROUNDS - 1) * once_s
    each_s = 2 + 6  # of a trial
    for budget_s, rounds in [
        (2 * PREPARE_S + 4 * each_s + 0.5, 2),
        (2 * PREPARE_S + 4 * each_s - 0.5, 1),
    ]:
        world = World(tmp_path / str(rounds), **_changed("each-round"))
        run = world.run(world.plan(budget_s=budget_s))
        assert {trial.round for trial in world.trials(run)} == set(range(1, rounds + 1))
        assert len(world.place.prepared) == rounds, "nothing is made that nothing can use"
