"""What is said of a cell: its figures over the rounds, or why there are none."""

from __future__ import annotations

import pytest

from grampus.bench.findings.cells import CellFinding, decide_cells, merge_notes, spread_of
from grampus.bench.matrix.cells import Cell
from grampus.core.errors import GrampusError
from grampus.state.matrix_layers import Why
from grampus.state.matrix_runs import TrialSecond
from tests.unit.bench.findings.made_matrix import (
    Seen,
    made_figures,
    made_latency,
    made_matrix_run,
)
from tests.unit.bench.layers.made_why import made_timed_why, made_why


def _found(*rounds: Seen, **changed: object) -> CellFinding:
    """The first cell with these rounds; the others were not measured."""

    def seen(cell: Cell, number: int) -> Seen:
        return rounds[number - 1] if cell.point.media == "hdd" and cell.point.threads == 1 else None

    _, run, trials = made_matrix_run(seen, rounds=len(rounds), **changed)
    return decide_cells(run, trials)[0]


def test_throughput_is_a_geometric_mean_with_its_lowest_and_highest_round() -> None:
    found = _found(made_figures(100), made_figures(400), made_figures(200))
    spread = found.operations_per_s
    assert spread is not None
    assert spread.mean == pytest.approx(200)
    assert (spread.low, spread.high, spread.rounds) == (100, 400, 3)
    assert found.queries_per_s == spread
    assert (found.iops, found.mb_per_s) == (None, None)
    assert (found.planned, found.measured, found.marked, found.missing) == (3, 3, 0, 0)
    assert found.name == "update-index, threads 1, media hdd".removeprefix("update-index, ")


@pytest.mark.parametrize(("values", "mean"), [([8.0, 2.0], 4.0), ([5.0], 5.0), ([0.0, 100.0], 0.0)])
def test_geometric_mean(values: list[float], mean: float) -> None:
    spread = spread_of(values)
    assert spread is not None
    assert spread.mean == pytest.approx(mean)


@pytest.mark.parametrize(
    ("notes", "merged"),
    [
        ([], []),
        (["It paused."] * 2, ["It paused."]),
        (["13.3 % of it.", "9.3 % of it.", "10.1 % of it."], ["9.3 to 13.3 % of it."]),
        (
            ["Took 5 s of 10.", "Took 7 s of 10.", "Took 7 s of 9."],
            ["Took 5 to 7 s of 10.", "Took 7 s of 9."],
        ),
        (["2 of it.", "2 of it."], ["2 of it."]),
        (["The log of h1 is gone.", "That of h2."], ["The log of h1 is gone.", "That of h2."]),
    ],
)
def test_notes_of_rounds_are_merged(notes: list[str], merged: list[str]) -> None:
    assert merge_notes(notes) == merged


def test_no_value_has_no_spread() -> None:
    assert spread_of([]) is None


def test_percentiles_are_those_of_all_operations_together() -> None:
    """The mean of the rounds' medians (1 ms and 100 ms) would be 50.5 ms: nobody waited so long."""
    found = _found(
        made_figures(100, latency=made_latency(*[1000.0] * 900)),
        made_figures(100, latency=made_latency(*[100_000.0] * 100)),
        made_figures(100, latency=None),
    )
    assert found.latency is not None
    documents = [one.to_document() for one in found.latency.percentiles]
    assert [one["percent"] for one in documents] == [50, 90, 95, 99]
    p50, p90, *beyond = (one["latency_us"] for one in documents)
    assert [p50, p90] == [pytest.approx(1000, rel=0.02)] * 2
    assert beyond == [pytest.approx(100_000, rel=0.02)] * 2
    assert found.latency.average_us == pytest.approx(10_900)
    assert (found.latency.rounds, found.latency.operations) == (2, 1000)


