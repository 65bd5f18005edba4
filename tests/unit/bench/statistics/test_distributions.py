"""Student's t and the binomial interval against published tables."""

from __future__ import annotations

import math

import pytest

from grampus.bench.statistics.distributions import (
    binomial_interval,
    incomplete_beta,
    t_critical,
    t_distribution,
    t_two_sided,
)


@pytest.mark.parametrize(
    ("level", "degrees", "expected"),
    [
        # The table of Student's t in the NIST/SEMATECH e-Handbook, 1.3.6.7.2 (two-sided levels).
        (0.20, 1, 3.078),
        (0.10, 1, 6.314),
        (0.05, 1, 12.706),
        (0.02, 1, 31.821),
        (0.01, 1, 63.657),
        (0.05, 2, 4.303),
        (0.05, 3, 3.182),
        (0.01, 4, 4.604),
        (0.05, 5, 2.571),
        (0.002, 5, 5.893),
        (0.05, 9, 2.262),
        (0.01, 10, 3.169),
        (0.05, 19, 2.093),
        (0.05, 30, 2.042),
        (0.01, 30, 2.750),
        (0.05, 100, 1.984),
        (0.05, 1e7, 1.960),
    ],
)
def test_critical_values_are_those_of_the_table(
    level: float, degrees: float, expected: float
) -> None:
    assert t_critical(level, degrees) == pytest.approx(expected, abs=6e-4)
    assert t_two_sided(t_critical(level, degrees), degrees) == pytest.approx(level, rel=1e-8)


@pytest.mark.parametrize("t", [-1e6, -3.0, -0.1, 0.0, 0.1, 3.0, 1e6])
def test_one_degree_of_freedom_is_the_distribution_of_cauchy(t: float) -> None:
    assert t_distribution(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi, abs=1e-12)


def test_tails_far_out_are_not_rounded_to_zero() -> None:
    # With two degrees of freedom: 1 - t / sqrt(2 + t²), which is 1/t² far out.
    assert t_two_sided(1e5, 2) == pytest.approx(1e-10, rel=1e-6)
    assert t_two_sided(math.inf, 2) == 0.0


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_a_level_that_is_none_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        t_critical(level, 5)


def test_the_beta_function_at_its_ends_and_where_it_is_known() -> None:
    assert incomplete_beta(2, 3, 0.0) == 0.0
    assert incomplete_beta(2, 3, 1.0) == 1.0
    # I_x(1, b) = 1 - (1 - x)^b.
    assert incomplete_beta(1, 7, 0.2) == pytest.approx(1 - 0.8**7, rel=1e-12)
    assert incomplete_beta(7, 1, 0.9) == pytest.approx(0.9**7, rel=1e-12)


@pytest.mark.parametrize(
    ("found", "tries", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),  # 1 - 0.025**(1/10)
        (10, 10, 0.6915, 1.0),
        (5, 10, 0.1871, 0.8129),  # Clopper and Pearson's charts
        (1, 20, 0.0013, 0.2487),
        (50, 1000, 0.0373, 0.0654),
    ],
)
def test_the_binomial_interval_is_exact(found: int, tries: int, low: float, high: float) -> None:
    assert binomial_interval(found, tries) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("found", "tries"), [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_a_share_that_is_none_is_refused(found: int, tries: int) -> None:
    with pytest.raises(ValueError, match="not a share"):
        binomial_interval(found, tries)
