"""The limits of repeated looks against published ones."""

from __future__ import annotations

import itertools
from statistics import NormalDist

import pytest

from grampus.bench.statistics.sequential_levels import nominal_levels, spend_by_rounds

NORMAL = NormalDist()


def _limits(fractions: tuple[float, ...], spendings: tuple[float, ...]) -> list[float]:
    return [NORMAL.inv_cdf(1 - level / 2) for level in nominal_levels(fractions, spendings)]


def test_five_looks_that_spend_in_proportion() -> None:
    # Lan and DeMets' program, spending function alpha t, two-sided 5%.
    fractions = (0.2, 0.4, 0.6, 0.8, 1.0)
    spendings = spend_by_rounds((1, 2, 3, 4, 5), 5, error=0.05)
    assert _limits(fractions, spendings) == pytest.approx([2.58, 2.49, 2.41, 2.34, 2.28], abs=6e-3)


def test_five_looks_that_spend_as_obrien_and_fleming() -> None:
    # The same program: 4.8769, 3.3569, 2.6803, 2.2898, 2.0310.
    fractions = (0.2, 0.4, 0.6, 0.8, 1.0)
    half = NORMAL.inv_cdf(1 - 0.05 / 4)
    spent = [4 - 4 * NORMAL.cdf(half / share**0.5) for share in fractions]
    spendings = (spent[0], *(b - a for a, b in itertools.pairwise(spent)))
    assert _limits(fractions, spendings) == pytest.approx(
        [4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=2e-3
    )


def test_one_look_spends_it_all() -> None:
    assert nominal_levels((1.0,), (0.05,)) == pytest.approx((0.05,))


def test_later_looks_never_get_more_than_all() -> None:
    looks = tuple(range(2, 41))
    levels = nominal_levels(
        tuple(look / 40 for look in looks), spend_by_rounds(looks, 40, error=0.05)
    )
    # The second look's own share is half of the first's, which spent for two rounds.
    assert levels[0] == pytest.approx(0.0025)
    assert all(0 < level < 0.05 for level in levels)
    assert list(levels[1:]) == sorted(levels[1:])


@pytest.mark.parametrize(
    ("fractions", "spendings"),
    [
        ((), ()),
        ((0.5,), (0.1, 0.2)),
        ((0.5, 0.5), (0.01, 0.01)),
        ((0.6, 0.5), (0.01, 0.01)),
        ((0.0, 1.0), (0.01, 0.01)),
        ((1.1,), (0.05,)),
    ],
)
def test_looks_that_cannot_be_meant(
    fractions: tuple[float, ...], spendings: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match="fractions"):
        nominal_levels(fractions, spendings)
