from __future__ import annotations

import math

import pytest

from grampus.report.figures import (
    MISSING,
    finite,
    format_clock,
    format_duration,
    format_number,
    format_percent,
    format_times,
    format_utc,
    join_words,
    mean,
)

NOT_FIGURES = (None, math.nan, math.inf, -math.inf)


@pytest.mark.parametrize(
    "show",
    [format_clock, format_duration, format_number, format_percent, format_times, format_utc],
)
@pytest.mark.parametrize("value", NOT_FIGURES)
def test_what_is_no_figure_reads_as_missing(show, value):
    assert show(value) == MISSING


@pytest.mark.parametrize("value", NOT_FIGURES)
def test_finite_keeps_only_figures(value):
    assert finite(value) is None
    assert finite(0) == 0.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([None, math.nan], None), ([1.0, None, 3.0, math.inf], 2.0), ([1e308] * 4, None)],
)
def test_mean_skips_holes_and_never_overflows(values, expected):
    assert mean(values) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.012345, "0.0123"),
        (0.336, "0.336"),
        (0.9996, "1.00"),
        (4.567, "4.57"),
        (9.996, "10.0"),
        (45.04, "45.0"),
        (578.4, "578"),
        (12345.6, "12,346"),
        (-4.567, "-4.57"),
        (1.5e-9, "1.50e-09"),
    ],
)
def test_numbers(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (0.00001, "less than 0.01%"),
        (0.0021, "0.21%"),
        (0.0099, "0.99%"),
        (0.00996, "1.0%"),
        (0.0456, "4.6%"),
        (0.0996, "10%"),
        (0.2345, "23%"),
        (1.2, "120%"),
        (25.0, "2,500%"),
    ],
)
def test_percents(share, text):
    assert format_percent(share) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0, "0.00"),
        (5e-9, "below 1e-6"),
        (0.0336, "0.034"),
        (0.099, "0.099"),
        (0.0999, "0.10"),
        (0.23, "0.23"),
        (1.03, "1.03"),
        (1.996, "2.0"),
        (4.12, "4.1"),
        (9.96, "10"),
        (1180.2, "1,180"),
    ],
)
def test_ratios_as_factors(ratio, text):
    assert format_times(ratio) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, MISSING),
        (0, "0 s"),
        (0.85, "850 ms"),
        (0.9999, "1 s"),
        (12.5, "12.5 s"),
        (42, "42 s"),
        (59.97, "1 min"),
        (200, "3 min 20 s"),
        (3599.9, "1 h"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (65, "1:05"), (3725, "1:02:05"), (-3, "-0:03"), (-0.2, "0:00")],
)
def test_clock(seconds, text):
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("at_s", "text"),
    [
        (1_772_373_909.25, "2026-03-01 14:05:09 UTC"),
        (0, MISSING),
        (-5, MISSING),
        (1e18, MISSING),
    ],
)
def test_instants_are_in_utc(at_s, text):
    assert format_utc(at_s) == text


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_words_are_joined(words, text):
    assert join_words(words) == text
