"""The page of the emulated hard disk."""

from __future__ import annotations

import pytest

from grampus.core.units import KIB, MIB
from grampus.hosts.media import HARD_DISK
from tests.proof.hard_disk import PATTERNS, Measured, Pattern, render_page


def test_each_size_is_measured_in_both_orders_and_directions() -> None:
    assert len(PATTERNS) == len(set(PATTERNS)) == 3 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("pattern", "took_s", "deviation"),
    [
        (Pattern("read", 4 * MIB, False, 8), 0.0201, 0.0),
        (Pattern("write", 4 * MIB, True, 1), 0.02665 * 1.2, 0.2),
        (Pattern("read", 64 * KIB, True, 1), (0.00665 + 0.0003125) * 0.5, -0.5),
    ],
)
def test_a_slower_one_is_above_its_model(pattern: Pattern, took_s: float, deviation: float) -> None:
    assert Measured(pattern, took_s).deviation(HARD_DISK) == pytest.approx(deviation)


def test_the_page_names_what_is_furthest_from_the_model() -> None:
    near = Measured(Pattern("read", 4 * MIB, False, 8), 0.0201)
    fast = Measured(Pattern("write", 64 * KIB, True, 1), 0.0069625 * 0.7)
    page = render_page([near, fast])
    assert "Furthest from it: random writes of 64 KiB, 1 at a time, -30.0 %" in page
    assert "| sequential reads of 4 MiB, 8 at a time | 49.8 | 49.8 | 199.0 | +0.0 % |" in page
