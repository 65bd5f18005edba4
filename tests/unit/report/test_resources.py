from __future__ import annotations

import math

import pytest

from grampus.report.resources import (
    MAX_SERIES,
    Grid,
    Subject,
    decide_grid,
    natural_key,
    resample,
    resource_charts,
    sum_series,
    typical_interval_s,
)
from grampus.state.runs import ResourceSample

from .made_runs import DAEMONS, made_run

GRID = Grid(start_s=100.0, step_s=1.0, bins=4)


def cpu(name: str, at_s: float, cores: float | None, kind: str = "daemon") -> ResourceSample:
    return ResourceSample.model_validate(
        {"at_s": at_s, "kind": kind, "name": name, "cpu_cores": cores}
    )


@pytest.mark.parametrize(
    ("subject", "family"),
    [
        (Subject("daemon", "osd-0@h1"), "osd"),
        (Subject("daemon", "mysqld-demo@h1"), "mysqld"),
        (Subject("daemon", "0"), "other"),
        (Subject("daemon", ""), "other"),
        (Subject("volume", "osd-1"), "volume"),
        (Subject("machine", "machine"), "machine"),
    ],
)
def test_family_of_a_subject(subject, family):
    assert subject.family == family


@pytest.mark.parametrize(
    ("times", "interval"),
    [([], 1.0), ([[5.0]], 1.0), ([[0.0, 2.0, 4.0], [1.0, 3.0]], 2.0), ([[1.0, 1.0]], 1.0)],
)
def test_typical_interval(times, interval):
    assert typical_interval_s(times) == interval


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        # A sample stands for the time up to it.
        ([(101.0, 1.0), (102.0, 2.0), (103.0, 3.0), (104.0, 4.0)], (1.0, 2.0, 3.0, 4.0)),
        # Between the grid's edges the mean is weighted by time.
        ([(101.5, 2.0), (102.5, 4.0), (103.5, 8.0)], (2.0, 3.0, 6.0, 8.0)),
        # Twice the typical interval is still known; five times is a hole.
        ([(101.0, 1.0), (102.0, 1.0), (104.0, 5.0)], (1.0, 1.0, 5.0, 5.0)),
        ([(95.0, 1.0), (96.0, 1.0), (97.0, 1.0), (104.0, 5.0)], (None, None, None, 5.0)),
        # Outside the grid.
        ([(50.0, 1.0)], (None, None, None, None)),
        ([(900.0, 1.0)], (None, None, None, None)),
        ([], (None, None, None, None)),
    ],
)
def test_resampling_keeps_time_weighted_means(points, expected):
    assert resample(points, GRID) == expected


def test_resampling_onto_fewer_bins_keeps_the_total():
    points = [(100.0 + second, float(second)) for second in range(1, 5)]
    assert resample(points, Grid(100.0, 2.0, 2)) == (1.5, 3.5)


@pytest.mark.parametrize(("max_bins", "bins"), [(600, 10), (5, 5), (1, 1)])
def test_grid_is_as_fine_as_the_samples_up_to_a_limit(max_bins, bins):
    samples = [cpu("osd-0", 100.0 + second, 1.0) for second in range(1, 11)]
    assert decide_grid(samples, max_bins) == Grid(100.0, 10 / bins, bins)


@pytest.mark.parametrize("samples", [[], [cpu("osd-0", math.nan, 1.0)]])
def test_no_grid_without_times(samples):
    assert decide_grid(samples, 600) is None
    assert resource_charts(samples, None) == ()


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["osd-0@h1", "osd-2@h1", "osd-10@h1", "osd-10@h2"],
        ["2", "10", "a", "a1", "a1b", "b"],
        ["1" * 5000, "²"],
    ],
)
def test_names_are_sorted_as_people_count(names):
    backwards = names[::-1]
    assert sorted(backwards, key=natural_key) == names


def test_one_sample_makes_a_grid_of_one_bin():
    samples = [cpu("osd-0", 100.0, 0.5)]
    (chart,) = resource_charts(samples, decide_grid(samples, 600))
    assert chart.series[0].y == (0.5,)


def test_sums_skip_holes_but_keep_common_ones():
    assert sum_series([(1.0, None, None), (2.0, 3.0, None)]) == (3.0, 3.0, None)


def charts_of(samples):
    return {chart.key: chart for chart in resource_charts(samples, decide_grid(samples, 600))}


def test_a_run_fills_all_charts():
    charts = charts_of(made_run().resources)
    assert list(charts) == [
        "cpu",
        "memory",
        "read-iops",
        "write-iops",
        "read-rate",
        "write-rate",
    ]
    assert [series.label for series in charts["cpu"].series if not series.overlay] == sorted(
        DAEMONS
    )
    assert [series.label for series in charts["cpu"].series if series.overlay] == ["Whole machine"]
    labels = [series.label for series in charts["write-iops"].series]
    assert labels[0] == "volume demo"
    assert {"osd-0@h1", "osd-3@h4", "mysqld-demo-local@h1"} <= set(labels)
    assert "mon-a@h1" not in labels
    assert charts["write-iops"].left_out == len(DAEMONS) + 1 - len(labels)


def test_figures_that_are_not_there_make_no_chart():
    samples = [cpu("osd-0", 100.0 + second, None) for second in range(5)]
    assert charts_of(samples) == {}
    assert charts_of([cpu("osd-0", 100.0 + second, math.nan) for second in range(5)]) == {}


def test_idle_volumes_and_daemons_are_still_drawn():
    idle = [
        ResourceSample(at_s=100.0 + second, kind="volume", name="demo", read_iops=0.0)
        for second in range(5)
    ]
    assert charts_of(idle)["read-iops"].series[0].y == (0.0,) * 5


def test_many_daemons_are_summed_in_a_stack_so_that_the_total_stays():
    samples = [
        cpu(f"osd-{number}", 100.0 + second, 0.01 * number)
        for number in range(40)
        for second in range(3)
    ]
    series = charts_of(samples)["cpu"].series
    assert len(series) == MAX_SERIES + 1
    assert series[-1].label == f"{40 - MAX_SERIES} others"
    assert sum(one.y[0] or 0 for one in series) == pytest.approx(0.01 * sum(range(40)))
