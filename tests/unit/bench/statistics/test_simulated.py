"""The whole procedure on simulated machines, quickly; `make verdicts` does it at length."""

from __future__ import annotations

import pytest

from tests.proof.verdicts.simulated_machine import NOISES, SERIES, Noise, SeriesKind
from tests.proof.verdicts.trials import STEADY_LIMITS, try_comparisons, try_series

SEED = 20261122
TRIES = 100


@pytest.mark.parametrize(
    "noise", [one for one in NOISES if one.visit_s == 20], ids=lambda one: one.name
)
def test_false_alarms_stay_within_the_error(noise: Noise) -> None:
    trial = try_comparisons(SEED, noise, 1.0, TRIES, fixed_rounds=())
    # Of 100 with 5% each more than 12 come once in 700 runs; this seed is always the same.
    assert trial.differences.found <= 12
    assert trial.covered.found >= TRIES - 12
    # And the trial can fail: looking as often without a correction gives three times as many.
    if noise.name in ("quiet", "shared"):
        assert trial.plain_looks.found > 12


def test_a_change_of_3_percent_is_seen_on_a_quiet_machine() -> None:
    trial = try_comparisons(SEED, NOISES[0], 1.03, 100, fixed_rounds=(6, 10))
    assert trial.said("better").found >= 95
    assert trial.mean_rounds < 10
    assert trial.fixed_shown[10].found > trial.fixed_shown[6].found


@pytest.mark.parametrize("kind", SERIES, ids=lambda kind: kind.name)
def test_no_series_is_called_steady_that_differs_by_more_than_is_hidden(kind: SeriesKind) -> None:
    trial = try_series(SEED, kind, 20)
    assert trial.beyond_hidden <= 2
    assert trial.measured_s <= STEADY_LIMITS.max_s


@pytest.mark.parametrize("name", ["steady, quiet", "steady, shared"])
def test_a_steady_series_is_called_so(name: str) -> None:
    kind = next(one for one in SERIES if one.name == name)
    assert try_series(SEED, kind, 40).steady >= 37
