"""The page of `make verdicts`: what is said of which figures."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from grampus.bench.findings.conclusions import WORDS, decide_conclusions
from grampus.bench.findings.enough import decide_enough
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.suite import MatrixSuite
from grampus.bench.trials.plan import missing_trials
from grampus.state.matrix_runs import MatrixRun, Trial
from tests.proof.verdicts.render_page import Tried, decide_broken, render_page
from tests.proof.verdicts.simulated_machine import NOISES, SERIES, simulate_rounds
from tests.proof.verdicts.trials import (
    SUITE_AT_LEAST,
    SUITE_LIMITS,
    ComparisonTrial,
    EnvironmentTrial,
    SeriesTrial,
    SeveralTrial,
    Share,
    SuiteTrial,
    end_of_suite,
    try_environments,
)
from tests.unit.bench.findings.made_matrix import Seen, made_figures, made_matrix_run, made_text

ALIKE = ComparisonTrial(
    noise="quiet",
    ratio=1.0,
    words={"better": 20, "worse": 20, "no-difference": 900, "undecided": 60},
    reasons={"decided": 940, "rounds-spent": 60},
    mean_rounds=8.0,
    covered=Share(960, 1000),
    plain_looks=Share(150, 1000),
    fixed_shown={},
    fixed_covered={},
    fixed_width={},
    suite=SuiteTrial(
        truths={"yes": 20, "no": 20, "unknown": 960},
        mean_rounds=9.9,
        ended_early=Share(30, 1000),
        covered=Share(960, 1000),
    ),
)
DIFFERENT = replace(
    ALIKE,
    ratio=1.03,
    words={"better": 980, "worse": 0, "no-difference": 0, "undecided": 20},
    fixed_shown={6: Share(600, 1000)},
    fixed_covered={6: Share(950, 1000)},
    fixed_width={6: 0.02},
    suite=SuiteTrial(
        truths={"yes": 700, "no": 1, "unknown": 299},
        mean_rounds=7.0,
        ended_early=Share(600, 1000),
        covered=Share(970, 1000),
    ),
)
SERIES_TRIAL = SeriesTrial(kind=SERIES[0], tries=1000, steady=990, causes={"trend": 10})
SEVERAL = SeveralTrial(
    runs=100,
    comparisons=20,
    different=5,
    ratio=1.05,
    error=0.01,
    mean_rounds=9.0,
    false_share_single=0.1,
    false_share_together=0.03,
    together_error=0.005,
    found_single=1.0,
    found_together=0.9,
)
APART = EnvironmentTrial(0.05, kept=Share(470, 1000), anew=Share(45, 1000))
GOOD = Tried(
    alike=[ALIKE],
    different=[DIFFERENT],
    series=[SERIES_TRIAL],
    several=[SEVERAL],
    environments=[APART],
)


def _suite(trial: ComparisonTrial, *, yes: int | None = None, covered: int = 960) -> SuiteTrial:
    truths = dict(trial.suite.truths)
    if yes is not None:
        truths |= {"yes": yes, "unknown": 1000 - yes - truths["no"]}
    return replace(trial.suite, truths=truths, covered=Share(covered, 1000))


@pytest.mark.parametrize("ratio", [1.0, 1.03, 0.95])
@pytest.mark.parametrize("seed", range(6))
def test_the_rule_that_is_tried_is_the_one_by_which_runs_end(ratio: float, seed: int) -> None:
    """Round by round as the runner asks it, on the same figures."""
    limits = SUITE_LIMITS
    pairs = simulate_rounds(seed, NOISES[0], rounds=limits.max_rounds, ratio=ratio)
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]},
        conclusions=[
            {"name": "x", "says": "x", "test": "ratio", "quantity": "tps", "arm": "nvme"}
            | {"at_least": SUITE_AT_LEAST}
        ],
    )

    def run_of(made: int) -> tuple[MatrixSuite, MatrixRun, list[Trial]]:
        def seen(cell: Cell, number: int) -> Seen:
            arm, baseline = pairs[number - 1]
            figure = arm if cell.point.media == "nvme" else baseline
            return made_figures(figure) if number <= made else None

        return made_matrix_run(
            seen, text=text, rounds=limits.max_rounds, first_look=limits.min_rounds
        )

    for made in range(1, limits.max_rounds + 1):
        suite, run, trials = run_of(made)
        if decide_enough(run, trials, missing_trials(run, trials)) is not None:
            break
    (conclusion,) = decide_conclusions(suite, run, trials)
    truth, effect = end_of_suite(pairs, limits, SUITE_AT_LEAST)
    assert (WORDS[truth], effect.rounds) == (conclusion.word, made)
    (claim,) = conclusion.claims
    assert (effect.low, effect.high) == (pytest.approx(claim.low), pytest.approx(claim.high))


def test_a_proof_that_was_kept() -> None:
    assert decide_broken(GOOD) == []
    page = render_page(GOOD, {"seed": "7"}, repeat="make verdicts")
    assert "**All that is promised was kept:**" in page
    assert "| quiet | 1,000 | **4.0% (2.9% to 5.4%)** | 15.0%" in page
    assert "| quiet | 60% (±2.0%) | 98.0%" in page
    assert "| quiet | 1,000 | **4.0% (2.9% to 5.4%)** | 96.0%" in page
    assert "| 9.9 | 70.0%" in page
    assert "| 7.0 | 60% |" in page
    assert "| 5 of 20, by 5% | 1% | 100 | 9.0 | 10.0% | **3.0%** | 100% | 90% |" in page
    assert "| 5% | 1,000 | 47.0% (43.9% to 50.1%) | **4.5% (3.3% to 6.0%)** |" in page
    assert "- seed: 7" in page
    # Each row has as many cells as its head.
    lines = page.splitlines()
    for line, following in itertools.pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert line.count("|") == following.count("|")


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        (
            replace(GOOD, alike=[replace(ALIKE, words={**ALIKE.words, "better": 60})]),
            "false alarms with noise 'quiet'",
        ),
        (
            replace(GOOD, different=[replace(DIFFERENT, covered=Share(920, 1000))]),
            "coverage with noise 'quiet'",
        ),
        (
            replace(GOOD, alike=[replace(ALIKE, suite=_suite(ALIKE, yes=80))]),
            "answers of suites where there is none with noise 'quiet'",
        ),
        (
            replace(GOOD, different=[replace(DIFFERENT, suite=_suite(DIFFERENT, covered=910))]),
            "coverage of suites with noise 'quiet'",
        ),
        (
            replace(GOOD, series=[replace(SERIES_TRIAL, beyond_hidden=45)]),
            "'steady, quiet' called steady though it is not",
        ),
        (
            replace(GOOD, several=[replace(SEVERAL, false_share_together=0.07)]),
            "false ones among 20 comparisons",
        ),
        (
            replace(GOOD, environments=[replace(APART, anew=Share(80, 1000))]),
            "answers of suites on environments that differ by 5%",
        ),
    ],
)
def test_what_the_figures_refute_is_said_and_fails(tried: Tried, said: str) -> None:
    broken = decide_broken(tried)
    assert len(broken) == 1
    assert said in broken[0]
    assert f"**Not as promised: {broken[0]}.**" in render_page(tried, {}, repeat="")


def test_only_environments_made_anew_keep_the_error_of_arms_that_are_alike() -> None:
    tried = try_environments(1, NOISES[0], 0.10, 60)
    assert tried.kept.value > 0.5
    assert tried.anew.value <= 0.15  # at most 5 % but for chance


def test_chance_alone_refutes_nothing() -> None:
    words = {**ALIKE.words, "better": 35}  # 55 of 1000 with 5% each
    assert decide_broken(replace(GOOD, alike=[replace(ALIKE, words=words)])) == []