@pytest.mark.parametrize(
    ("operations", "highest"),
    [(19, None), (20, 50), (99, 50), (100, 90), (328, 95), (999, 95), (1000, 99), (10**5, 99.99)],
)
def test_the_highest_percentile_is_one_that_the_operations_support(
    operations: int, highest: float | None
) -> None:
    """The 99.99th percentile of 328 operations is the slowest one: it is not told."""
    latencies = [1000.0 + number for number in range(operations)]
    found = _found(made_figures(100, latency=made_latency(*latencies)))
    assert found.latency is not None
    documents = [one.to_document() for one in found.latency.percentiles]
    assert max((one["percent"] for one in documents), default=None) == highest
    assert len(found.latency.sampled) == len(documents)
    for one, interval in zip(documents, found.latency.sampled, strict=True):
        bounds = interval.to_document()
        assert bounds["low_us"] <= one["low_us"] <= one["high_us"] <= bounds["high_us"]
        assert bounds["low_us"] < bounds["high_us"]


def test_marked_rounds_stand_beside_the_others_with_their_reasons() -> None:
    found = _found("An OSD was down.", made_figures(100), "An OSD was down.", "Full.", None)
    assert (found.planned, found.measured, found.marked, found.missing) == (5, 1, 3, 1)
    assert [(one.text, one.rounds) for one in found.reasons] == [
        ("An OSD was down.", (1, 3)),
        ("Full.", (4,)),
    ]
    assert found.no_figure is None
    assert found.operations_per_s is not None
    assert found.operations_per_s.mean == pytest.approx(100)


@pytest.mark.parametrize(
    ("rounds", "changed", "reason"),
    [
        (("Down.", "Down.", "Full."), {}, "Down. Full."),
        ((None, None), {"ended_at_s": None}, "It was not measured yet."),
        ((None, None), {}, "It was not measured."),
        ((None, None), {"cut_short": "The time was up."}, "The time was up."),
        (
            (None,),
            {"not_runnable": {"update-index, threads 1, media hdd": "There is no disk."}},
            "There is no disk.",
        ),
    ],
)
def test_a_cell_without_any_figure_has_a_reason_instead(
    rounds: tuple[Seen, ...], changed: dict[str, object], reason: str
) -> None:
    found = _found(*rounds, **changed)
    assert found.no_figure == reason
    assert found.operations_per_s is found.queries_per_s is found.latency is None
    assert (found.client_bound, found.steady, found.loop) == ("unknown", None, None)


def test_one_client_bound_round_marks_the_cell_with_its_evidence() -> None:
    found = _found(
        made_figures(100, evidence=("It used 20 % of its CPU limit.",)),
        made_figures(100, client_bound="yes", evidence=("It used all of its cores.",)),
    )
    assert found.client_bound == "yes"
    assert found.client_bound_rounds == (2,)
    assert found.evidence == ("It used all of its cores.",)


@pytest.mark.parametrize(
    ("seen", "word"),
    [(("no", "no"), "no"), (("no", "unknown"), "unknown"), (("unknown", "yes"), "yes")],
)
def test_client_bound_over_the_rounds(seen: tuple[str, ...], word: str) -> None:
    assert _found(*(made_figures(100, client_bound=one) for one in seen)).client_bound == word


@pytest.mark.parametrize(
    ("seen", "steady"),
    [
        ((True, True), True),
        ((True, False), False),
        ((None, True), True),
        ((None, False), False),
        ((None, None), None),
    ],
)
def test_steady_over_the_rounds(seen: tuple[bool | None, ...], steady: bool | None) -> None:
    assert _found(*(made_figures(100, steady=one) for one in seen)).steady is steady


@pytest.mark.parametrize(
    ("seconds", "steady", "reasons"),
    [
        ([100.0] * 8, True, ()),
        ([50.0] * 4 + [100.0] * 4, False, ("Over 4 trials, the second half is 100% above",)),
        ([100.0] * 2, None, ("2 s are too short to judge.",)),
    ],
)
def test_trials_that_are_too_short_are_judged_together(
    seconds: list[float], steady: bool | None, reasons: tuple[str, ...]
) -> None:
    series = tuple(TrialSecond(at_s=at, operations=one, errors=0) for at, one in enumerate(seconds))
    short = f"{len(seconds)} s are too short to judge."
    found = _found(
        *(made_figures(100, steady=None, seconds=series, unsteady_reason=short) for _ in range(4))
    )
    assert found.steady is steady
    assert len(found.unsteady_reasons) == len(reasons)
    for reason, start in zip(found.unsteady_reasons, reasons, strict=True):
        assert reason.startswith(start)


