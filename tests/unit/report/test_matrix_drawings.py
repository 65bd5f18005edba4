"""Where the drawings of a matrix page put what they show."""

from __future__ import annotations

from typing import Any

import pytest

from grampus.report.drawing import (
    MAX_LINES,
    PLOT_BOTTOM,
    PLOT_LEFT,
    PLOT_RIGHT,
    PLOT_TOP,
    Axis,
    axis_from_zero,
    format_tick,
    linear_ticks,
    log_axis_of,
    log_ticks,
)
from grampus.report.figures import MISSING
from grampus.report.matrix.factors import Factor, arm_names, decide_factors, varied_names
from grampus.report.matrix.findings import FoundCell, FoundComparison, FoundEffect
from grampus.report.matrix.forest import (
    decide_forest_axis,
    decide_forests,
    describe_verdict,
)
from grampus.report.matrix.heat_maps import decide_sides, draw_heat_maps
from grampus.report.matrix.load_curves import decide_load, draw_load_curves
from grampus.report.matrix.percentile_plots import (
    draw_percentile_plots,
    place_percent,
)
from grampus.report.matrix.trial_series import (
    SERIES_WIDTH,
    draw_series,
    thin_out,
    warmup_seconds,
)
from grampus.report.matrix.words import format_ratio
from grampus.state.matrix_runs import Trial

from .made_findings import figures_of, made_cell, made_cell_latency, made_seconds


def made_matrix(**dimensions: list[Any]) -> list[FoundCell]:
    """A cell for each combination, twice as fast with twice the threads; media are the arms."""
    points: list[dict[str, Any]] = [{}]
    for name, values in dimensions.items():
        points = [{**point, name: value} for point in points for value in values]
    return [
        made_cell(point, 100.0 * point.get("threads", 1), arm=point.get("media"))
        for point in points
    ]


def made_comparison(*ratios: float | None, **changed: Any) -> FoundComparison:
    """`ratios` are the ratio, the lowest and the highest; without any it was not compared."""
    effect = None
    if ratios:
        effect = FoundEffect(ratio=ratios[0], low=ratios[1], high=ratios[2], rounds=3)
    content = {
        "arm": "nvme",
        "baseline": "hdd",
        "name": "threads 8",
        "quantity": "qps",
        "better": "more",
        "word": "undecided",
        "effect": effect,
        "reason": None,
        **changed,
    }
    return FoundComparison(**content)


@pytest.mark.parametrize(
    ("lowest", "highest", "ticks"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 1050, [0, 200, 400, 600, 800, 1000]),
        (0, 0.07, [0, 0.02, 0.04, 0.06]),
    ],
)
def test_linear_ticks_are_round(lowest: float, highest: float, ticks: list[float]) -> None:
    assert linear_ticks(lowest, highest) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("lowest", "highest", "ticks"),
    [
        (0.8, 1.25, [0.8, 0.9, 1, 1.1, 1.2]),
        (0.3, 4, [0.3, 0.5, 0.7, 1, 1.5, 2, 3]),
        (0.05, 50, [0.1, 0.3, 1, 3, 10, 30]),
        (1e-9, 1e9, [1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9]),
    ],
)
def test_logarithmic_ticks_are_round_and_few(
    lowest: float, highest: float, ticks: list[float]
) -> None:
    assert log_ticks(lowest, highest) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (20, "20"), (1200, "1200"), (12_000, "12k"), (1.5e6, "1.5M"), (0, "0")],
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert format_tick(value) == text


def test_an_axis_keeps_everything_inside() -> None:
    axis = Axis(0.5, 2.0, 10.0, 110.0, is_logarithmic=True)
    assert [axis.place(value) for value in (0.1, 0.5, 1.0, 2.0, 9.0)] == [10, 10, 60, 110, 110]
    assert axis_from_zero([], 0.0, 100.0).place(0.0) == 0.0
    assert axis_from_zero([0.0], 100.0, 0.0).place(0.0) == 100.0
    equal = log_axis_of([5.0, 5.0], 0.0, 100.0)
    assert equal.lowest < 5.0 < equal.highest
    assert equal.place(5.0) == pytest.approx(50.0)


def test_dimensions_that_change_together_are_one_factor() -> None:
    cells = [
        made_cell({"profile": profile, "write_path": path, "threads": threads})
        for profile, path in (("defaults", "direct"), ("grampus", "journal"))
        for threads in (8, 1)
    ]
    assert varied_names(cells) == ("profile", "write_path", "threads")
    assert decide_factors(cells) == (
        Factor(("profile", "write_path"), (("defaults", "direct"), ("grampus", "journal"))),
        Factor(("threads",), ((1,), (8,))),
    )


