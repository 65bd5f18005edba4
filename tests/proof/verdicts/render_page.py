"""docs/proof/verdicts.md, and whether what it says is what was promised: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.proof.verdicts.simulated_machine import NOISES
from tests.proof.verdicts.trials import (
    FIRST_S,
    LIMITS,
    STEADY_LIMITS,
    SUITE_AT_LEAST,
    SUITE_LIMITS,
    ComparisonTrial,
    EnvironmentTrial,
    SeriesTrial,
    SeveralTrial,
    Share,
)

# A steady series in 40 may be called so although its halves differ by more than is allowed:
# a one-sided error of an interval whose two-sided error is half of 5%.
HIDDEN_ERROR = STEADY_LIMITS.error / 2


@dataclass(frozen=True)
class Tried:
    """All that was tried."""

    alike: Sequence[ComparisonTrial]  # A/A
    different: Sequence[ComparisonTrial]
    series: Sequence[SeriesTrial]
    several: Sequence[SeveralTrial]
    environments: Sequence[EnvironmentTrial]


def decide_broken(tried: Tried) -> list[str]:
    """Promises that the figures refute: the whole binomial interval lies on the wrong side."""
    broken = [
        f"false alarms with noise '{one.noise}': {_share(one.differences)}"
        for one in tried.alike
        if one.differences.interval[0] > LIMITS.error
    ]
    broken += [
        f"coverage with noise '{one.noise}': {_share(one.covered)}"
        for one in (*tried.alike, *tried.different)
        if one.covered.interval[1] < 1 - LIMITS.error
    ]
    broken += [
        f"answers of suites where there is none with noise '{one.noise}': "
        f"{_share(one.suite.answers)}"
        for one in tried.alike
        if one.suite.answers.interval[0] > SUITE_LIMITS.error
    ]
    broken += [
        f"answers of suites on environments that differ by {one.share:.0%}, made anew for each "
        f"round: {_share(one.anew)}"
        for one in tried.environments
        if one.anew.interval[0] > SUITE_LIMITS.error
    ]
    broken += [
        f"coverage of suites with noise '{one.noise}': {_share(one.suite.covered)}"
        for one in (*tried.alike, *tried.different)
        if one.suite.covered.interval[1] < 1 - SUITE_LIMITS.error
    ]
    broken += [
        f"'{one.kind.name}' called steady though it is not: {_share(_hidden(one))}"
        for one in tried.series
        if _hidden(one).interval[0] > HIDDEN_ERROR
    ]
    broken += [
        f"false ones among {one.comparisons} comparisons: {one.false_share_together:.1%}"
        for one in tried.several
        if one.false_share_together - 1.96 * one.together_error > LIMITS.error
    ]
    return broken


def render_page(tried: Tried, facts: Mapping[str, str], *, repeat: str) -> str:
    """The page, in Markdown."""
    broken = decide_broken(tried)
    verdict = (
        f"**Not as promised: {'; '.join(broken)}.**"
        if broken
        else "**All that is promised was kept:** false alarms, coverage, steadiness and false "
        "discoveries."
    )
    lines = [
        "# Do the verdicts of benchmarks hold?",
        "",
        "Written by `make verdicts`. The procedure that judges benchmarks (`src/grampus/bench/"
        "statistics`, ADR 23) is let loose on simulated machines whose truth is known, and what it "
        "says is counted. Behind each share stands its exact 95% binomial interval (Clopper and "
        "Pearson). No benchmark was run for this page: it is about the method, not about Ceph.",
        "",
        verdict,
        "",
        *_machines(),
        *_suites(tried),
        *_environments(tried.environments),
        *_false_alarms(tried.alike),
        *_power(tried.different),
        *_coverage(tried),
        *_steadiness(tried.series),
        *_several(tried.several),
        "## What it ran on",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        f"Repeat it: `{repeat}`. The same seed gives the same figures.",
        "",
    ]
    return "\n".join(lines)


def _machines() -> list[str]:
    rows = [
        f"| {one.name} | {one.second:.0%} | {one.correlation:g} | {one.drift:.1%} "
        f"| {one.visit:.1%} | {one.visit_s} s "
        f"| {_beside(one.stall_chance, one.outlier_chance, one.arm_factor)} |"
        for one in NOISES
    ]
    return [
        "## The machines",
        "",
        "A round measures both arms once, in ABBA order. A second's throughput is normal and "
        "depends on the one before (AR(1)); the machine's level walks at random from visit to "
        "visit (*drift*), and each visit has an error of its own that nothing shares (*visit*).",
        "",
        "| noise | of a second | correlation | drift | visit | a visit takes | besides |",
        "|---|---:|---:|---:|---:|---:|---|",
        *rows,
        "",
    ]


def _beside(stall_chance: float, outlier_chance: float, arm_factor: float) -> str:
    if stall_chance:
        return f"a stall of 2 s begins in {stall_chance:.0%} of the seconds"
    if outlier_chance:
        return f"{outlier_chance:.0%} of the visits lose 10 to 70%"
    return f"the arm {arm_factor:g} times as noisy" if arm_factor != 1 else ""


def _suites(tried: Tried) -> list[str]:
    rows = [
        f"| {alike.noise} | {alike.tries:,} | **{_share(alike.suite.answers)}** "
        f"| {_share(alike.suite.covered)} | {alike.suite.mean_rounds:.1f} "
        f"| {_share(different.suite.said('yes'))} | {_share(different.suite.said('no'))} "
        f"| {_share(different.suite.covered)} | {different.suite.mean_rounds:.1f} "
        f"| {different.suite.ended_early.value:.0%} |"
        for alike, different in zip(tried.alike, tried.different, strict=True)
    ]
    ratio = tried.different[0].ratio - 1 if tried.different else 0.0
    return [
        "## Runs of suites: the rule in use",
        "",
        f"This is how runs of suites end (`findings/enough.py`): looks after "
        f"{SUITE_LIMITS.min_rounds} rounds and every {SUITE_LIMITS.rounds_between_looks} more, "
        f"{SUITE_LIMITS.max_rounds} at most, as of most scales of the published experiments. "
        "A run ends at the first look at which its conclusion has an answer: the whole interval "
        "lies on one side of the conclusion's limit. It never gives up before its last round. The "
        f"conclusion here is that the arm is not behind (at least {SUITE_AT_LEAST:g}). With arms "
        "that are alike the truth is that limit itself, where neither answer is right: at most "
        f"{SUITE_LIMITS.error:.0%} are promised. With an arm that is {ratio:.0%} better *holds* is "
        "right and *does not hold* is wrong. *Covered*: the interval at the end holds the true "
        "ratio.",
        "",
        "| noise | runs, alike | answers, alike | covered, alike | rounds, mean, alike "
        f"| holds, {ratio:.0%} | does not hold, {ratio:.0%} | covered, {ratio:.0%} "
        f"| rounds, mean, {ratio:.0%} | ended early, {ratio:.0%} |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]


def _environments(trials: Sequence[EnvironmentTrial]) -> list[str]:
    rows = [
        f"| {one.share:.0%} | {one.anew.tries:,} | {_share(one.kept)} | **{_share(one.anew)}** |"
        for one in trials
    ]
    return [
        "## Arms on environments of their own",
        "",
        "Arms that need OSDs of their own do not share what they stand on, and two environments "
        "that are alike differ. The same rule and noise as `shared`, with arms that are alike, on "
        "environments that differ by so much (standard deviation). A scale with "
        "`environments: each-round` makes them anew for each round: at most 5% are promised. "
        "Environments that are kept give their difference to an arm, and more rounds do not help.",
        "",
        "| environments differ by | runs | answers, kept | answers, anew for each round |",
        "|---:|---:|---:|---:|",
        *rows,
        "",
    ]


def _false_alarms(trials: Sequence[ComparisonTrial]) -> list[str]:
    rows = [
        f"| {one.noise} | {one.tries:,} | **{_share(one.differences)}** "
        f"| {_share(one.plain_looks)} | {one.said('no-difference').value:.0%} "
        f"| {one.said('undecided').value:.0%} "
        f"| {one.mean_rounds:.1f} |"
        for one in trials
    ]
    return [
        "## A/A: two arms that are alike",
        "",
        "From here on *the procedure* is `decide_next` (`statistics/stopping.py`), which judges "
        "one comparison by itself, and also stops where going on is futile. No suite ends by it: "
        "their rule is that of the table above, and its intervals are made in the same way. "
        f"Looks after {LIMITS.min_rounds} rounds and every {LIMITS.rounds_between_looks} more, "
        f"{LIMITS.max_rounds} at most; the change that counts is {LIMITS.smallest_relevant:.0%}. "
        "*False alarms* are verdicts `better` or `worse`; at most 5% are promised. *Plain looks* "
        "is what would come of stopping at the first of the same looks at which a plain 95% "
        "interval leaves out 1.",
        "",
        "| noise | runs | false alarms | plain looks | no difference | undecided | rounds, mean |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]


def _power(trials: Sequence[ComparisonTrial]) -> list[str]:
    counts = sorted(trials[0].fixed_shown) if trials else []
    rows = [
        f"| {one.noise} | "
        + " | ".join(
            f"{one.fixed_shown[count].value:.0%} (±{one.fixed_width[count]:.1%})"
            for count in counts
        )
        + f" | {_share(one.said('better'))} | {one.mean_rounds:.1f} | "
        f"{one.reasons.get('futile', 0) / one.tries:.0%} | {_share(one.said('worse'))} |"
        for one in trials
    ]
    heads = " | ".join(f"{count} rounds" for count in counts)
    ratio = trials[0].ratio - 1 if trials else 0.0
    return [
        f"## Power: an arm that is {ratio:.0%} better",
        "",
        "First how often a fixed number of rounds shows it, looked at once, and in brackets the "
        "mean half-width of the interval; then how often the procedure of the table above does, "
        "with how many rounds on average, how often it gave up early, and how often it said the "
        "contrary.",
        "",
        f"| noise | {heads} | procedure | its rounds, mean | futile | said `worse` |",
        f"|---|{'---:|' * (len(counts) + 4)}",
        *rows,
        "",
    ]


def _coverage(tried: Tried) -> list[str]:
    rows = []
    for alike, different in zip(tried.alike, tried.different, strict=True):
        fixed = different.fixed_covered
        cells = [_share(fixed[count]) for count in sorted(fixed)]
        rows.append(
            f"| {alike.noise} | {' | '.join(cells)} | {_share(alike.covered)} "
            f"| {_share(different.covered)} |"
        )
    counts = sorted(tried.different[0].fixed_covered) if tried.different else []
    heads = " | ".join(f"{count} rounds" for count in counts)
    return [
        "## Coverage: how often the 95% interval holds the true ratio",
        "",
        "The procedure's coverage is promised. That of fixed numbers of rounds stands beside it: "
        "with many rounds of `uneven arms` it is a little less, since the geometric mean of rounds "
        "that differ by 12% lies 0.7% below the level that is taken for the truth here.",
        "",
        f"| noise | {heads} | procedure, A/A | procedure, 3% |",
        f"|---|{'---:|' * (len(counts) + 2)}",
        *rows,
        "",
    ]


def _steadiness(trials: Sequence[SeriesTrial]) -> list[str]:
    rows = [
        f"| {one.kind.name} | {_share(one.called_steady)} | {_share(_hidden(one))} "
        f"| {_share(Share(one.beyond_tolerance, one.tries))} | {one.measured_s:.0f} s "
        f"| {one.left_out_s:.0f} s | {_causes(one)} |"
        for one in trials
    ]
    limits = STEADY_LIMITS
    return [
        "## Steady states",
        "",
        f"Each series is measured for {FIRST_S} s, and longer when that is asked for, "
        f"{limits.max_s} s at most. *Hidden* is what must not be: called steady although, without "
        f"the noise, the halves of what was kept differ by more than {limits.hidden:.0%}; at most "
        f"{HIDDEN_ERROR:.1%} are promised. Differences between {limits.tolerance:.0%} and "
        f"{limits.hidden:.0%} are found when there is enough to see them. Whoever measures for "
        "a minute cannot know what happens every other minute, or that 5% are lost in the next: "
        "such series are called steady, and were so as far as they were measured.",
        "",
        "| series | called steady | hidden | halves differ by more than "
        f"{limits.tolerance:.0%} | measured, mean | left out | otherwise because of |",
        "|---|---:|---:|---:|---:|---:|---|",
        *rows,
        "",
    ]


def _several(trials: Sequence[SeveralTrial]) -> list[str]:
    rows = [
        f"| {one.different} of {one.comparisons}{_by(one)} | {one.error:.0%} | {one.runs:,} "
        f"| {one.mean_rounds:.1f} | {one.false_share_single:.1%} "
        f"| **{one.false_share_together:.1%}** | {_found(one, one.found_single)} "
        f"| {_found(one, one.found_together)} |"
        for one in trials
    ]
    return [
        "## Several comparisons in one run",
        "",
        "Machines as `quiet`; some arms are better, the others alike. *Error* is what each "
        "comparison may make over its looks. How many of the differences that are named are false, "
        "on average: each verdict for itself, and those that remain together (at most 5% are "
        "promised); and how many of the true ones are found. A comparison that stops as soon as it "
        "is significant for itself is often too weak to remain among many: a run of many "
        "comparisons is better measured with an error of 1% each.",
        "",
        "| truly different | error | runs | rounds, mean | false, each for itself "
        "| false, together | found, each | found, together |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]


def _by(trial: SeveralTrial) -> str:
    return f", by {trial.ratio - 1:.0%}" if trial.different else ""


def _found(trial: SeveralTrial, share: float) -> str:
    return f"{share:.0%}" if trial.different else "-"


def _hidden(trial: SeriesTrial) -> Share:
    return Share(trial.beyond_hidden, trial.tries)


def _causes(trial: SeriesTrial) -> str:
    ordered = sorted(trial.causes.items(), key=lambda one: -one[1])
    return ", ".join(f"{cause} {count / trial.tries:.0%}" for cause, count in ordered)


def _share(share: Share) -> str:
    low, high = share.interval
    return f"{share.value:.1%} ({low:.1%} to {high:.1%})"