def test_errors_notes_and_reasons_of_unsteadiness_are_gathered() -> None:
    found = _found(
        made_figures(100, errors=2, reconnects=1, notes=("A.",), unsteady_reason="It rose."),
        made_figures(100, errors=3, notes=("A.", "B."), unsteady_reason="It rose."),
    )
    assert (found.errors, found.reconnects) == (5, 1)
    assert (found.notes, found.unsteady_reasons) == (("A.", "B."), ("It rose.",))


def test_of_two_trials_of_one_round_the_later_counts() -> None:
    _, run, trials = made_matrix_run(lambda cell, number: made_figures(100), rounds=1)
    again = trials[0].model_copy(update={"figures": made_figures(300)})
    (found, *_) = decide_cells(run, [*trials, again])
    assert (found.measured, found.operations_per_s and found.operations_per_s.mean) == (
        1,
        pytest.approx(300),
    )


def test_a_latency_that_cannot_be_read_is_no_latency_left_out() -> None:
    with pytest.raises(GrampusError) as raised:
        _found(made_figures(100, latency={"format": "other"}))
    assert raised.value.code == "latency-document"


def test_the_bottleneck_is_what_most_rounds_name() -> None:
    found = _found(
        made_figures(100, why=made_why("innodb", 0.5)),
        made_figures(100, why=made_why(busy=0.9)),
        made_figures(100, why=made_why(busy=1.0)),
    )
    assert (found.bottleneck, found.bottleneck_rounds) == ("osd-device", (2, 3))
    assert found.bottleneck_evidence[0] == "The device of osd-0@h1 was busy 90 % of the time."
    layers = {one.layer: (one.share, one.peak) for one in found.layers}
    assert layers == {
        "client": (pytest.approx(0.1), 0.2),
        "osd-device": (pytest.approx(0.8), 1.0),
    }
    assert found.monitor_cpu_cores == pytest.approx(0.02)


def test_times_are_means_of_the_rounds() -> None:
    found = _found(
        made_figures(100, why=made_timed_why("osd-device", 0.8, "volume", 0.1)),
        made_figures(100, why=made_timed_why("osd-device", 0.6, "network", 0.3)),
        # A round that nobody watched has none.
        made_figures(100),
    )
    assert (found.bottleneck, found.bottleneck_confidence) == ("osd-device", "high")
    times = {one.layer: (one.share, one.queued_share, one.ms) for one in found.times}
    assert times == {
        "osd-device": (pytest.approx(0.7), pytest.approx(0.35), pytest.approx(14)),
        # In the other round it added nothing.
        "network": (pytest.approx(0.15), pytest.approx(0.075), pytest.approx(3)),
        "volume": (pytest.approx(0.05), pytest.approx(0.025), pytest.approx(1)),
    }
    assert list(times) == ["osd-device", "network", "volume"]


@pytest.mark.parametrize(
    ("whys", "confidence"),
    [
        # Rounds that name different layers, of which the mean says another one than most.
        (
            [
                made_timed_why("volume", 0.5, "osd-device", 0.45, "low"),
                made_timed_why("volume", 0.5, "osd-device", 0.45, "low"),
                made_timed_why("osd-device", 0.9, "volume", 0.1),
            ],
            "low",
        ),
        # A load generator at its own limit is named whatever the times are.
        ([made_why("client", confidence="high")], "high"),
        ([made_why("volume")], None),
    ],
)
def test_how_sure_the_rounds_are_together(whys: list[Why], confidence: str | None) -> None:
    found = _found(*(made_figures(100, why=why) for why in whys))
    assert found.bottleneck_confidence == confidence


@pytest.mark.parametrize(
    ("rounds", "word", "numbers"),
    [
        ([None, None], "unknown", ()),
        ([made_why("unknown"), None], "unknown", ()),
        ([made_why("none"), made_why("unknown")], "none", (1,)),
        ([made_why("volume"), made_why("none")], "volume", (1,)),
    ],
)
def test_what_is_not_known_of_a_round_names_nothing(
    rounds: list[Why | None], word: str, numbers: tuple[int, ...]
) -> None:
    found = _found(*(made_figures(100, why=why) for why in rounds))
    assert (found.bottleneck, found.bottleneck_rounds) == (word, numbers)
    assert bool(found.bottleneck_evidence) == bool(numbers)