def test_arms_are_told_apart_by_what_is_one_value_in_each() -> None:
    assert arm_names(made_matrix(media=["hdd", "nvme"], threads=[1, 8])) == ("media",)
    assert arm_names([made_cell({"threads": 1}), made_cell({"threads": 8})]) == ()


def test_a_forest_has_its_ratios_on_a_logarithmic_axis_with_the_one() -> None:
    forest, latency = decide_forests(
        [
            made_comparison(2.0, 1.5, 3.0, word="better", remains=True),
            made_comparison(1.0, 0.7, 1.4),
            made_comparison(0.5, None, None),
            made_comparison(word="not-compared", reason="An OSD was down."),
            made_comparison(2.0, 1.5, 3.0, word="worse", quantity="latency-p99"),
        ]
    )
    better, either, alone, none = forest.rows
    assert better.low is not None
    assert better.middle is not None
    assert better.high is not None
    assert forest.one < better.low < better.middle < better.high
    assert either.middle == forest.one
    assert (alone.low, alone.high, alone.interval) == (None, None, MISSING)
    assert alone.middle is not None
    assert forest.one - alone.middle == pytest.approx(better.middle - forest.one, abs=0.2)
    assert (none.middle, none.verdict) == (None, "not compared: An OSD was down.")
    assert none.alternative == "nvme ÷ hdd, threads 8: not compared: An OSD was down."
    assert [row.side for row in (*forest.rows, *latency.rows)] == [
        "better",
        "either",
        "either",
        "either",
        "worse",
    ]
    assert forest.one in [tick.at for tick in forest.ticks if tick.text == "1"]


def test_an_interval_without_end_is_cut_and_says_so() -> None:
    (forest,) = decide_forests(
        [made_comparison(0.42, 1.4e-6, 1.3e5), made_comparison(1.1, 1.05, 1.2)]
    )
    wide, narrow = forest.rows
    assert (wide.is_cut_low, wide.is_cut_high) == (True, True)
    assert (narrow.is_cut_low, narrow.is_cut_high) == (False, False)
    assert wide.interval == "1.4e-06 to 1.3e+05"
    assert narrow.low is not None
    assert narrow.high is not None
    assert narrow.high - narrow.low > 2


@pytest.mark.parametrize("ratio", [None, 0.0, float("inf"), float("nan")])
def test_what_has_no_place_on_the_axis_is_not_drawn(ratio: float | None) -> None:
    (forest,) = decide_forests([made_comparison(ratio, None, None)])
    assert forest.rows[0].middle is None
    axis = decide_forest_axis([FoundEffect(ratio=ratio, low=None, high=None, rounds=1)])
    assert axis.lowest < 1 < axis.highest


@pytest.mark.parametrize(
    ("comparison", "verdict"),
    [
        (made_comparison(2.0, 1.5, 3.0, word="better", remains=True), "better"),
        (
            made_comparison(2.0, 1.5, 3.0, word="better", remains=False),
            "better (may be chance among so many)",
        ),
        (made_comparison(2.0, None, None), "undecided (3 rounds, no interval)"),
        (made_comparison(1.0, 0.99, 1.01, word="no-difference"), "no difference"),
    ],
)
def test_verdicts_in_words(comparison: FoundComparison, verdict: str) -> None:
    assert describe_verdict(comparison) == verdict


@pytest.mark.parametrize(
    ("detectable", "said"), [(0.05, "show 5% or more"), (5.0, "would not show a doubling")]
)
def test_undecided_says_what_would_have_been_seen(detectable: float, said: str) -> None:
    effect = FoundEffect(ratio=1.0, low=0.9, high=1.1, rounds=3, detectable=detectable)
    assert said in describe_verdict(made_comparison().model_copy(update={"effect": effect}))


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.9864, "0.986"),
        (33.2, "33.2"),
        (1250.4, "1,250"),
        (2.0, "2"),
        (1.4e-6, "1.4e-06"),
        (0.0, "0"),
        (0.000541, "0.000541"),
        (None, MISSING),
    ],
)
def test_ratios_have_three_digits(ratio: float | None, text: str) -> None:
    assert format_ratio(ratio) == text


def test_a_curve_goes_along_the_load_and_has_a_line_for_each_arm() -> None:
    charts = draw_load_curves(made_matrix(media=["hdd", "nvme"], threads=[8, 1, 4]), 9)
    (chart,) = charts.drawn
    assert chart.title == "update-index, along threads (closed loop)"
    assert [line.label for line in chart.lines] == ["media hdd", "media nvme"]
    xs = [dot.x for dot in chart.lines[0].dots]
    assert xs == sorted(xs)
    assert PLOT_LEFT < xs[0] < xs[-1] < PLOT_RIGHT
    assert all(PLOT_TOP < dot.y < PLOT_BOTTOM for dot in chart.lines[0].dots)
    assert "threads 8: 800 transactions/s, p99 5.00 ms" in chart.lines[0].dots[-1].text


