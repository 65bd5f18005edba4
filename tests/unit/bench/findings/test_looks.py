"""Runs that may end before their last round: when they are looked at, and what that costs."""

from __future__ import annotations

import pytest

from grampus.bench.findings.comparisons import decide_comparisons
from grampus.bench.findings.conclusions import decide_conclusions
from grampus.bench.findings.enough import decide_enough
from grampus.bench.findings.looks import ERROR, decide_level, is_look
from grampus.bench.findings.rounds import gather_rounds
from grampus.bench.matrix.cells import Cell
from grampus.bench.trials.plan import missing_trials
from grampus.state.matrix_runs import MatrixRun, Trial
from tests.unit.bench.findings.made_matrix import Seen, made_figures, made_matrix_run, made_text

ROUNDS, FIRST = 8, 4
NOISE = (1.0, 1.02, 0.97, 1.01, 0.99, 1.03, 0.98, 1.005)
FASTER = {"name": "x", "says": "x", "test": "ratio", "quantity": "tps", "arm": "nvme"}
UNKNOWN = {**FASTER, "name": "y", "quantity": "mb-per-s", "at_least": 2}
TEXT = made_text(
    dimensions={"media": ["hdd", "nvme"]}, conclusions=[{**FASTER, "at_least": 2}, UNKNOWN]
)


def _tps(cell: Cell, number: int, ratio: float) -> float:
    nvme = cell.point.media == "nvme"
    # Other noise in each cell, or the ratios would have none.
    noise = NOISE[(number * 3 if nvme else number) % 8]
    return 100 * noise * (ratio if nvme else 1)


def _run(made: int, ratio: float, *, first_look: int | None = FIRST, partly: int = 0):
    """So many rounds, and `partly` trials of the next one."""

    def seen(cell: Cell, number: int) -> Seen:
        is_first = cell.point.media == "hdd"
        if number <= made or (number == made + 1 and partly and is_first):
            return made_figures(_tps(cell, number, ratio))
        return None

    return made_matrix_run(seen, text=TEXT, rounds=ROUNDS, first_look=first_look)


def _is_look(run: MatrixRun, trials: list[Trial]) -> bool:
    return is_look(run, trials, missing_trials(run, trials))


@pytest.mark.parametrize("made", range(ROUNDS + 1))
def test_looks_come_from_the_first_on_every_other_round(made: int) -> None:
    _, run, trials = _run(made, 3)
    assert _is_look(run, trials) is (made in (4, 6))
    _, run, trials = _run(made, 3, partly=1)
    assert not _is_look(run, trials)
    _, run, trials = _run(made, 3, first_look=None)
    assert not _is_look(run, trials)


def test_all_looks_together_err_as_often_as_one_would() -> None:
    fixed = [decide_level(*_run(made, 3, first_look=None)[1:]) for made in range(ROUNDS + 1)]
    assert set(fixed) == {ERROR}
    levels = [decide_level(*_run(made, 3)[1:]) for made in (4, 6, 8)]
    assert all(0 < level < ERROR for level in levels)
    assert sum(levels) >= 0.8 * ERROR, "what was spent of the error is not lost"


def test_an_interval_is_as_wide_as_its_look_asks_for() -> None:
    for decide in (
        lambda *found: decide_conclusions(*found)[0].claims[0],
        lambda *found: decide_comparisons(*found).found[0].effect,
    ):
        looked, alone = decide(*_run(4, 3)), decide(*_run(4, 3, first_look=None))
        assert looked.ratio == alone.ratio
        assert looked.low < alone.low
        assert looked.high > alone.high


@pytest.mark.parametrize(
    ("made", "ratio", "ends"),
    [
        (4, 3.0, True),  # it holds
        (4, 1.0, True),  # it does not
        (4, 2.0, False),
        (6, 2.0, False),
        (3, 3.0, False),  # no look
        (5, 3.0, False),
        (8, 3.0, False),  # it is over anyway
    ],
)
def test_a_run_ends_where_each_conclusion_has_its_answer(
    made: int, ratio: float, ends: bool
) -> None:
    _, run, trials = _run(made, ratio)
    enough = decide_enough(run, trials, missing_trials(run, trials))
    assert (enough is not None) is ends
    assert enough is None or enough.startswith(f"After {made} of at most {ROUNDS} rounds")


def test_a_cell_that_could_not_be_prepared_keeps_no_look_from_coming() -> None:
    _, run, trials = _run(FIRST, 3)
    broken = run.cells[0].cell_id
    trials = [one for one in trials if one.cell_id != broken or one.round == 1]
    missing = [one for one in missing_trials(run, trials) if one.cell_id != broken]
    assert is_look(run, trials, missing)


def test_rounds_that_are_not_needed_are_not_missing() -> None:
    _, run, trials = _run(FIRST, 3)
    gathered = gather_rounds(run, trials).values()
    assert {len(one.missing) for one in gathered} == {ROUNDS - FIRST}
    ended = run.model_copy(update={"enough": "Enough is known."})
    assert {one.missing for one in gather_rounds(ended, trials).values()} == {()}


def test_rounds_without_any_figure_are_no_answer() -> None:
    def seen(_cell: Cell, number: int) -> Seen:
        return "It broke." if number <= FIRST else None

    _, run, trials = made_matrix_run(seen, text=TEXT, rounds=ROUNDS, first_look=FIRST)
    assert _is_look(run, trials)
    assert decide_enough(run, trials, missing_trials(run, trials)) is None
