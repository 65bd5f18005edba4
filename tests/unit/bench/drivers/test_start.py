"""A common start, from clocks that differ."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.start import Client, ClockOffset, decide_offset, decide_start
from grampus.core.errors import RefusedError


@pytest.mark.parametrize(
    ("exchanges", "offset_s", "error_s"),
    [
        ([(100.0, 105.0, 100.0)], 5.0, 0.0),
        ([(100.0, 105.0, 100.2)], 4.9, 0.1),
        ([(100.0, 95.0, 102.0), (200.0, 194.98, 200.02), (300.0, 299.0, 301.0)], -5.03, 0.01),
    ],
)
def test_the_shortest_exchange_says_the_offset(
    exchanges: list[tuple[float, float, float]], offset_s: float, error_s: float
) -> None:
    clock = decide_offset(exchanges)
    assert clock.offset_s == pytest.approx(offset_s)
    assert clock.error_s == pytest.approx(error_s)


@pytest.mark.parametrize("exchanges", [[], [(100.0, 100.0, 99.0)]])
def test_no_offset_without_an_exchange(exchanges: list[tuple[float, float, float]]) -> None:
    with pytest.raises(ValueError, match="exchange"):
        decide_offset(exchanges)


def test_all_start_at_one_moment_each_on_its_own_clock() -> None:
    clients = [
        Client("a", ClockOffset(0.0, 0.0), launch_s=0.2),
        Client("b", ClockOffset(-3600.5, 0.1), launch_s=2.0),
        Client("c", ClockOffset(12.25, 0.05), launch_s=0.1),
    ]
    plan = decide_start(clients, now_s=1000.45)
    # 1000.45, 2 s to launch, 0.1 s of doubt, 0.5 s of margin: 1003.05.
    assert plan.start_at_s == 1004.0
    assert plan.own_start_at_s == {"a": 1004.0, "b": 1004.0 - 3600.5, "c": 1004.0 + 12.25}
    assert plan.skew_s == 0.2


@pytest.mark.parametrize(
    ("clients", "code", "words"),
    [
        (
            [Client("a", ClockOffset(0, 0.0), 0), Client("b", ClockOffset(0, 0.3), 0)],
            "client-clock",
            "The clock of client b is known to 0.30 s only",
        ),
        ([Client("a", ClockOffset(0, 0.0), 0)] * 2, "client-names", "the same name"),
    ],
)
def test_clients_that_cannot_start_together_are_refused(
    clients: list[Client], code: str, words: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        decide_start(clients, now_s=0)
    assert caught.value.code == code
    assert words in caught.value.problem


def test_nobody_cannot_start() -> None:
    with pytest.raises(ValueError, match="nobody"):
        decide_start([], now_s=0)