def test_a_chart_holds_one_place_in_the_matrix() -> None:
    cells = made_matrix(media=["hdd", "nvme"], threads=[1, 8], copies=[2, 3])
    titles = [chart.title for chart in draw_load_curves(cells, 9).drawn]
    assert titles == [f"copies {n}, along threads (closed loop)" for n in (2, 3)]
    fewer = draw_load_curves(cells, 1)
    assert len(fewer.drawn) == 1
    assert fewer.note == "1 more chart is not drawn; the table has its figures."


def test_open_and_closed_loops_are_never_in_one_chart() -> None:
    closed = made_matrix(threads=[1, 8])
    opened = [
        made_cell({"threads": 8, "rate": rate}, float(rate), loop="open") for rate in (50, 100)
    ]
    curves = draw_load_curves([*closed, *opened], 9).drawn
    assert [(chart.title, len(chart.lines[0].dots)) for chart in curves] == [
        ("update-index, along threads (closed loop)", 2),
        ("update-index, along rate (open loop)", 2),
    ]
    plots = draw_percentile_plots([*closed, *opened], 9).drawn
    assert [chart.title for chart in plots] == [
        "update-index, rate none (closed loop)",
        "update-index, threads 8 (open loop)",
    ]
    heat = draw_heat_maps([*made_matrix(threads=[1, 8], copies=[1, 2]), *opened], 9)
    assert len(heat.drawn) == 1
    assert "Cells with a rate are left out" in heat.note


def test_cells_without_a_point_are_not_drawn_and_client_bound_ones_are_hollow() -> None:
    cells = [
        made_cell({"threads": 1}),
        made_cell({"threads": 2}, None),
        made_cell({"threads": 4}, latency=made_cell_latency(p99=None)),
        made_cell({"threads": 8}, latency=None),
        made_cell({"threads": 16}, client_bound="yes"),
    ]
    (chart,) = draw_load_curves(cells, 9).drawn
    assert [dot.is_hollow for dot in chart.lines[0].dots] == [False, True]
    assert chart.lines[0].dots[1].text.endswith("ms, client-bound")
    assert draw_load_curves(cells[:2], 9).drawn == ()


@pytest.mark.parametrize(
    ("dimensions", "load"),
    [
        ({"media": ["hdd", "nvme"]}, None),
        ({"threads": [1, 8], "clients": [1, 2, 4]}, "clients"),
        ({"clients": [1, 2], "threads": [1, 8]}, "threads"),
    ],
)
def test_the_load_is_what_takes_most_values(
    dimensions: dict[str, list[Any]], load: str | None
) -> None:
    assert decide_load(made_matrix(**dimensions)) == load


def test_a_chart_has_no_more_lines_than_colours() -> None:
    cells = made_matrix(threads=[1, 8], trx_commit=list(range(MAX_LINES + 1)))
    assert [len(chart.lines) for chart in draw_load_curves(cells, 9).drawn] == [MAX_LINES, 1]
    assert max(len(chart.lines) for chart in draw_percentile_plots(cells, 9).drawn) == MAX_LINES


@pytest.mark.parametrize(
    ("dimensions", "sides"),
    [
        ({"threads": [1, 8]}, None),
        ({"threads": [1, 8], "media": ["hdd", "ssd", "nvme"]}, ("media", "threads")),
        ({"copies": [1, 2], "media": ["hdd", "ssd", "nvme"]}, ("copies", "media")),
        ({"workload": ["a", "b", "c"], "threads": [1, 8]}, ("workload", "threads")),
        (
            {"workload": ["a", "b", "c"], "threads": [1, 8], "copies": [1, 2]},
            ("copies", "threads"),
        ),
    ],
)
def test_sides_of_a_heat_map(
    dimensions: dict[str, list[Any]], sides: tuple[str, str] | None
) -> None:
    found = decide_sides(decide_factors(made_matrix(**dimensions)))
    assert (found and (found[0].title, found[1].title)) == sides


def test_a_heat_map_has_the_highest_as_its_deepest_colour() -> None:
    cells = made_matrix(copies=[1, 2], threads=[1, 4])
    cells[3] = made_cell({"copies": 2, "threads": 4}, None)
    cells[1] = cells[1].model_copy(update={"client_bound": "yes"})
    (heat,) = draw_heat_maps(cells, 9).drawn
    assert (heat.columns, [row.title for row in heat.rows]) == (("1", "4"), ["1", "2"])
    fields = [field for row in heat.rows for field in row.fields]
    assert [field.share for field in fields] == [25, 100, 25, None]
    assert [field.is_client_bound for field in fields] == [False, True, False, False]
    assert (fields[3].text, fields[3].reason) == (MISSING, "An OSD was down.")


