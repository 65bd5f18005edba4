"""Trying the procedure on simulated machines, and counting what it says. Seeded, without I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from grampus.bench.findings.conclusions import Truth, decide_truth
from grampus.bench.findings.looks import ERROR, ROUNDS_BETWEEN_LOOKS
from grampus.bench.statistics.distributions import binomial_interval
from grampus.bench.statistics.effect import Effect, decide_effect
from grampus.bench.statistics.several import decide_several, p_over_looks
from grampus.bench.statistics.steadiness import SteadyLimits, decide_measuring
from grampus.bench.statistics.stopping import (
    Stop,
    StoppingLimits,
    decide_next,
    level_of_look,
    look_rounds,
)
from tests.proof.verdicts.simulated_machine import (
    Noise,
    SeriesKind,
    simulate_rounds,
    simulate_series,
)

LIMITS = StoppingLimits()
# Those of most scales of the published experiments that may end early (`looks.stopping_limits`).
SUITE_LIMITS = StoppingLimits(
    min_rounds=4, max_rounds=10, rounds_between_looks=ROUNDS_BETWEEN_LOOKS, error=ERROR
)
# The conclusion that is tried: the arm is not behind the baseline.
SUITE_AT_LEAST = 1.0
STEADY_LIMITS = SteadyLimits()
FIXED_ROUNDS = (6, 10, 20, 40)
FIRST_S = 60


@dataclass(frozen=True)
class Share:
    """How often something was found in so many tries."""

    found: int
    tries: int

    @property
    def value(self) -> float:
        return self.found / self.tries

    @property
    def interval(self) -> tuple[float, float]:
        return binomial_interval(self.found, self.tries)


@dataclass(frozen=True)
class SuiteTrial:
    """What runs of a suite with one conclusion (`SUITE_AT_LEAST`) said at their end."""

    truths: dict[Truth, int]
    mean_rounds: float
    ended_early: Share
    covered: Share  # the true ratio lies in the interval at the end

    def said(self, truth: Truth) -> Share:
        return Share(self.truths[truth], sum(self.truths.values()))

    @property
    def answers(self) -> Share:
        tries = sum(self.truths.values())
        return Share(self.truths["yes"] + self.truths["no"], tries)


@dataclass(frozen=True)
class ComparisonTrial:
    """What was said of so many comparisons under one noise with one true ratio."""

    noise: str
    ratio: float
    words: dict[str, int]
    reasons: dict[str, int]
    mean_rounds: float
    covered: Share  # the true ratio lies in the interval at the stop
    plain_looks: Share  # "better" or "worse" with a plain 95% interval at every look
    fixed_shown: dict[int, Share]  # the same after so many rounds, looked at once
    fixed_covered: dict[int, Share]
    fixed_width: dict[int, float]  # mean half-width
    suite: SuiteTrial

    @property
    def tries(self) -> int:
        return sum(self.words.values())

    @property
    def differences(self) -> Share:
        return Share(self.words["better"] + self.words["worse"], self.tries)

    def said(self, word: str) -> Share:
        return Share(self.words[word], self.tries)


def stop_of(pairs: Sequence[tuple[float, float]], limits: StoppingLimits) -> Stop:
    """The procedure on rounds that are all known: as many as it asks for."""
    measured = 0
    while True:
        decision = decide_next(pairs[:measured], limits, better="more")
        if isinstance(decision, Stop):
            return decision
        measured += decision.rounds


def end_of_suite(
    pairs: Sequence[tuple[float, float]], limits: StoppingLimits, at_least: float
) -> tuple[Truth, Effect]:
    """How a run of a suite ends whose one conclusion is about these two cells, and its interval.

    That is `findings.enough.decide_enough` without a run around it: at a look it ends with an
    answer, and without one at its last round. A unit test holds the two against each other.
    """
    for count in look_rounds(limits):
        effect = decide_effect(pairs[:count], better="more", level=level_of_look(count, limits))
        truth = decide_truth(effect, at_least, None)
        if truth != "unknown":
            break
    return truth, effect


@dataclass(frozen=True)
class EnvironmentTrial:
    """How often a suite gave an answer on arms that are alike, but stand on something each.

    `share` is by how much that differs, `kept` made once for all rounds, `anew` for each of them.
    """

    share: float
    kept: Share
    anew: Share


def try_environments(seed: int, noise: Noise, share: float, tries: int) -> EnvironmentTrial:
    """Runs of a suite with one conclusion whose arms stand on environments of their own."""
    answers = {}
    for is_kept in (True, False):
        machine = replace(noise, environment=share, is_kept=is_kept)
        truths = [
            end_of_suite(
                simulate_rounds(
                    seed * 1_000_003 + number, machine, rounds=SUITE_LIMITS.max_rounds, ratio=1.0
                ),
                SUITE_LIMITS,
                SUITE_AT_LEAST,
            )[0]
            for number in range(tries)
        ]
        answers[is_kept] = Share(sum(truth != "unknown" for truth in truths), tries)
    return EnvironmentTrial(share, answers[True], answers[False])


def try_comparisons(
    seed: int, noise: Noise, ratio: float, tries: int, fixed_rounds: Sequence[int] = FIXED_ROUNDS
) -> ComparisonTrial:
    """Let the procedure compare two arms of that true ratio so many times.

    Beside it, and on the same rounds: plain intervals after each of `fixed_rounds`, and plain ones
    at every look, which is what the procedure must not do.
    """
    simulated = max((LIMITS.max_rounds, *fixed_rounds))
    words = dict.fromkeys(("better", "worse", "no-difference", "undecided"), 0)
    reasons: dict[str, int] = {}
    rounds = covered = plain = 0
    shown = dict.fromkeys(fixed_rounds, 0)
    held = dict.fromkeys(fixed_rounds, 0)
    widths = dict.fromkeys(fixed_rounds, 0.0)
    ends: list[tuple[Truth, Effect]] = []
    for number in range(tries):
        pairs = simulate_rounds(seed * 1_000_003 + number, noise, rounds=simulated, ratio=ratio)
        stop = stop_of(pairs, LIMITS)
        ends.append(end_of_suite(pairs, SUITE_LIMITS, SUITE_AT_LEAST))
        words[stop.effect.word] += 1
        reasons[stop.reason] = reasons.get(stop.reason, 0) + 1
        rounds += stop.effect.rounds
        covered += _holds(stop.effect.low, stop.effect.high, ratio)
        found = {
            count: decide_effect(pairs[:count], better="more")
            for count in {*look_rounds(LIMITS), *fixed_rounds}
        }
        plain += any(found[count].word in ("better", "worse") for count in look_rounds(LIMITS))
        for count in fixed_rounds:
            one = found[count]
            shown[count] += one.word in ("better", "worse")
            held[count] += _holds(one.low, one.high, ratio)
            widths[count] += (one.half_width or 0.0) / tries
    return ComparisonTrial(
        noise=noise.name,
        ratio=ratio,
        words=words,
        reasons=reasons,
        mean_rounds=rounds / tries,
        covered=Share(covered, tries),
        plain_looks=Share(plain, tries),
        fixed_shown={count: Share(value, tries) for count, value in shown.items()},
        fixed_covered={count: Share(value, tries) for count, value in held.items()},
        fixed_width=widths,
        suite=_suite_trial(ends, ratio),
    )


def _suite_trial(ends: Sequence[tuple[Truth, Effect]], ratio: float) -> SuiteTrial:
    tries, truths = len(ends), [truth for truth, _ in ends]
    effects = [effect for _, effect in ends]
    early = sum(effect.rounds < SUITE_LIMITS.max_rounds for effect in effects)
    covered = sum(_holds(effect.low, effect.high, ratio) for effect in effects)
    return SuiteTrial(
        truths={
            "yes": truths.count("yes"),
            "no": truths.count("no"),
            "unknown": truths.count("unknown"),
        },
        mean_rounds=sum(effect.rounds for effect in effects) / tries,
        ended_early=Share(early, tries),
        covered=Share(covered, tries),
    )


@dataclass
class SeriesTrial:
    """What was said of so many series of one kind."""

    kind: SeriesKind
    tries: int = 0
    steady: int = 0
    # Of those called steady: the halves of what was kept truly differ by more than the limit.
    beyond_tolerance: int = 0
    beyond_hidden: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    measured_s: float = 0.0
    left_out_s: float = 0.0

    @property
    def called_steady(self) -> Share:
        return Share(self.steady, self.tries)


def try_series(
    seed: int, kind: SeriesKind, tries: int, limits: SteadyLimits = STEADY_LIMITS
) -> SeriesTrial:
    """Measure so many series, each for 60 s and as much longer as is asked for."""
    trial = SeriesTrial(kind)
    for number in range(tries):
        series = simulate_series(seed * 1_000_003 + number, kind, limits.max_s)
        measured_s = FIRST_S
        found = decide_measuring(series.values[:measured_s], limits)
        while found.word == "extend":
            measured_s += found.extend_s
            found = decide_measuring(series.values[:measured_s], limits)
        trial.tries += 1
        if found.word == "steady":
            difference = _true_difference(series.truth[found.leave_out_s : measured_s])
            trial.steady += 1
            trial.beyond_tolerance += difference > limits.tolerance
            trial.beyond_hidden += difference > limits.hidden
        else:
            trial.causes[found.cause] = trial.causes.get(found.cause, 0) + 1
        trial.measured_s += measured_s / tries
        trial.left_out_s += found.leave_out_s / tries
    return trial


def _true_difference(truth: Sequence[float]) -> float:
    """How far the halves differ without noise, as a share of the mean."""
    half = len(truth) // 2
    first, second = math.fsum(truth[:half]), math.fsum(truth[-half:])
    return abs(second - first) / half / (math.fsum(truth) / len(truth))


@dataclass(frozen=True)
class SeveralTrial:
    """Of runs with many comparisons: the mean share of false ones among those that are named."""

    runs: int
    comparisons: int
    different: int
    ratio: float
    error: float  # of each comparison
    mean_rounds: float
    false_share_single: float
    false_share_together: float
    together_error: float  # the standard error of that mean
    found_single: float
    found_together: float


def try_several(
    seed: int,
    noise: Noise,
    *,
    runs: int,
    comparisons: int,
    different: int,
    ratio: float,
    error: float,
) -> SeveralTrial:
    """Runs of which so many comparisons truly differ by `ratio`, each with the whole procedure."""
    limits = replace(LIMITS, error=error)
    false_single = found_single = found_together = rounds = 0.0
    false_together: list[float] = []
    for run in range(runs):
        values, single = [], []
        for number in range(comparisons):
            true_ratio = ratio if number < different else 1.0
            one_seed = (seed * 1_000_003 + run) * 1_000_003 + number
            pairs = simulate_rounds(one_seed, noise, rounds=limits.max_rounds, ratio=true_ratio)
            effect = stop_of(pairs, limits).effect
            rounds += effect.rounds / runs / comparisons
            single.append(effect.word in ("better", "worse"))
            values.append(p_over_looks(effect.p or 0.0, effect.rounds, limits))
        together = decide_several(values).remains
        false_single += sum(single[different:]) / max(1, sum(single)) / runs
        false_together.append(sum(together[different:]) / max(1, sum(together)))
        found_single += sum(single[:different]) / max(1, different) / runs
        found_together += sum(together[:different]) / max(1, different) / runs
    mean = math.fsum(false_together) / runs
    return SeveralTrial(
        runs=runs,
        comparisons=comparisons,
        different=different,
        ratio=ratio,
        error=error,
        mean_rounds=rounds,
        false_share_single=false_single,
        false_share_together=mean,
        together_error=math.sqrt(math.fsum((x - mean) ** 2 for x in false_together)) / runs,
        found_single=found_single,
        found_together=found_together,
    )


def _holds(low: float | None, high: float | None, ratio: float) -> bool:
    return low is not None and high is not None and low <= ratio <= high
