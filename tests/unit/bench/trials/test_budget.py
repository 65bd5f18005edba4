"""What was spent, and whether there is time for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.bench.trials.budget import (
    decide_all_s,
    decide_spent_s,
    describe_cut,
    describe_time,
    fits,
)
from grampus.state.matrix_runs import Figures, MatrixRun, Moment, Trial
from tests.unit.bench.trials.made_place import World

FIGURES = Figures(loop="closed", measured_s=6, operations=600, operations_per_s=100.0)


@pytest.fixture
def plan(tmp_path: Path) -> MatrixRun:
    return World(tmp_path).plan(budget_s=100)  # 4 cells, 3 rounds, 2 + 6 s each


def _measured(plan: MatrixRun, count: int, *, took_s: float = 10.0) -> list[Trial]:
    return [
        Trial(
            cell_id=one.cell_id,
            round=one.round,
            started_at_s=0.0,
            ended_at_s=took_s,
            figures=FIGURES,
        )
        for one in plan.visits[:count]
    ]


def _moments(*whats: tuple[float, str]) -> list[Moment]:
    return [Moment.model_validate({"at_s": at_s, "what": what}) for at_s, what in whats]


def _trial(started_at_s: float, ended_at_s: float) -> Trial:
    return Trial(
        cell_id="a", round=1, started_at_s=started_at_s, ended_at_s=ended_at_s, marked="It failed."
    )


@pytest.mark.parametrize(
    ("moments", "trials", "spent_s"),
    [
        ([], [], 0),
        ([(10, "began")], [], 0),
        ([(10, "began"), (40, "prepared")], [], 30),
        ([(10, "began"), (40, "prepared")], [_trial(41, 50), _trial(55, 60)], 50),
        # A second process began after an hour; what was before it ended with its last trial.
        (
            [(10, "began"), (40, "prepared"), (3700, "began"), (3705, "prepared")],
            [_trial(41, 50), _trial(3706, 3720)],
            60,
        ),
        # One that was killed while it prepared left nothing to measure its time by.
        ([(10, "began"), (300, "began"), (320, "prepared")], [], 20),
        # One that goes on at once.
        ([(10, "began"), (50, "began")], [_trial(20, 50), _trial(51, 60)], 50),
    ],
)
def test_only_the_time_in_which_a_process_worked_counts(
    moments: list[tuple[float, str]], trials: list[Trial], spent_s: float
) -> None:
    assert decide_spent_s(_moments(*moments), trials) == spent_s


def test_a_trial_takes_what_its_cell_took_else_what_all_took_else_what_is_declared(
    plan: MatrixRun,
) -> None:
    first, second = plan.visits[:2]
    assert decide_all_s(plan, [first], []) == 2 + 6 + 10
    took = _measured(plan, 1, took_s=30.0)
    assert decide_all_s(plan, [first], took) == 30
    assert decide_all_s(plan, [second], took) == 30
    took += [one.model_copy(update={"cell_id": second.cell_id, "ended_at_s": 10.0}) for one in took]
    assert decide_all_s(plan, [first], took) == 30
    assert decide_all_s(plan, [second], took) == 10
    assert decide_all_s(plan, [plan.visits[2]], took) == 20
    assert decide_all_s(plan, plan.visits[:3], took) == 60


def test_a_marked_trial_says_nothing_of_how_long_one_takes(plan: MatrixRun) -> None:
    marked = _trial(0, 1000).model_copy(update={"cell_id": plan.visits[0].cell_id})
    assert decide_all_s(plan, plan.visits[:1], [marked]) == 18


@pytest.mark.parametrize(
    ("measured", "left_s", "fitting"),
    [
        (0, None, True),
        (0, 18.0, True),
        (0, 17.9, False),
        (1, 10.0, True),  # within a round, one trial has to fit
        (3, 9.9, False),
        (4, 39.9, False),  # a further round is begun when all of it fits
        (4, 40.0, True),
        (5, 10.0, True),
        (11, 10.0, True),
    ],
)
def test_a_further_round_is_whole_or_not_begun(
    plan: MatrixRun, measured: int, left_s: float | None, fitting: bool
) -> None:
    trials = _measured(plan, measured)
    assert fits(plan, plan.visits[measured:], trials, left_s) is fitting


def test_what_was_cut_is_told(plan: MatrixRun) -> None:
    trials = _measured(plan, 4)
    assert describe_cut(plan, plan.visits[4:], trials) == (
        "The budget of 100 s was spent after 4 of 12 trials: 1 of 3 rounds are whole."
    )


@pytest.mark.parametrize(
    ("time_s", "said"), [(0, "0 s"), (119.4, "119 s"), (120, "2 min"), (3600, "60 min")]
)
def test_times_are_told_as_finely_as_they_are_known(time_s: float, said: str) -> None:
    assert describe_time(time_s) == said
