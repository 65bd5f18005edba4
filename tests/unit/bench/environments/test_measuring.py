"""What follows from how the clients of a trial ended."""

from __future__ import annotations

import pytest

from grampus.bench.drivers.outcome import DriverOutput, DriverResult
from grampus.bench.environments.clients import ClientEnd
from grampus.bench.environments.measuring import decide_busy_threads, decide_load_s
from grampus.bench.latency.histogram import (
    LatencyHistogram,
    histogram_of_latencies,
    merge_histograms,
)

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


def _result(operations: int, latency: LatencyHistogram, *, elapsed_s: float = 14.0) -> DriverResult:
    """Of 10 s at full load, behind which the last requests are waited for."""
    return DriverResult(
        driver="rados bench",
        loop="closed",
        operations=operations,
        elapsed_s=elapsed_s,
        seconds=(),
        latency=latency,
    )


def _made(operations: int, latency_s: float) -> LatencyHistogram:
    return histogram_of_latencies([round(latency_s * 1e9)] * operations, source="made")


@pytest.mark.parametrize(
    ("result", "busy"),
    [
        # 16 threads: 4 operations a second and thread, of 250 ms each.
        (_result(640, _made(640, 0.25)), 16),
        (_result(160, _made(160, 0.25)), 4),  # a client that is slow to begin the next one
        # A device that stalls: one operation for each of eight threads, longer than the load.
        (_result(8, _made(8, 21.4), elapsed_s=22.3), 17.1),
        # A device that slows down at the begin: 22 operations a second later on, of 359 ms.
        (_result(628, _made(628, 0.1424), elapsed_s=11.3), 8.9),
        (_result(160, _made(160, 0.25), elapsed_s=5), 8),  # it ended before its time
    ],
)
def test_threads_that_wait_for_requests_are_not_idle(result: DriverResult, busy: float) -> None:
    assert decide_busy_threads([result], asked_s=10) == pytest.approx(busy, rel=0.02)
    assert decide_busy_threads([result] * 2, asked_s=10) == pytest.approx(2 * busy, rel=0.02)


def test_of_a_client_without_latencies_nothing_is_known_of_its_threads() -> None:
    results = [_result(640, _made(640, 0.25)), _result(640, merge_histograms([]))]
    assert decide_busy_threads(results, asked_s=10) is None
