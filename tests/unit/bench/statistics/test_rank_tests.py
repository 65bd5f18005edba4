"""Trends and steps against values worked out by hand, and with dependent noise."""

from __future__ import annotations

import math
import random

import pytest

from grampus.bench.statistics.rank_tests import find_step, find_trend


def _dependent(source: random.Random, count: int, correlation: float) -> list[float]:
    state, values = source.gauss(0, 1), []
    for _ in range(count):
        values.append(1000 * (1 + 0.1 * state))
        state = correlation * state + math.sqrt(1 - correlation**2) * source.gauss(0, 1)
    return values


def test_a_straight_line_is_its_own_trend() -> None:
    trend = find_trend([100.0 + i for i in range(21)], level=0.05)
    # Ten and a half seconds from half to half, at 1 a second, of a median of 110.
    assert trend.drift == pytest.approx(10.5 / 110)
    assert trend.half_width == pytest.approx(0.0)
    # S = 210, its variance 21 * 20 * 47 / 18 = 1096.67: z = 209 / 33.12 = 6.31.
    assert trend.p == pytest.approx(math.erfc(209 / math.sqrt(21 * 20 * 47 / 18) / math.sqrt(2)))


@pytest.mark.parametrize("value", [1.0, 1e-300, 1e300])
def test_a_constant_has_neither_trend_nor_step(value: float) -> None:
    trend, step = find_trend([value] * 30, level=0.05), find_step([value] * 30)
    assert (trend.p, trend.drift, trend.half_width) == (1.0, 0.0, 0.0)
    assert (step.p, step.height) == (1.0, 0.0)


def test_a_step_is_found_where_it_is() -> None:
    wobble = [(-1.0) ** i for i in range(40)]
    step = find_step([100 + w for w in wobble[:30]] + [150 + w for w in wobble[30:]])
    assert step.place == pytest.approx(0.75)
    assert step.height == pytest.approx(0.5, abs=0.02)
    # K = 2 * 30 * 15.5 - 30 * 41 = -300, less than for independent ranks only in the formula.
    assert step.p == pytest.approx(2 * math.exp(-6 * 300**2 / (40**3 + 40**2)), rel=1e-6)


def test_one_enormous_value_is_neither() -> None:
    source = random.Random(3)  # noqa: S311
    values = _dependent(source, 60, 0.0)
    values[40] = 1e15
    assert find_trend(values, level=0.05).p > 0.05
    assert find_step(values).p > 0.05
    assert abs(find_trend(values, level=0.05).drift) < 0.1


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_dependent_seconds_are_no_trend(correlation: float) -> None:
    """Without the correction a correlation of 0.8 makes a trend of 50% of these series."""
    source = random.Random(5)  # noqa: S311
    series = [_dependent(source, 30, correlation) for _ in range(200)]
    trends = sum(find_trend(one, level=0.05).p <= 0.05 for one in series)
    steps = sum(find_step(one).p <= 0.05 for one in series)
    # 5% are 10; a correlation that is estimated from 30 values makes a few more, and without the
    # correction of its bias too many: 26.
    assert trends <= 21
    assert steps <= 21


def test_the_interval_holds_a_true_trend() -> None:
    source = random.Random(6)  # noqa: S311
    held = 0
    for _ in range(200):
        values = [value + 4 * i for i, value in enumerate(_dependent(source, 60, 0.5))]
        trend = find_trend(values, level=0.05)
        held += abs(trend.drift - 4 * 30 / 1118) <= trend.half_width
    assert held >= 176  # of the 190 that 95% would be


@pytest.mark.parametrize("values", [[], [1.0] * 9, [0.0] * 30])
def test_too_little_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="no trend"):
        find_trend(values, level=0.05)
    with pytest.raises(ValueError, match="no trend"):
        find_step(values)