def test_each_workload_has_its_own_colours() -> None:
    cells = [
        made_cell({"workload": workload, "threads": threads}, rate * threads)
        for workload, rate in (("point-select", 1000.0), ("update-index", 10.0))
        for threads in (1, 2)
    ]
    heat = draw_heat_maps(cells, 9)
    assert [[field.share for field in row.fields] for row in heat.drawn[0].rows] == [[50, 100]] * 2
    assert "highest of its row" in heat.note


def test_further_dimensions_have_maps_of_their_own() -> None:
    cells = made_matrix(copies=[1, 2, 3], threads=[1, 4], media=["hdd", "nvme"])
    assert [one.title for one in draw_heat_maps(cells, 9).drawn] == ["media hdd", "media nvme"]
    assert "1 more map is not drawn" in draw_heat_maps(cells, 1).note


def test_each_further_nine_is_as_far_again() -> None:
    places = [place_percent(percent) for percent in (90, 99, 99.9, 99.99)]
    assert places == pytest.approx([1, 2, 3, 4])


def test_a_percentile_of_which_bounds_are_known_is_a_bar() -> None:
    cell = made_cell({"threads": 1}, latency=made_cell_latency(p99=None))
    (chart,) = draw_percentile_plots([cell], 9).drawn
    (line,) = chart.lines
    assert len(line.dots) == 3
    (bar,) = line.whiskers
    assert bar.low > bar.high
    assert bar.text.endswith("p99: between 0.600 and 56.0 ms")


def test_arms_are_beside_each_other_in_a_percentile_plot() -> None:
    cells = made_matrix(media=["hdd", "nvme"], threads=[1, 2, 4, 8])
    charts = draw_percentile_plots(cells, 9).drawn
    assert [len(chart.lines) for chart in charts] == [6, 2]
    assert [line.label for line in charts[1].lines] == ["media hdd", "media nvme"]
    assert charts[1].title == "update-index, threads 8 (closed loop)"
    assert draw_percentile_plots(cells, 1).note.startswith("2 more cells")


def test_a_percentile_plot_names_client_bound_cells() -> None:
    cells = made_matrix(threads=[1, 8])
    cells[1] = cells[1].model_copy(update={"client_bound": "yes"})
    (chart,) = draw_percentile_plots(cells, 9).drawn
    assert [line.label for line in chart.lines] == ["threads 1", "threads 8, client-bound"]


@pytest.mark.parametrize(
    ("values", "max_points", "points"),
    [
        ([], 3, []),
        ([1.0, 3.0], 3, [(0.5, 1.0), (1.5, 3.0)]),
        ([1.0, 3.0, 5.0, 7.0, 9.0], 3, [(1.0, 2.0), (3.0, 6.0), (4.5, 9.0)]),
    ],
)
def test_seconds_are_thinned_out(
    values: list[float], max_points: int, points: list[tuple[float, float]]
) -> None:
    assert thin_out(values, max_points) == points


def trial_of(number: int, **changed: Any) -> Trial:
    content: dict[str, Any] = {
        "cell_id": "threads 1",
        "round": number,
        "started_at_s": 1.0,
        "ended_at_s": 9.0,
        "figures": figures_of(100),
        **changed,
    }
    return Trial(**content)


def test_a_drawing_has_a_line_for_each_round_and_shades_its_warm_up() -> None:
    warm = figures_of(100, seconds=made_seconds(100, 8), measured_s=6)
    assert warmup_seconds(warm) == 2
    trials = [
        trial_of(1),
        trial_of(2, figures=None, marked="An OSD was down."),
        trial_of(3, figures=figures_of(100, seconds=())),
        trial_of(4),
        trial_of(4, figures=warm),
    ]
    cells = [made_cell({"threads": 1}), made_cell({"threads": 8})]
    (drawn,) = draw_series(cells, trials, 60)
    assert [line.round for line in drawn.lines] == [1, 4]
    assert drawn.warmup_width == pytest.approx(SERIES_WIDTH / 4)
    assert drawn.caption == "100 to 102/s over 8 s, the first 2 s warm-up"
    assert len(drawn.lines[1].path.split()) == 8
    (without,) = draw_series(cells, trials[:1], 3)
    assert without.warmup_width is None
    assert len(without.lines[0].path.split()) == 3
