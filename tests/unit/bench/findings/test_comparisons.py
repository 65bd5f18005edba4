"""What an arm does against the baseline, round by round."""

from __future__ import annotations

import pytest

from grampus.bench.findings.comparisons import decide_comparisons, scale_of
from grampus.bench.matrix.cells import Cell
from grampus.core.errors import GrampusError
from tests.unit.bench.findings.made_matrix import (
    Seen,
    made_figures,
    made_latency,
    made_matrix_run,
    made_text,
)

# The machine's level, which the two cells of a round share.
LEVELS = (1.0, 1.6, 0.7, 1.2, 0.9, 1.4)


def test_a_difference_that_the_machine_s_level_would_hide_is_found_in_pairs() -> None:
    def seen(cell: Cell, number: int) -> Seen:
        faster = 1.2 + 0.002 * number if cell.point.media == "nvme" else 1.0
        return made_figures(100 * LEVELS[number - 1] * faster)

    suite, run, trials = made_matrix_run(seen, rounds=6)
    found = decide_comparisons(suite, run, trials).found
    throughputs = [one for one in found if one.quantity == "qps"]
    assert [(one.arm, one.baseline, one.name) for one in throughputs] == [
        ("nvme", "hdd", "threads 1"),
        ("nvme", "hdd", "threads 8"),
    ]
    for one in throughputs:
        assert one.word == "better"
        assert one.effect is not None
        assert one.effect.ratio == pytest.approx(1.207, abs=0.001)
        assert one.effect.low is not None
        assert one.effect.low > 1.19
        assert one.remains is True


def test_latencies_are_compared_by_percentiles_of_each_round() -> None:
    def seen(cell: Cell, number: int) -> Seen:
        slow = 1000.0 if cell.point.media == "nvme" else 4000.0
        latency = made_latency(*[500.0] * 90, *[slow * (1 + 0.05 * number)] * 10)
        return made_figures(100 + number, latency=latency)

    suite, run, trials = made_matrix_run(seen, rounds=6)
    (one, _) = [
        one for one in decide_comparisons(suite, run, trials).found if one.quantity == "latency-p99"
    ]
    assert (one.word, one.better) == ("better", "less")
    assert one.effect is not None
    assert one.effect.ratio == pytest.approx(0.25, rel=0.03)


@pytest.mark.parametrize(
    ("flash", "reason"),
    [
        ("It could not be attached.", "It could not be attached."),
        (
            made_figures(100, client_bound="yes", evidence=("It used all of its cores.",)),
            "The load generator was the limit in 3 of 3 rounds. It used all of its cores.",
        ),
        (made_figures(100, loop="open"), "An open loop is not compared with a closed one."),
        (made_figures(100, queries_per_s=None), "The run has no queries a second of it."),
        (
            made_figures(100, queries_per_s=0.0),
            "Its qps is 0, and a ratio to 0 is undefined.",
        ),
        (None, "It was not measured."),
    ],
)
def test_what_is_not_compared_has_its_reason(flash: Seen, reason: str) -> None:
    suite, run, trials = made_matrix_run(
        lambda cell, number: flash if cell.point.media == "nvme" else made_figures(100)
    )
    (one, *_) = decide_comparisons(suite, run, trials).found
    assert (one.word, one.reason, one.effect) == ("not-compared", reason, None)
    assert reason in one.sentence


def test_only_rounds_that_measured_both_are_paired() -> None:
    def seen(cell: Cell, number: int) -> Seen:
        if cell.point.media == "nvme":
            return made_figures(200 + number) if number != 1 else "Down."
        return made_figures(100 + number) if number != 2 else "Down."

    suite, run, trials = made_matrix_run(seen, rounds=4)
    (one, *_) = decide_comparisons(suite, run, trials).found
    assert one.effect is not None
    assert one.effect.rounds == 2


def test_the_line_under_the_table_counts_what_chance_would_give() -> None:
    def seen(cell: Cell, number: int) -> Seen:
        return made_figures((200 if cell.point.media == "nvme" else 100) + number % 3)

    suite, run, trials = made_matrix_run(seen, rounds=6)
    line = decide_comparisons(suite, run, trials).line
    assert line.startswith("2 of 2 comparisons are better or worse; if nothing differed, chance")


@pytest.mark.parametrize(
    ("noise", "rounds", "shown"), [(0.01, 6, True), (0.1, 6, True), (0.4, 6, True), (0.1, 1, False)]
)
def test_a_page_says_which_difference_it_would_have_shown(
    noise: float, rounds: int, shown: bool
) -> None:
    """The noise of the worst pair counts: threads 8 has ten times that of threads 1."""

    def seen(cell: Cell, number: int) -> Seen:
        own = noise if cell.point.threads == 8 else noise / 10
        sign = 1 if (number + (cell.point.media == "nvme")) % 2 else -1
        return made_figures(100 * (1 + sign * own))

    suite, run, trials = made_matrix_run(seen, rounds=rounds)
    found = decide_comparisons(suite, run, trials)
    assert ("four times in five" in found.line) == shown
    if shown:
        most = max(one.effect.detectable or 0 for one in found.found if one.effect is not None)
        assert most > noise
        said = "more than a doubling" if most > 1 else f"{100 * most:.2g}%"
        assert found.line.endswith(f"four times in five: {said} of qps.")


def test_requests_at_a_rate_have_no_throughput_to_compare() -> None:
    text = made_text(
        fixed={"workload": "update-index", "rate": 100.0},
        conclusions=[
            {
                "name": "faster",
                "says": "x",
                "test": "ratio",
                "quantity": "latency-p99",
                "arm": "nvme",
                "at_most": 1,
            }
        ],
    )
    suite, run, trials = made_matrix_run(
        lambda cell, number: made_figures(
            100, loop="open", latency=made_latency(*[1000.0 + number] * 100)
        ),
        text=text,
    )
    found = decide_comparisons(suite, run, trials).found
    assert {one.quantity for one in found} == {"latency-p99"}
    assert found[0].effect is not None


def test_a_run_of_an_unknown_scale_is_refused() -> None:
    _, run, _ = made_matrix_run(lambda cell, number: None)
    with pytest.raises(GrampusError, match="unknown scale huge"):
        scale_of(run.model_copy(update={"scale": "huge"}))
