from __future__ import annotations

import math

import pytest

from grampus.report.figures import mean
from grampus.report.series import (
    Summary,
    arm_line,
    arm_lines,
    highest,
    insert_gaps,
    offsets_s,
    summarise,
    warmup_end_s,
)
from grampus.state.runs import OltpSample


def samples(*points: tuple[float, float]) -> list[OltpSample]:
    return [
        OltpSample(at_s=at, tps=value, qps=value, latency_p99_ms=value, errors_per_s=0)
        for at, value in points
    ]


@pytest.mark.parametrize(
    ("at_s", "expected"),
    [
        ([], []),
        ([100.2], [0.0]),
        ([100.2, 101.25, 102.1], [0.0, 1.0, 2.0]),
        ([100.0, 100.3, 101.0], [0.0, 0.3, 1.0]),
    ],
)
def test_offsets_are_whole_seconds_where_that_keeps_samples_apart(at_s, expected):
    assert offsets_s(at_s) == expected


@pytest.mark.parametrize(
    ("times", "started_at_s", "expected"),
    [
        ([100.0, 101.0, 110.0], 105.0, 5.0),
        ([100.0, 110.0], 100.0, None),
        ([100.0, 110.0], 90.0, None),
        ([100.0, 110.0], 500.0, None),
        ([100.0, 110.0], math.nan, None),
        ([math.nan], 100.0, None),
        ([], 100.0, None),
    ],
)
def test_end_of_warm_up_lies_within_the_samples(times, started_at_s, expected):
    assert warmup_end_s(samples(*((at, 1.0) for at in times)), started_at_s) == expected


def test_a_line_is_sorted_and_has_holes_for_missing_values():
    line = arm_line(
        "ceph",
        samples((102.0, 3.0), (100.0, 1.0), (101.0, math.nan), (math.inf, 9.0)),
        100.5,
        lambda sample: sample.tps,
        mean,
        100,
    )
    assert line is not None
    assert line.x_s == (0.0, 1.0, 2.0)
    assert line.y == (1.0, None, 3.0)
    assert line.warmup_s == 0.5


def test_percentiles_are_reduced_to_the_highest_and_rates_to_the_mean():
    kept = samples(*((100.0 + second, float(second % 4)) for second in range(40)))
    p99 = arm_line("ceph", kept, 100.0, lambda s: s.latency_p99_ms, highest, 10)
    tps = arm_line("ceph", kept, 100.0, lambda s: s.tps, mean, 10)
    assert p99 is not None
    assert tps is not None
    assert p99.y == (3.0,) * 10
    assert tps.y == (1.5,) * 10
    assert p99.seconds_a_point == tps.seconds_a_point == 4


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], []),
        ([(0, 1.0)], [(0, 1.0)]),
        ([(0, 1.0), (1, 2.0), (2, 3.0)], [(0, 1.0), (1, 2.0), (2, 3.0)]),
        (
            [(0, 1.0), (1, 2.0), (2, 3.0), (9, 4.0)],
            [(0, 1.0), (1, 2.0), (2, 3.0), (5.5, None), (9, 4.0)],
        ),
        ([(3, 1.0), (3, 2.0)], [(3, 1.0), (3, 2.0)]),
    ],
)
def test_a_hole_between_samples_is_drawn_as_one(points, expected):
    assert insert_gaps(points) == expected


def test_an_arm_without_samples_has_no_line():
    lines = arm_lines(
        {"ceph": [], "local": samples((5.0, 1.0))},
        {"ceph": 0.0, "local": 0.0},
        lambda sample: sample.tps,
        mean,
        10,
    )
    assert [line.arm for line in lines] == ["local"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Summary(None, None, None)),
        ([None, math.nan], Summary(None, None, None)),
        ([1.0, None, 3.0], Summary(1.0, 2.0, 3.0)),
    ],
)
def test_summary_skips_holes(values, expected):
    assert summarise(values) == expected
