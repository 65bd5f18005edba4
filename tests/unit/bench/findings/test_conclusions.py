"""Which conclusions hold: by intervals against limits, and never by what was not measured."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grampus.bench.findings.conclusions import (
    Truth,
    all_of,
    any_of,
    decide_conclusions,
)
from grampus.bench.latency.histogram import Span, histogram_of
from grampus.bench.latency.histogram_documents import render_histogram
from grampus.bench.matrix.cells import Cell
from grampus.bench.statistics.effect import decide_effect
from grampus.state.matrix_runs import TrialSecond
from tests.unit.bench.findings.made_conclusions import (
    NOISE,
    RATIO,
    TREND,
    found_along,
    found_ratio,
)
from tests.unit.bench.findings.made_matrix import (
    Seen,
    made_figures,
    made_latency,
    made_matrix_run,
    made_text,
)
from tests.unit.bench.layers.made_why import made_why


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"at_least": 1.5}, "holds"),
        ({"at_most": 2.5}, "holds"),
        ({"at_least": 1.5, "at_most": 2.5}, "holds"),
        ({"at_least": 2.5}, "does-not-hold"),
        ({"at_most": 1.5}, "does-not-hold"),
        ({"at_least": 0.5, "at_most": 1.5}, "does-not-hold"),
    ],
)
def test_a_ratio_within_and_outside_of_its_limits(limits: dict[str, float], word: str) -> None:
    """Both arms share the noise of a round, so that the interval is that of 2 alone."""
    found = found_ratio(100, 200, **limits)
    assert found.word == word
    (claim,) = found.claims
    assert claim.ratio == pytest.approx(2)
    assert claim.what == "nvme over hdd"


@pytest.mark.parametrize("limits", [{"at_least": 2.0}, {"at_most": 2.0}])
def test_an_interval_across_the_limit_decides_nothing(limits: dict[str, float]) -> None:
    text = made_text(dimensions={"media": ["hdd", "nvme"]}, conclusions=[{**RATIO, **limits}])

    def seen(cell: Cell, number: int) -> Seen:
        return made_figures(200 * NOISE[number - 1] if cell.point.media == "nvme" else 100)

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == "undecided"
    (claim,) = found.claims
    assert claim.low is not None
    assert claim.high is not None
    assert claim.low < 2 < claim.high


@pytest.mark.parametrize(
    ("at_least", "swing", "said", "share"),
    [
        # Rounds differ by 10 %. Their seconds vary by as much as explains it, or not at all.
        (0.92, 30.0, r"\d+ rounds of (12|24|48) s would decide it four times in five; 1", 1.0),
        (0.92, 0.0, r"\d+ rounds of 6 s would decide it four times in five; 0", 0.0),
        (0.92, None, r"\d+ rounds of 6 s would decide it four times in five\.", None),
        (1.0019, 0.0, r"99 rounds would not decide it\.", None),
    ],
)
def test_an_open_conclusion_says_what_would_decide_it(
    at_least: float, swing: float | None, said: str, share: float | None
) -> None:
    """`swing` is that of the seconds of a trial around 100; None: they were not kept."""
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]}, conclusions=[{**RATIO, "at_least": at_least}]
    )

    def seen(cell: Cell, number: int) -> Seen:
        tps = 100 * (1 + 0.1 * (-1) ** number) if cell.point.media == "nvme" else 100
        seconds = [] if swing is None else [100 + swing * (-1) ** at for at in range(6)]
        return made_figures(
            tps,
            seconds=tuple(
                TrialSecond(at_s=at, operations=each, errors=0) for at, each in enumerate(seconds)
            ),
        )

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == "undecided"
    assert re.search(said, found.sentence), found.sentence
    needed = found.claims[0].needed
    assert (None if needed is None else needed.short_share) == (
        None if share is None else pytest.approx(share)
    )


def test_a_conclusion_with_an_answer_needs_nothing() -> None:
    found = found_ratio(100, 200, at_least=1.5)
    assert found.claims[0].needed is None
    assert "four times in five" not in found.sentence


def test_one_round_has_no_interval_and_decides_nothing() -> None:
    found = found_ratio(100, 1000, rounds=1, at_least=2)
    assert found.word == "undecided"
    assert found.claims[0].ratio == pytest.approx(10)
    assert "Two rounds are the least that has an interval." in found.sentence


@pytest.mark.parametrize(("rounds", "word"), [(5, "undecided"), (6, "holds")])
def test_a_few_equal_ratios_are_no_absence_of_noise(rounds: int, word: str) -> None:
    assert found_ratio(100, 200, rounds=rounds, at_least=1.5).word == word


@pytest.mark.parametrize(
    ("nvme", "reason"),
    [
        ("There is no flash.", "There is no flash."),
        (
            made_figures(1000, client_bound="yes", evidence=("It used all of its cores.",)),
            "The load generator was the limit in 6 of 6 rounds. It used all of its cores.",
        ),
        (
            made_figures(1000, undeciding=("It was emulated.",)),
            "It was emulated.",
        ),
        (
            made_figures(1000, why=made_why(passed_limit="The device did 147 % of its limit.")),
            "The device did 147 % of its limit. That was so in 6 of 6 rounds.",
        ),
        (made_figures(1000, loop="open"), "An open loop is not compared with a closed one."),
        (None, "It was not measured."),
    ],
)
def test_what_has_no_figures_or_those_of_the_client_is_not_tested(nvme: Seen, reason: str) -> None:
    """Its ratio of 10 would hold."""
    found = found_ratio(100, nvme, at_least=2)
    assert found.word == "not-tested"
    assert found.claims[0].reason == reason
    assert found.claims[0].ratio is None
    assert found.sentence == f"Not tested: {reason}"


@pytest.mark.parametrize(("shape_only", "word"), [(True, "not-tested"), (False, "holds")])
def test_what_no_lab_can_show_is_tested_elsewhere_alone(shape_only: bool, word: str) -> None:
    conclusion = {**RATIO, "at_least": 2, "not_in_labs": "Both media are alike in a lab."}
    text = made_text(dimensions={"media": ["hdd", "nvme"]}, conclusions=[conclusion])

    def seen(cell: Cell, number: int) -> Seen:
        return made_figures(300 * NOISE[number - 1] if cell.point.media == "nvme" else 100)

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6, shape_only=shape_only)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == word
    if shape_only:
        assert found.sentence == "Not tested: Both media are alike in a lab."


def test_one_client_bound_round_is_enough_not_to_decide() -> None:
    text = made_text(dimensions={"media": ["hdd", "nvme"]}, conclusions=[{**RATIO, "at_least": 2}])

    def seen(cell: Cell, number: int) -> Seen:
        bound = "yes" if cell.point.media == "nvme" and number == 3 else "no"
        return made_figures(1000 if cell.point.media == "nvme" else 100, client_bound=bound)

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6)
    assert [one.word for one in decide_conclusions(suite, run, trials)] == ["not-tested"]


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        (300, 300, "holds"),
        (300, 100, "does-not-hold"),
        ("Down.", 300, "undecided"),
        ("Down.", 100, "does-not-hold"),
        ("Down.", "Full.", "not-tested"),
    ],
)
def test_a_conclusion_holds_when_it_does_in_all_pairs(
    first: float | str, second: float | str, word: str
) -> None:
    text = made_text(conclusions=[{**RATIO, "at_least": 2}])

    def seen(cell: Cell, number: int) -> Seen:
        if cell.point.media == "hdd":
            return made_figures(100 * NOISE[number - 1])
        value = first if cell.point.threads == 1 else second
        return value if isinstance(value, str) else made_figures(value)

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == word
    assert [one.what.split(":")[0] for one in found.claims if one.ratio] in (
        ["threads 1", "threads 8"],
        ["threads 8"],
        [],
    )
    if first == "Down." and second == 300:
        assert "Not tested in 1 of 2: Down." in found.sentence


@pytest.mark.parametrize(
    ("quantity", "operations", "word"),
    [
        ("latency-p99", 99, "not-tested"),
        ("latency-p99", 100, "holds"),
        ("latency-p9999", 328, "not-tested"),
        ("latency-p9999", 10_000, "holds"),
    ],
)
def test_a_percentile_takes_operations_beyond_it(quantity: str, operations: int, word: str) -> None:
    seen = {
        media: made_figures(100, latency=made_latency(*[latency_us] * operations))
        for media, latency_us in (("hdd", 2000.0), ("nvme", 1000.0))
    }
    conclusion = {**RATIO, "quantity": quantity, "at_most": 0.8}
    found = found_along(conclusion, seen, along="media")
    assert found.word == word
    assert ("operations in a round, and it has fewer." in found.sentence) == (word == "not-tested")


def test_our_figure_stands_with_its_interval_beside_the_published_one() -> None:
    found = found_ratio(100, 200, at_least=1.5, published=5.0)
    assert found.published == 5
    assert found.sentence == (
        "Of tps, nvme over hdd: 2 (95% interval 2 to 2, 6 rounds). It holds from 1.5 on. "
        "The suite expects 5."
    )
    assert found_ratio(100, 200, at_least=1.5).sentence.endswith("It holds from 1.5 on.")


def test_a_conclusion_that_repeats_another_says_so() -> None:
    latency = {**RATIO, "name": "sooner", "quantity": "latency-avg", "at_most": 0.9}
    text = made_text(conclusions=[{**RATIO, "at_least": 1.5}, {**latency, "repeats": "x"}])
    found = decide_conclusions(*made_matrix_run(lambda _cell, _round: made_figures(9), text=text))
    assert [one.repeats for one in found] == [None, "x"]


@pytest.mark.parametrize(
    ("published", "said"),
    [({}, "The source has no figure for it."), ({"published": 2}, "The source has 2.")],
)
def test_only_a_suite_with_a_source_has_its_figure_or_lacks_it(
    published: dict[str, int], said: str
) -> None:
    suite = {"name": "made-up-more", "source": "made-up", "experiment": "more"}
    text = made_text(conclusions=[{**RATIO, "at_least": 1.5, **published}], **suite)
    found = decide_conclusions(*made_matrix_run(lambda _cell, _round: made_figures(9), text=text))
    assert found[0].sentence.endswith(said)


@pytest.mark.parametrize(
    ("threads", "word", "printed"),
    [([8], "does-not-hold", "95%"), ([4, 8], "undecided", "97.5%")],
)
def test_one_of_several_pairs_refutes_only_with_its_share_of_the_error(
    threads: list[int], word: str, printed: str
) -> None:
    """Each of ten workloads would refute what is true in 5% of the runs: together, in 40%."""
    pairs = [(100 * noise, 100.0) for noise in NOISE]
    alone = decide_effect(pairs, better="more", level=0.05).high
    shared = decide_effect(pairs, better="more", level=0.025).high
    assert alone is not None
    assert shared is not None
    text = made_text(
        dimensions={"media": ["hdd", "nvme"], "threads": threads},
        conclusions=[{**RATIO, "at_least": (alone + shared) / 2}],
    )

    def seen(cell: Cell, number: int) -> Seen:
        return made_figures(100 * NOISE[number - 1] if cell.point.media == "nvme" else 100)

    suite, run, trials = made_matrix_run(seen, text=text, rounds=6)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == word
    assert f"({printed} interval" in found.sentence


@pytest.mark.parametrize(
    ("quantity", "figures", "ratio"),
    [
        ("tps", ({"operations_per_s": 50.0}, {"operations_per_s": 100.0}), 2),
        ("qps", ({"queries_per_s": 50.0}, {"queries_per_s": 200.0}), 4),
        (
            "latency-avg",
            ({"latency": made_latency(1000, 3000)}, {"latency": made_latency(500, 500)}),
            0.25,
        ),
        (
            "latency-p99",
            (
                {"latency": made_latency(*[10] * 98, *[1000] * 2)},
                {"latency": made_latency(*[10] * 98, *[3000] * 2)},
            ),
            3,
        ),
        (
            "latency-p9999",
            (
                {"latency": made_latency(*[10] * 9998, *[1000] * 2)},
                {"latency": made_latency(*[10] * 9998, *[2000] * 2)},
            ),
            2,
        ),
        ("mb-per-s", ({"moved_bytes_per_s": 1e6}, {"moved_bytes_per_s": 3e6}), 3),
        ("osd-device-busy", ({"osd_device_busy_share": 0.2}, {"osd_device_busy_share": 0.8}), 4),
        # A disk that a limit holds back is not busy, and at its limit.
        (
            "osd-device-use",
            (
                {"why": made_why(busy=0.25), "osd_device_busy_share": 0.2},
                {"why": made_why(busy=1.0), "osd_device_busy_share": 0.1},
            ),
            4,
        ),
        ("osd-device-latency", ({"osd_device_latency_ms": 1}, {"osd_device_latency_ms": 5}), 5),
    ],
)
def test_each_quantity_is_read_where_it_is(
    quantity: str, figures: tuple[dict[str, Any], dict[str, Any]], ratio: float
) -> None:
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]},
        conclusions=[{**RATIO, "quantity": quantity, "at_least": 0.01}],
    )

    def seen(cell: Cell, number: int) -> Seen:
        changed = figures[cell.point.media == "nvme"]
        return made_figures(**{"operations_per_s": 7.0, **changed})

    suite, run, trials = made_matrix_run(seen, text=text)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.claims[0].ratio == pytest.approx(ratio, rel=0.03)


@pytest.mark.parametrize("workload", ["fio-randwrite", "rbd-randwrite"])
def test_iops_are_those_of_volumes(workload: str) -> None:
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]},
        fixed={"workload": workload},
        conclusions=[{**RATIO, "quantity": "iops", "at_least": 2}],
    )
    suite, run, trials = made_matrix_run(
        lambda cell, number: made_figures(300 if cell.point.media == "nvme" else 100),
        text=text,
        rounds=6,
    )
    assert [one.word for one in decide_conclusions(suite, run, trials)] == ["holds"]


@pytest.mark.parametrize("quantity", ["iops", "iops-per-gb"])
def test_of_databases_there_are_no_iops_that_could_be_taken_for_transactions(quantity: str) -> None:
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]},
        conclusions=[{**RATIO, "quantity": quantity, "at_least": 2}],
    )
    suite, run, trials = made_matrix_run(lambda cell, number: made_figures(100), text=text)
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == "not-tested"
    assert "The run has no I/O of the database's volumes" in found.sentence


@pytest.mark.parametrize(
    ("quantity", "hdd", "nvme", "word"),
    [
        ("iops", {"volume_iops": 100.0}, {"volume_iops": 250.0}, "holds"),
        ("iops", {"volume_iops": 100.0}, {"volume_iops": 110.0}, "does-not-hold"),
        (
            "iops-per-gb",
            {"volume_iops": 100.0, "provisioned_bytes": 4e9},
            {"volume_iops": 100.0, "provisioned_bytes": 1e9},
            "holds",
        ),
        (
            "iops-per-gb",
            {"volume_iops": 100.0, "provisioned_bytes": 1e9},
            {"volume_iops": 300.0, "provisioned_bytes": 4e9},
            "does-not-hold",
        ),
        ("iops-per-gb", {"volume_iops": 100.0}, {"volume_iops": 300.0}, "not-tested"),
    ],
)
def test_iops_of_databases_are_those_of_their_volumes(
    quantity: str, hdd: dict[str, float], nvme: dict[str, float], word: str
) -> None:
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]},
        conclusions=[{**RATIO, "quantity": quantity, "at_least": 2}],
    )
    suite, run, trials = made_matrix_run(
        lambda cell, number: made_figures(100, **(nvme if cell.point.media == "nvme" else hdd)),
        text=text,
        rounds=6,
    )
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == word


def test_of_each_database_is_a_share_of_all() -> None:
    text = made_text(
        dimensions={"databases": [1, 4]},
        arms=None,
        baseline=None,
        conclusions=[
            {
                **TREND,
                "quantity": "tps-per-database",
                "along": "databases",
                "direction": "falls",
                "tolerance": 0.2,
            }
        ],
    )
    suite, run, trials = made_matrix_run(
        lambda cell, number: made_figures(100 * cell.point.databases**0.5), text=text, rounds=6
    )
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == "holds"
    assert found.claims[0].ratio == pytest.approx(0.5)


def test_a_percentile_of_which_only_bounds_are_known_is_no_figure() -> None:
    low, high = Span(1_000, 1_000), Span(10**8, 10**8)
    coarse = render_histogram(
        histogram_of(
            [(1_000, 10**8, 100)], total_ns=10**8, fastest=low, slowest=high, source="rados"
        )
    )
    text = made_text(
        dimensions={"media": ["hdd", "nvme"]},
        conclusions=[{**RATIO, "quantity": "latency-p99", "at_least": 2}],
    )
    suite, run, trials = made_matrix_run(
        lambda cell, number: made_figures(100, latency=coarse), text=text
    )
    (found,) = decide_conclusions(suite, run, trials)
    assert found.word == "not-tested"
    assert "Of its 99th percentile only wide bounds are known." in found.sentence


YES, NO, UNKNOWN, UNTESTED = "yes", "no", "unknown", "untested"


@pytest.mark.parametrize(
    ("truths", "every", "some"),
    [
        ([YES, YES], YES, YES),
        ([YES, NO], NO, YES),
        ([NO, NO], NO, NO),
        ([YES, UNKNOWN], UNKNOWN, YES),
        ([NO, UNKNOWN], NO, UNKNOWN),
        ([YES, UNTESTED], UNKNOWN, YES),
        ([NO, UNTESTED], NO, UNKNOWN),
        ([UNKNOWN, UNTESTED], UNKNOWN, UNKNOWN),
        ([UNTESTED, UNTESTED], UNTESTED, UNTESTED),
        ([], UNTESTED, UNTESTED),
    ],
)
def test_what_follows_of_several_claims(truths: list[Truth], every: Truth, some: Truth) -> None:
    assert (all_of(truths), any_of(truths)) == (every, some)
