"""What follows from how the clients of a visit ended."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import DriverOutput
from grampus.bench.stands.clients import ClientEnd
from grampus.bench.stands.measuring import decide_load_s

NOTHING_SAID = DriverOutput("", "", 0)


def _end(began_at_s: float, ended_at_s: float) -> ClientEnd:
    return ClientEnd("c", NOTHING_SAID, began_at_s - 1, began_at_s, ended_at_s, cpu_s=None)


@pytest.mark.parametrize(
    ("ends", "expected_s"),
    [
        ([], 0),
        ([_end(10, 21)], 11),
        # As long as any of them loads.
        ([_end(10, 21), _end(12, 23)], 13),
        ([_end(12, 15), _end(10, 21)], 11),
    ],
)
def test_the_load_lasts_from_the_first_beginning_to_the_last_end(
    ends: list[ClientEnd], expected_s: float
) -> None:
    assert decide_load_s(ends) == expected_s
