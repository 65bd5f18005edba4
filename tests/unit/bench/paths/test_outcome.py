"""Results, comparisons, differences and verdicts, from made-up figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.bench.latency.histogram import histogram_of_latencies
from grampus.bench.paths.load import Figure
from grampus.bench.paths.outcome import (
    RoundFigure,
    decide_comparisons,
    decide_differences,
    decide_results,
    describe_samples,
)
from grampus.bench.paths.suite import SuiteTarget
from grampus.bench.paths.targets import decide_targets
from grampus.state.runs import PathsTarget


def figure(
    round_number: int,
    arm: str,
    throughput: float,
    *,
    measure: str = "16k-randread-qd1",
    latency_us: float = 100.0,
    cpu_us: float | None = 10.0,
    operations: int = 10,
    flush_us: float | None = None,
) -> RoundFigure:
    flush = [] if flush_us is None else [int(flush_us * 1000)] * operations
    return RoundFigure(
        round_number,
        arm,
        Figure(
            measure=measure,
            started_at_s=float(round_number),
            measured_s=0.5,
            operations=operations,
            throughput=throughput,
            latency_avg_us=latency_us,
            cpu_us_per_operation=cpu_us,
            latency=histogram_of_latencies([int(latency_us * 1000)] * operations, source="fio"),
            flush=histogram_of_latencies(flush, source="fio"),
        ),
    )


URING, RBD = "volumed-uring-raw", "rbd"
# Ratios 0.8, 1.0, 1.2, 0.9, 1.1; latencies 10, 20, ..., 50 us longer.
FIGURES = [
    one
    for number, (ours, theirs) in enumerate(
        [(80, 100), (200, 200), (60, 50), (90, 100), (110, 100)], start=1
    )
    for one in (
        figure(number, RBD, theirs, latency_us=100.0),
        figure(number, URING, ours, latency_us=100.0 + 10 * number),
    )
]


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    (found,) = decide_comparisons(FIGURES, latency_bound=[])
    # The ratio of the medians would be 90 / 100.
    assert found.ratio == pytest.approx(1.0)
    assert (found.ratio_low, found.ratio_high) == (pytest.approx(0.8), pytest.approx(1.2))
    assert (found.arm, found.against, found.rounds) == (URING, RBD, 5)
    assert found.confidence == pytest.approx(0.9375)
    assert (found.measure, found.quantity) == ("16k-randread-qd1", "throughput")


def test_where_latency_is_the_paths_own_it_is_compared_too() -> None:
    comparisons = decide_comparisons(FIGURES, latency_bound=["16k-randread-qd1"])
    assert [one.quantity for one in comparisons] == ["throughput", "latency-avg"]
    assert comparisons[1].measure == "16k-randread-qd1-latency-avg"
    assert comparisons[1].ratio == pytest.approx(1.3)
    (difference,) = decide_differences(FIGURES, latency_bound=["16k-randread-qd1"])
    assert difference.difference_us == pytest.approx(30)
    assert difference.difference_low_us == pytest.approx(10)
    assert difference.difference_high_us == pytest.approx(50)
    assert decide_differences(FIGURES, latency_bound=[]) == ()


def test_only_rounds_that_have_both_count() -> None:
    figures = [one for one in FIGURES if not (one.round in (1, 4) and one.arm == RBD)]
    figures = [one for one in figures if not (one.round == 5 and one.arm == URING)]
    (found,) = decide_comparisons(figures, latency_bound=[])
    assert found.rounds == 2
    assert found.ratio == pytest.approx(1.1)


def test_ways_without_a_common_measure_are_not_compared() -> None:
    figures = [figure(1, URING, 5.0), figure(1, RBD, 5.0, measure="1m-read-qd16")]
    assert decide_comparisons(figures, latency_bound=[]) == ()


def test_nothing_is_divided_by_zero() -> None:
    figures = [figure(1, URING, 5.0), figure(1, RBD, 0.0)]
    assert decide_comparisons(figures, latency_bound=[]) == ()


def test_a_cost_is_compared_as_one() -> None:
    figures = [
        replace(one, figure=replace(one.figure, measure="cost", latency_avg_us=None))
        for number in range(1, 6)
        for one in (figure(number, "direct", 8.0), figure(number, "journal", 2.0))
    ]
    (found,) = decide_comparisons(figures, latency_bound=[], costs=["cost"])
    assert (found.arm, found.against, found.quantity) == ("journal", "direct", "cost")
    assert found.ratio == pytest.approx(0.25)
    (result, _) = decide_results(figures)
    assert (result.throughput, result.latency_avg_us) == (8.0, None)
    assert describe_samples(figures)[0].latency_avg_us is None


def test_the_write_paths_are_held_against_direct_and_the_local_disk() -> None:
    arms = {"direct": 100.0, "journal": 400.0, "cache": 1000.0, "local": 2000.0}
    figures = [figure(1, arm, throughput) for arm, throughput in arms.items()]
    found = decide_comparisons(figures, latency_bound=[])
    assert {(one.arm, one.against): one.ratio for one in found} == {
        ("journal", "direct"): 4.0,
        ("cache", "direct"): 10.0,
        ("direct", "local"): 0.05,
        ("journal", "local"): 0.2,
        ("cache", "local"): 0.5,
    }


def test_results_merge_histograms_and_take_medians() -> None:
    figures = [
        figure(1, RBD, 100.0, latency_us=50.0, operations=900, cpu_us=1.0),
        figure(2, RBD, 300.0, latency_us=400.0, operations=100, cpu_us=None),
        figure(3, RBD, 120.0, latency_us=50.0, operations=9000, cpu_us=5.0),
    ]
    (result,) = decide_results(figures)
    assert (result.rounds, result.operations, result.throughput) == (3, 10_000, 120.0)
    assert result.latency_avg_us == pytest.approx((9900 * 50 + 100 * 400) / 10_000)
    # A bucket of fio's is at most 1/64 of its latency wide.
    assert (result.latency_p50_us, result.latency_p99_us) == pytest.approx((50.0, 50.0), rel=1 / 64)
    assert result.latency_p999_us == pytest.approx(400.0, rel=1 / 64)
    assert result.cpu_us_per_operation == 3.0
    assert result.flush_p50_us is None


def test_results_tell_flushes_apart() -> None:
    counted = figure(1, RBD, 100.0, latency_us=700.0, flush_us=3.0, operations=1000)
    (result,) = decide_results([counted])
    assert (result.latency_p99_us, result.flush_p99_us) == (700.0, 3.0)
    assert result.latency_p999_us is None, "one operation in a thousand is slower"
    (unknown,) = decide_results([figure(1, RBD, 100.0, cpu_us=None)])
    assert unknown.cpu_us_per_operation is None


def test_samples_keep_the_order() -> None:
    samples = describe_samples(FIGURES)
    assert [(one.round, one.arm) for one in samples[:3]] == [(1, RBD), (1, URING), (2, RBD)]
    assert samples[1].throughput == 80


def verdict(target: SuiteTarget, figures: list[RoundFigure]) -> PathsTarget:
    bound = ["16k-randread-qd1"]
    (found,) = decide_targets(
        [target],
        decide_comparisons(figures, latency_bound=bound),
        decide_differences(figures, latency_bound=bound),
    )
    return found


def target(**changed: object) -> SuiteTarget:
    values: dict[str, object] = {
        "name": "t",
        "title": "T",
        "arms": [URING, "volumed-classic-raw"],
        "against": RBD,
        "measures": ["16k-randread-qd1"],
    }
    return SuiteTarget.model_validate(values | changed)


@pytest.mark.parametrize(
    ("limit", "reached"),
    [
        ({"at_least": 0.9}, True),
        ({"at_least": 1.0}, True),
        ({"at_least": 1.01}, False),
        ({"at_most": 1.0}, True),
        ({"at_most": 0.99}, False),
        ({"added_latency_at_most_us": 30}, True),
        ({"added_latency_at_most_us": 29.9}, False),
    ],
)
def test_the_median_decides(limit: dict[str, float], reached: bool) -> None:
    found = verdict(target(**limit), FIGURES)
    assert found.reached is reached
    is_ratio = "added_latency_at_most_us" not in limit
    assert found.value == pytest.approx(1.0 if is_ratio else 30)
    assert found.quantity == ("ratio" if is_ratio else "added-latency-us")
    assert (found.at_least, found.at_most) == (
        limit.get("at_least"),
        limit.get("at_most", limit.get("added_latency_at_most_us")),
    )
    assert found.rounds == 5


@pytest.mark.parametrize(
    ("limit", "note"),
    [
        ({"at_least": 0.8}, ""),
        ({"at_least": 0.81}, "close: the interval holds the limit"),
        ({"at_least": 1.21}, ""),
        ({"at_most": 1.2}, ""),
        ({"at_most": 1.19}, "close: the interval holds the limit"),
        ({"added_latency_at_most_us": 50}, ""),
        ({"added_latency_at_most_us": 49}, "close: the interval holds the limit"),
        ({"added_latency_at_most_us": 9}, ""),
    ],
)
def test_a_verdict_that_another_run_may_turn_is_said_to_be_close(
    limit: dict[str, float], note: str
) -> None:
    assert verdict(target(**limit), FIGURES).note == note


def test_too_few_rounds_decide_nothing() -> None:
    found = verdict(target(at_least=0.1), [one for one in FIGURES if one.round < 5])
    assert found.reached is None
    assert found.value is not None
    assert "fewer than 5" in found.note


def test_figures_of_minutes_decide_sooner() -> None:
    figures = [one for one in FIGURES if one.round <= 3]
    comparisons = decide_comparisons(figures, latency_bound=[])
    (found,) = decide_targets([target(at_least=0.1)], comparisons, [], judged_from_rounds=3)
    assert (found.reached, found.rounds) == (True, 3)


def test_the_first_arm_that_was_measured_is_judged() -> None:
    figures = [one for one in FIGURES if one.arm == RBD]
    figures += [figure(number, "volumed-classic-raw", 50.0) for number in range(1, 6)]
    found = verdict(target(at_least=0.9), figures)
    assert (found.arm, found.reached) == ("volumed-classic-raw", False)


def test_what_was_not_measured_is_not_known() -> None:
    found = verdict(target(at_least=0.9), [figure(1, RBD, 1.0)])
    assert (found.arm, found.value, found.reached, found.note) == (
        URING,
        None,
        None,
        "not measured",
    )
