"""What a trial takes besides what it measures."""

from __future__ import annotations

import pytest

from grampus.bench.findings.documents import Overhead, decide_overhead
from grampus.state.matrix_runs import Spent, Trial
from tests.unit.bench.findings.made_matrix import made_figures, made_matrix_run

_, RUN, _ = made_matrix_run(lambda _cell, _number: None)


def _trial(took_s: float, measured_s: float | None, spent: Spent | None = None) -> Trial:
    figures = None
    if measured_s is not None:
        figures = made_figures(100, measured_s=measured_s, spent=spent)
    marked = None if figures is not None else "No client came."
    return Trial(
        cell_id="a",
        round=1,
        started_at_s=100,
        ended_at_s=100 + took_s,
        figures=figures,
        marked=marked,
    )


def _spent(load_s: float, change_s: float, calm_s: float) -> Spent:
    return Spent(load_s=load_s, change_s=change_s, calm_s=calm_s)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([], None),
        ([_trial(12, 8)], Overhead(4, 4, 1)),
        ([_trial(12, 8), _trial(10, 6), _trial(18, 8)], Overhead(4, 10, 3)),
        # One that broke off says nothing, and one that went on measuring says too much.
        ([_trial(12, 8), _trial(100, None), _trial(40, 16)], Overhead(4, 4, 1)),
        ([_trial(100, None)], None),
        # Recorded: all of the load is known, also of one that measured twice.
        ([_trial(16, 6, _spent(11, 1, 2))], Overhead(5, 5, 1, 1, 2)),
        (
            [_trial(50, 16, _spent(40, 4, 2)), _trial(15, 6, _spent(11, 1, 1))],
            Overhead(7, 10, 2, 2.5, 1.5),
        ),
        ([_trial(50, 16, _spent(40, 4, 2)), _trial(12, 6)], Overhead(7, 10, 2, 4, 2)),
        ([_trial(100, None, _spent(1, 1, 1))], None),
    ],
)
def test_trials_take_longer_than_they_measure(
    trials: list[Trial], expected: Overhead | None
) -> None:
    assert RUN.warmup_s + RUN.measure_s == 8
    assert decide_overhead(RUN, trials) == expected
